"""A report tells by which tolerances its trials were judged, where a plan changed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.model.record.run import InForce
from labconsole.model.tolerances import Tolerances
from labconsole.report.digest import Digest, describe_tolerances, find_non_default_tolerances
from labconsole.store.open import open_store
from support.job_records import taken as job_taken
from support.report_runs import taken


def test_the_usual_tolerances_are_no_news():
    assert describe_tolerances([find_non_default_tolerances(Tolerances().model_dump())]) == []
    assert describe_tolerances([find_non_default_tolerances({"of_a_later_version": 3})]) == []


def test_trials_are_counted_by_all_that_is_unusual_of_them():
    one, other = (
        find_non_default_tolerances({"other_cpu_ratio": 0.5}),
        find_non_default_tolerances({"other_cpu_ratio": 1.5}),
    )
    both = find_non_default_tolerances({"other_cpu_ratio": 0.5, "foreign_packets": 1_000_000})
    assert describe_tolerances([one, other, (), other, one, both]) == [
        "Judged by other tolerances than the usual: 2 trials by other_cpu_ratio 0.5 instead of 0.1; 2 trials by "
        "other_cpu_ratio 1.5 instead of 0.1; 1 trial by foreign_packets 1000000 instead of 0, other_cpu_ratio 0.5 "
        "instead of 0.1."
    ]


@pytest.mark.parametrize("value", ["much", None, True, [1], 10**400, float("nan"), float("inf")], ids=lambda _: "")
def test_what_is_no_number_is_called_so(value: object):
    (said,) = describe_tolerances([find_non_default_tolerances({"other_cpu_ratio": value})])
    assert "1 trial by other_cpu_ratio no usable number instead of 0.1" in said


IN_FORCE = InForce(tolerances=Tolerances(other_cpu_ratio=0.5).model_dump(), settle_s=0.1, drain_s=None)


def test_runs_are_looked_at_whether_they_enter_or_not():
    run = taken(1, 90)
    digest = Digest({run["run_id"]})
    digest.add({**run, "in_force": IN_FORCE.model_dump()})
    digest.add({**taken(2, 90), "in_force": IN_FORCE.model_dump()})
    assert digest.unusual == [(("other_cpu_ratio", "0.5"),)] * 2


def test_a_report_says_it_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    store = tmp_path / "runs.sqlite"
    with open_store(str(store)) as opened:
        jobs = [job_taken((2.0, 3.0), repetition=each) for each in (1, 2, 3)]
        opened.import_experiments(JOB, [jobs[0], *(job.model_copy(update={"in_force": IN_FORCE}) for job in jobs[1:])])
    assert main(["report", "--store", str(store)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Judged by other tolerances than the usual: 2 trials by other_cpu_ratio 0.5 instead of 0.1." in said
