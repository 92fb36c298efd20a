"""What was written at record format 2 and store version 4 stays as it is to read, verify, report, export and resume.

tests/golden/format-2/README.md says what the files are. They are never renewed, and every test works on a copy.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.search import SEARCH
from labconsole.store.open import open_store
from labconsole.store.records import record_text
from support.golden_sets import GOLDEN_SETS, opened, texts
from support.half_finished import next_trials

GOLDEN = GOLDEN_SETS / "format-2"
LEFT: dict[str, Any] = json.loads((GOLDEN / "left.json").read_text())
EXPORTED = gzip.decompress((GOLDEN / "runs.jsonl.gz").read_bytes())
RUNS, SEARCHES, SERIES = 89, 4, 2
VERDICTS = {"valid": 68, "suspect": 18, "invalid": 3}
LATER = {"stream-rates", "idle-guest", "packet-cost", "packet-cost-loss"}
"""Tables that reports did not have then."""

LATER_SAID = "Judged by other tolerances"
"""What reports did not say then."""

TABLES, DRAWN = 37, 10
"""Files of the bundle's report: tables, which are always made again, and what only the same libraries draw alike."""


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden set, to be written to."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All columns of all tables that the schema had then, read past labconsole."""
    then, now = opened(GOLDEN / "runs.sqlite"), opened(path)
    found = {}
    for table in ("runs", "notes", "searches", "calibrations"):
        columns = ", ".join(row[1] for row in then.execute(f"PRAGMA table_info({table})"))
        found[table] = sorted(now.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)
    then.close()
    now.close()
    return found


def left_of(name: str, directory: Path, told: list[dict[str, Any]]) -> dict[str, Any]:
    """What is left of a plan, from the lines of ``replay --dry-run --json`` and by beginning each of its searches."""
    plans = [line for line in told if line["event"] == "plan"]
    searches = [line for line in told if line["event"] == "searches"]
    left: dict[str, Any] = {
        "trials": [[line["point"], line["repetition"], line["block"]] for line in told if line["event"] == "trial"],
        "plan": [[line["hash"], line["trials"], line["stored"], line["remaining"]] for line in plans],
        "searches": [[line["searches"], line["stored"], line["remaining"]] for line in searches],
        "next_trial": [],
    }
    if searches:
        inventory = load_inventory(directory / "hosts.yaml")
        with open_store(str(directory / "runs.sqlite")) as store:
            left["next_trial"] = next_trials(load_plan(directory / "plans" / name, inventory), inventory, store)
    return left


def dry_run(name: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    hosts, store = directory / "hosts.yaml", directory / "runs.sqlite"
    plan = str(directory / "plans" / name)
    assert main(["replay", plan, "--hosts", str(hosts), "--store", str(store), "--dry-run", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_of_a_plan_is_what_was_left_of_it(golden, capsys, name):
    before = (golden / "runs.sqlite").read_bytes()
    told = dry_run(name, golden, capsys)
    assert (golden / "runs.sqlite").read_bytes() == before
    assert left_of(name, golden, told) == LEFT[name]


def test_records_and_searches_are_read_and_written_again_as_they_were(golden):
    path = golden / "runs.sqlite"
    before = rows(path)
    with open_store(str(path), write=False) as store:
        summaries = store.list()
        assert Counter(run.verdict for run in summaries) == VERDICTS
        assert {record.run_id: record_text(record) for record in store.iterate()} == texts(path)
        kept = texts(path, "searches", "search_id")
        assert {each.search_id: each.to_json() for each in store.experiments(SEARCH)} == {
            key: json.loads(text) for key, text in kept.items()
        }
        with_series = [run.run_id for run in summaries if run.has_series]
        assert len(with_series) == SERIES
        assert all((series := store.series(run_id)) and series.tables for run_id in with_series)
        assert sorted(str(note.text) for run in summaries if run.note and (note := store.note(run.run_id))) == [
            "taken after the sink had come back",
            "the rack's door was open; Umlaut: ü, and a quote: \"",
        ]
    with open_store(str(path)):
        pass
    assert rows(path) == before
    assert [len(before[table]) for table in ("runs", "searches", "calibrations")] == [RUNS, SEARCHES, 1]


def test_a_golden_store_verifies_as_it_did_and_stays_as_it_is(golden, capsys):
    path = golden / "runs.sqlite"
    before = path.read_bytes()
    assert main(["verify", "--store", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "runs": RUNS,
        "searches": SEARCHES,
        "differences": 0,
        "unreadable": 0,
    }
    assert path.read_bytes() == before


def test_the_store_is_exported_as_it_was_also_after_it_was_opened_for_writing(golden, tmp_path):
    path = golden / "runs.sqlite"
    for number in range(2):
        out = tmp_path / f"{number}.jsonl"
        assert main(["runs", "export", "--store", str(path), "--out", str(out)]) == 0
        assert out.read_bytes() == EXPORTED
        open_store(str(path)).close()


def test_an_exported_file_goes_through_a_new_store_unchanged(tmp_path):
    (tmp_path / "runs.jsonl").write_bytes(EXPORTED)
    store = str(tmp_path / "new.sqlite")
    assert main(["runs", "import", str(tmp_path / "runs.jsonl"), "--store", store]) == 0
    assert main(["runs", "export", "--store", store, "--out", str(tmp_path / "again.jsonl")]) == 0
    assert (tmp_path / "again.jsonl").read_bytes() == EXPORTED
    assert texts(tmp_path / "new.sqlite") == texts(GOLDEN / "runs.sqlite")
    assert texts(tmp_path / "new.sqlite", "searches", "search_id") == texts(
        GOLDEN / "runs.sqlite", "searches", "search_id"
    )


def test_the_store_is_merged_into_a_new_one_with_all_it_has(golden, tmp_path):
    path = tmp_path / "new.sqlite"
    assert main(["runs", "import", str(golden / "runs.sqlite"), "--store", str(path)]) == 0
    for table, key in (("runs", "run_id"), ("searches", "search_id"), ("calibrations", "id")):
        assert sorted(texts(path, table, key).values()) == sorted(texts(GOLDEN / "runs.sqlite", table, key).values())
    kept, taken = GOLDEN / "runs.sqlite.series", Path(f"{path}.series")
    assert {file.name: file.read_bytes() for file in taken.iterdir()} == {
        file.name: file.read_bytes() for file in kept.iterdir()
    }
    assert main(["runs", "export", "--store", str(path), "--out", str(tmp_path / "again.jsonl")]) == 0
    assert (tmp_path / "again.jsonl").read_bytes() == EXPORTED


def without_prose(line: str) -> dict[str, Any]:
    """One object of ``report --json`` but for the sentences of conclusions and findings, which may be reworded."""
    told: dict[str, Any] = json.loads(line)
    if "conclusions" in told:
        told["conclusions"] = sum(not each.startswith(LATER_SAID) for each in told["conclusions"])
    return told | ({"sentence": None} if "sentence" in told else {})


def test_the_report_is_made_again_byte_for_byte(golden, capsys):
    store, out = str(golden / "runs.sqlite"), golden / "again"
    assert main(["report", "--store", store, "--out", str(out), "--formats", "csv,md,tex"]) == 0
    before = {path.name: path.read_bytes() for path in (GOLDEN / "report").iterdir() if path.suffix != ".jsonl"}
    made = {path.name: path.read_bytes() for path in out.iterdir()}
    assert made.items() >= before.items()
    assert {Path(name).stem for name in made.keys() - before.keys()} <= LATER
    capsys.readouterr()
    assert main(["report", "--store", store, "--json"]) == 0
    now, then = capsys.readouterr().out.splitlines(), (GOLDEN / "report" / "report.jsonl").read_text().splitlines()
    known = [line for line in now if json.loads(line).get("name", json.loads(line).get("table")) not in LATER]
    assert [without_prose(line) for line in known] == [without_prose(line) for line in then]


def test_the_golden_bundle_verifies_as_it_did(golden, capsys):
    path = str(golden / "bundle.tar.gz")
    assert main(["verify", path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    drawn_by_others = {"pictures and page of the report, which other libraries drew": 40}
    assert (told.pop("tables"), told.pop("not_judged", {})) in ((TABLES, drawn_by_others), (TABLES + DRAWN, {}))
    assert told == {"bundle": path, "files": 55, "runs": 40, "series": 1, "searches": 1, "differences": 0}


def test_the_golden_bundle_is_taken_into_a_store(golden, tmp_path):
    store = tmp_path / "new.sqlite"
    assert main(["runs", "import", str(golden / "bundle.tar.gz"), "--store", str(store)]) == 0
    taken = texts(store)
    assert len(taken) == 40
    assert taken.items() <= texts(GOLDEN / "runs.sqlite").items()
