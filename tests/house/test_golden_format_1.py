"""What was written at record format 1 and store version 3 stays readable, verifiable, reportable and migratable.

tests/golden/format-1/README.md says what the files are. They are never renewed, and every test works on a copy.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.model.record.annotations import NotedRecord, PlanNote, exported
from labconsole.model.record.search import SEARCH
from labconsole.store.importing import ExportedExperiment, read_jsonl
from labconsole.store.open import open_store
from labconsole.store.records import parse_record, record_text
from support.golden_sets import GOLDEN_SETS, opened, texts

GOLDEN = GOLDEN_SETS / "format-1"
STORES = {"runs.sqlite": 51, "store-2.sqlite": 6, "store-1.sqlite": 6}
"""How many runs each holds."""


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden set, to be written to."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


def rows(path: Path) -> list[tuple[Any, ...]]:
    """All columns of all runs that the schema had then, read past labconsole."""
    connection = opened(GOLDEN / path.name)
    columns = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(runs)"))
    connection.close()
    connection = opened(path)
    found = connection.execute(f"SELECT {columns} FROM runs ORDER BY run_id").fetchall()
    connection.close()
    return found


def line_of(item: NotedRecord | ExportedExperiment | PlanNote) -> str:
    """A line as ``runs export`` writes it."""
    if isinstance(item, ExportedExperiment):
        return json.dumps({"search": item.record.to_json()}) + "\n"
    if isinstance(item, PlanNote):
        return json.dumps(item.to_json()) + "\n"
    return json.dumps(exported(item.record, item.note)) + "\n"


def test_the_golden_runs_are_found_again_by_their_plans(golden, capsys):
    plans = [str(path) for path in sorted((golden / "plans").glob("golden-*.yaml"))]
    testbed = ["--hosts", str(golden / "hosts.yaml"), "--store", str(golden / "runs.sqlite")]
    assert main(["replay", *plans, *testbed, "--dry-run", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    sums = [line for line in told if line["event"] in ("plan", "searches")]
    # A search of format 1 took what was still queued for arrived: it is kept and reported, and made again.
    assert [(line["plan"], line["stored"], line["remaining"]) for line in sums] == [
        ("golden-list", 4, 0),
        ("golden-matrix", 30, 0),
        ("golden-search", 0, 1),
    ]


def test_exported_records_are_read_and_written_again_as_they_were():
    lines = (GOLDEN / "runs.jsonl").read_text().splitlines(keepends=True)
    items = list(read_jsonl(GOLDEN / "runs.jsonl"))
    assert [line_of(item) for item in items] == lines
    records = [item.record for item in items if isinstance(item, NotedRecord)]
    assert {record.format for record in records} == {1}
    assert {record.run_id: record_text(record) for record in records} == texts(GOLDEN / "runs.sqlite")


def test_an_exported_file_goes_through_a_new_store_unchanged(tmp_path):
    store = str(tmp_path / "new.sqlite")
    assert main(["runs", "import", str(GOLDEN / "runs.jsonl"), "--store", store]) == 0
    assert main(["runs", "export", "--store", store, "--out", str(tmp_path / "again.jsonl")]) == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (GOLDEN / "runs.jsonl").read_bytes()
    assert texts(tmp_path / "new.sqlite") == texts(GOLDEN / "runs.sqlite")


@pytest.mark.parametrize("name", STORES)
def test_a_golden_store_verifies_as_it_did_and_stays_as_it_is(golden, capsys, name):
    path = golden / name
    before = path.read_bytes()
    assert main(["verify", "--store", str(path), "--json"]) == 0
    searches = 2 if name == "runs.sqlite" else 0
    assert json.loads(capsys.readouterr().out) == {
        "runs": STORES[name],
        "searches": searches,
        "differences": 0,
        "unreadable": 0,
        "not_judged": {"the verdict by its tolerances, which format 1 does not record": STORES[name]},
    }
    assert path.read_bytes() == before


def test_the_golden_bundle_verifies_as_it_did(golden, capsys):
    assert main(["verify", str(golden / "bundle.tar.gz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "bundle": str(golden / "bundle.tar.gz"),
        "files": 38,
        "runs": 51,
        "series": 2,
        "searches": 2,
        "tables": 0,
        "differences": 0,
        "not_judged": {
            "the tables of the report, which were computed by another method": 51,
            "the verdict by its tolerances, which format 1 does not record": 51,
        },
    }


def test_the_golden_bundle_is_taken_into_a_store(golden, tmp_path):
    store = tmp_path / "new.sqlite"
    assert main(["runs", "import", str(golden / "bundle.tar.gz"), "--store", str(store)]) == 0
    assert texts(store) == texts(GOLDEN / "runs.sqlite")
    assert main(["runs", "export", "--store", str(store), "--out", str(tmp_path / "again.jsonl")]) == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (GOLDEN / "runs.jsonl").read_bytes()
    series = Path(f"{store}.series")
    kept = GOLDEN / "runs.sqlite.series"
    assert {path.name: path.read_bytes() for path in series.iterdir()} == {
        path.name: path.read_bytes() for path in kept.iterdir()
    }


@pytest.mark.parametrize("name", STORES)
def test_a_golden_store_opened_for_writing_keeps_every_record(golden, name):
    path = golden / name
    with open_store(str(path)) as store:
        assert dict(store.texts()) == texts(GOLDEN / name)
        for record in store.iterate():
            assert record_text(record) == texts(GOLDEN / name)[record.run_id]
        newest = store.list()[0].run_id
        store.set_note(newest, "written later", author="op")
    assert texts(path) == texts(GOLDEN / name)
    assert rows(path) == rows(GOLDEN / name)
    with open_store(str(path), write=False) as store:
        assert store.count() == STORES[name]
        note = store.note(newest)
        assert note is not None and note.text == "written later"
    assert main(["verify", "--store", str(path)]) == 0


def test_what_lies_beside_the_runs_is_kept_when_the_store_is_opened_for_writing(golden):
    path = golden / "runs.sqlite"
    searches = texts(GOLDEN / "runs.sqlite", "searches", "search_id")
    calibrations = texts(GOLDEN / "runs.sqlite", "calibrations", "id")
    with open_store(str(path), write=False) as store:
        notes = {run.run_id: run.note for run in store.list() if run.note}
    with open_store(str(path)) as store:
        assert {run.run_id: run.note for run in store.list() if run.note} == notes
        with_series = [run.run_id for run in store.list() if run.has_series]
        assert len(with_series) == 2
        assert all((series := store.series(run_id)) and series.tables for run_id in with_series)
        assert len(store.experiments(SEARCH)) == len(searches) == 2
    assert (len(notes), len(calibrations)) == (1, 1)
    assert texts(path, "searches", "search_id") == searches
    assert texts(path, "calibrations", "id") == calibrations


def test_the_store_is_exported_as_it_was_also_after_it_was_opened_for_writing(golden, tmp_path):
    path = golden / "runs.sqlite"
    for number in range(2):
        out = tmp_path / f"{number}.jsonl"
        assert main(["runs", "export", "--store", str(path), "--out", str(out)]) == 0
        assert out.read_bytes() == (GOLDEN / "runs.jsonl").read_bytes()
        open_store(str(path)).close()


def test_what_a_report_tells_of_format_1_are_the_same_means_and_no_comparison(golden, capsys):
    store, out = str(golden / "runs.sqlite"), golden / "again"
    pooled = ["--pool", "duration,fingerprint,kernel,hypervisor"]  # as reports on format 1 once did, unasked
    assert main(["report", "--store", store, "--out", str(out), "--formats", "csv,md,tex", *pooled]) == 0
    for name in ("back-to-back", "frame-loss-rate", "latency", "throughput"):
        for suffix in ("csv", "md", "tex"):
            file = f"{name}.{suffix}"
            text = (
                (out / file)
                .read_text()
                .replace(" Pooled although they may differ: duration, fingerprint, kernel, hypervisor.", "")
            )
            assert text == (GOLDEN / "report" / file).read_text(), file
    before, now = (table(directory / "results.csv") for directory in (GOLDEN / "report", out))
    factors = ("platform", "frame_size_bytes", "frame_size_includes_fcs", "sources", "target_bps", "background")
    means = {tuple(row[f] or "max" for f in factors): row for row in before}
    limited = [row for row in table(out / "runs.csv") if row["why_not"] == "instrument_limited"]
    assert sum(int(row["n"]) for row in before) == sum(int(row["trials"]) for row in now) + len(limited)
    for row in now:
        old = means[tuple(row[f] for f in factors)]
        assert (row["set_ups"], row["method"]) == ("1", "1")
        if row["trials"] == old["n"]:
            assert float(row["forwarding_mean_bps"]) == pytest.approx(float(old["measured_mean_bps"]), rel=1e-12)
    capsys.readouterr()
    assert main(["report", "--store", store, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["conclusions"][0].startswith("One set-up")
    assert lines[0]["claims"]["tested"] == 0
    assert not [line for line in lines if line.get("claim")]
    words = {row["word"] for line in lines for row in line.get("rows", []) if "word" in row}
    assert words == {"no claim"}


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_format_1_record_with_what_that_format_has_not_is_refused():
    text = next(iter(texts(GOLDEN / "runs.sqlite").values()))
    assert record_text(parse_record(text, "run")) == text
    with pytest.raises(StoreError, match="unheard_of"):
        parse_record({**json.loads(text), "unheard_of": 1}, "run")
