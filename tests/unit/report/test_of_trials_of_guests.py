"""What a report of trials of guests, without any run, says of them and lists of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.record import JobRecord
from labconsole.store.open import open_store
from support.job_records import taken


def reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: list[JobRecord]) -> tuple[str, Path]:
    store, out = tmp_path / "runs.sqlite", tmp_path / "out"
    with open_store(str(store)) as opened:
        opened.import_experiments(JOB, jobs)
    assert main(["report", "--store", str(store)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert main(["report", "--store", str(store), "--out", str(out), "--formats", "csv,html"]) == 0
    return said, out


def test_that_nothing_was_tested_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    jobs = [taken((2.0, 3.0), repetition=each) for each in (1, 2)]
    said, out = reported(tmp_path, capsys, [*jobs, taken((9.0,), guests=1, working="one", codes=("swapped",))])
    assert "2 trials of 3 enter, of 1 block. • No comparison was tested, so nothing is claimed" in said
    page = " ".join((out / "report.html").read_text().split())
    assert "none was tested; they would be one family for the whole report" in page
    assert "No comparison was tested." in page


def test_every_trial_is_listed_with_what_means_are_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    jobs = [taken((2.0, 3.0)), taken((2.5, 3.5), repetition=2, codes=("swapped",))]
    _, out = reported(tmp_path, capsys, jobs)
    with (out / "trials.csv").open() as file:
        first, second = sorted(csv.DictReader(file), key=lambda row: row["id"])
    assert (first["kind"], first["id"], first["enters"], first["why_not"]) == ("job", jobs[0].job_id, "True", "")
    assert json.loads(first["measured"]) == {"seconds": [2.0, 3.0]}
    assert json.loads(first["asked"])["guests"] == 2
    assert (second["enters"], second["why_not"], second["reason_codes"]) == ("False", jobs[1].verdict.status, "swapped")


def test_a_trial_that_was_taken_again_counts_by_its_newest_attempt(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first = taken((2.0, 3.0), codes=("swapped",))
    again = first.model_copy(
        update={
            "job_id": "20261124T000000Z-again",
            "started_at": "2026-11-24T00:00:00.000Z",
            "verdict": taken((2.0, 3.0)).verdict,
        }
    )
    said, out = reported(tmp_path, capsys, [first, again])
    assert "1 trial of 2 enters, of 1 block." in said
    with (out / "trials.csv").open() as file:
        why = {row["id"]: row["why_not"] for row in csv.DictReader(file)}
    assert why == {first.job_id: "superseded", again.job_id: ""}
