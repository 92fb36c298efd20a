"""Experiments in a store: kept, found again by meaning, taken over, and in a file from before there were any."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.record.kind import record_kinds
from labconsole.model.record.search import SEARCH, SearchRecord
from labconsole.model.record.summary import RunFilter
from labconsole.store import experiments
from labconsole.store.experiments import parse_experiment
from labconsole.store.open import open_store
from support.job_records import taken
from support.plugged_in import plugged_in
from support.search_script import Script
from support.search_script import made as searched
from support.store_places import Place


def step(meaning: str) -> Any:
    return SimpleNamespace(hash=meaning)


@pytest.fixture(scope="module")
def record() -> SearchRecord:
    (made,) = searched(Script())
    return made


def test_a_search_comes_back_as_it_was_and_is_found_by_its_meaning(place: Place, record: SearchRecord) -> None:
    with open_store(place.url) as store:
        store.save_experiment(SEARCH, record)
        store.save_experiment(SEARCH, record)
    with open_store(place.url, write=False) as store:
        assert store.experiments(SEARCH) == [record]
        assert store.experiment(SEARCH, record.search_id[:12]) == record
        searches, key = LoadSearches(store), record.plan.hash
        assert searches.stored([step(key), step("search-other")], record.testbed_fingerprint) == {key: record}
        assert searches.stored([step(key)], "elsewhere") == {}
        assert store.experiments(SEARCH, RunFilter(platform=["kvm"])) == []
        with pytest.raises(StoreError, match="there is no search"):
            store.experiment(SEARCH, "x")


def refuse(problem: StoreError) -> None:
    raise problem


def test_what_a_table_repeats_of_a_record_is_compared_with_it(
    place: Place, record: SearchRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(place.url) as store:
        store.save_experiment(SEARCH, record)
        store.save_experiment(JOB, job := taken([3.0]))
    with open_store(place.url, write=False) as store:
        assert [each for _, each in store.iterate_experiments(JOB, refuse)] == [job]
        assert [columns.id for columns, _ in store.iterate_experiments(SEARCH, refuse)] == [record.search_id]
    main(["verify", "--store", place.url, "--json"])
    assert "column " not in capsys.readouterr().out
    place.execute("UPDATE experiments SET platform = 'raw' WHERE id = ?", job.job_id)
    place.execute("UPDATE experiments SET plan_name = 'other' WHERE id = ?", record.search_id)
    assert main(["verify", "--store", place.url, "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]
    found = {(each["run_id"], each["where"]) for each in told if each["where"].startswith("column")}
    assert found == {(job.job_id, "column platform"), (record.search_id, "column plan_name")}


def test_records_are_listed_page_by_page_oldest_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "PAGE_EXPERIMENTS", 2)
    jobs = [taken([2.0], guests=1, working="one", block=block) for block in range(1, 6)]
    with open_store(place.url) as store:
        for job in jobs:
            store.save_experiment(JOB, job)
    with open_store(place.url, write=False) as store:
        listed = [record for _, record in store.iterate_experiments(JOB, refuse)]
        assert listed == store.experiments(JOB)[::-1]
        assert len(listed) == len(jobs)


def test_of_each_kind_the_newest_is_known(place: Place, record: SearchRecord) -> None:
    with open_store(place.url) as store:
        assert store.newest_experiments() == {}
        jobs = [taken([2.0], guests=1, working="one", block=block) for block in (1, 2)]
        for job in jobs:
            store.save_experiment(JOB, job)
        store.save_experiment(SEARCH, record)
    with open_store(place.url, write=False) as store:
        kept = {"job": store.experiments(JOB)[0].started_at, "search": record.started_at}
        assert {kind: begun[:19] for kind, begun in store.newest_experiments().items()} == {
            kind: begun[:19] for kind, begun in kept.items()
        }


def test_a_search_that_failed_is_kept_and_does_not_count_as_finished(tmp_path: Path, record: SearchRecord) -> None:
    failed = record.model_copy(update={"search_id": "other", "status": "failed", "failure": "why"})
    with open_store(str(tmp_path / "s.sqlite")) as store:
        store.save_experiment(SEARCH, failed)
        assert LoadSearches(store).stored([step(record.plan.hash)], record.testbed_fingerprint) == {}
        assert store.experiments(SEARCH, status="failed") == [failed]


def test_a_search_of_format_1_is_written_as_it_came_and_made_again(tmp_path: Path, record: SearchRecord) -> None:
    data = {**record.to_json(), "format": 1}
    for trial in data["trials"]:
        del trial["queued_packets"], trial["source_lost_packets"]
    old = parse_experiment(SEARCH, data, "here")
    assert json.loads(json.dumps(old.to_json())) == json.loads(json.dumps(data))
    with open_store(str(tmp_path / "s.sqlite")) as store:
        store.save_experiment(SEARCH, old)
        assert store.experiment(SEARCH, old.search_id).to_json() == old.to_json()
        assert LoadSearches(store).stored([step(record.plan.hash)], record.testbed_fingerprint) == {}


def test_the_same_id_with_other_content_is_refused(place: Place, record: SearchRecord) -> None:
    with open_store(place.url) as store:
        store.save_experiment(SEARCH, record)
        with pytest.raises(StoreError, match="different content"):
            store.save_experiment(SEARCH, record.model_copy(update={"operator": "x@y"}))


def test_a_store_of_version_2_gets_the_table_when_it_is_written_and_has_no_searches_until_then(
    tmp_path: Path, record: SearchRecord
) -> None:
    path = tmp_path / "s.sqlite"
    open_store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE experiments")
        connection.execute("UPDATE labconsole_schema SET version = 2")
    with open_store(str(path), write=False) as store:
        assert store.experiments(SEARCH) == []
    with open_store(str(path)) as store:
        store.save_experiment(SEARCH, record)
        assert store.experiments(SEARCH) == [record]


@pytest.mark.parametrize(
    "change",
    [{"format": 3}, {"format": None}, {"extra": 1}, {"search_id": "../x"}, {"started_at": "then"}, {"goals": 5}],
)
def test_what_is_no_search_record_is_refused(record: SearchRecord, change: dict[str, object]) -> None:
    with pytest.raises(StoreError, match="line 3"):
        parse_experiment(SEARCH, {**record.to_json(), **change}, "line 3")


def test_searches_leave_with_the_runs_and_come_back_once(
    tmp_path: Path, record: SearchRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(tmp_path / "a.sqlite")) as store:
        store.save_experiment(SEARCH, record)
    file = tmp_path / "all.jsonl"
    assert main(["runs", "export", "--store", str(tmp_path / "a.sqlite"), "--out", str(file)]) == 0
    assert json.loads(file.read_text())["search"]["search_id"] == record.search_id
    for many in (1, 0):
        assert main(["runs", "import", str(file), "--store", str(tmp_path / "b.sqlite"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["searches"] == many
    with open_store(str(tmp_path / "b.sqlite")) as store:
        assert store.experiments(SEARCH) == [record]
    assert main(["runs", "import", str(tmp_path / "a.sqlite"), "--store", str(tmp_path / "c.sqlite")]) == 0
    with open_store(str(tmp_path / "c.sqlite")) as store:
        assert store.experiments(SEARCH) == [record]


LAP = """\
from labconsole.model.record.kind import ExperimentColumns, ExperimentRecord, RecordKind


class LapRecord(ExperimentRecord):
    lap_id: str
    format: int = 1
    started_at: str = "2026-11-22T10:00:00Z"
    trial: str = "none"


KIND = RecordKind(
    name="lap", plural="laps", record=LapRecord, format=1, run_ids=lambda record: [record.trial],
    columns=lambda record: ExperimentColumns(
        id=record.lap_id, started_at=record.started_at, testbed="t", testbed_fingerprint="f", plan_name=None,
        plan_hash=None, platform="raw", status="done",
    ),
)
"""


def test_another_kind_is_one_new_file(tmp_path: Path, record: SearchRecord, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, file = str(tmp_path / "a.sqlite"), str(tmp_path / "b.sqlite"), str(tmp_path / "a.jsonl")
    with plugged_in(tmp_path / "site", "labconsole.kinds", {"lap": LAP}):
        kind = record_kinds()["lap"]
        made = kind.record(lap_id=record.search_id)
        with open_store(a) as store:
            store.save_experiment(kind, made)
            store.save_experiment(SEARCH, record)  # another of the same id
            assert store.experiments(kind) == [made]
            assert store.experiments(kind, status="failed") == []
            assert store.experiment(kind, record.search_id[:9]) == made
            assert store.experiments(SEARCH) == [record]
            with pytest.raises(StoreError, match=f"lap {record.search_id} is already stored with different content"):
                store.save_experiment(kind, made.model_copy(update={"trial": "x"}))
            with pytest.raises(StoreError, match="there is no lap zzz"):
                store.experiment(kind, "zzz")
        assert main(["runs", "export", "--store", a, "--out", file]) == 0
        for source, target in ((file, b), (a, str(tmp_path / "c.sqlite"))):
            assert main(["runs", "import", source, "--store", target, "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            assert (told["searches"], told["laps"]) == (1, 1)
            with open_store(target, write=False) as store:
                assert (store.experiments(kind), store.experiments(SEARCH)) == ([made], [record])
        assert main(["runs", "import", file, "--store", str(tmp_path / "d.sqlite")]) == 0
        assert "0 runs added, 0 already stored, 1 lap imported, 1 search imported" in capsys.readouterr().out
    # A program that does not know the kind says what it leaves out, and takes the rest.
    left_out = "left out: {}: 1 record of kind lap, which this version of labconsole does not know"
    assert main(["runs", "import", a, "--store", str(tmp_path / "e.sqlite"), "--json"]) == 1
    told = capsys.readouterr()
    assert left_out.format(a) in told.err
    assert json.loads(told.out) == {
        "added": 0,
        "present": 0,
        "series": 0,
        "notes": 0,
        "calibrations": 0,
        "boots": 0,
        "flows": 0,
        "jobs": 0,
        "routes": 0,
        "searches": 1,
        "left_out": 1,
    }
    assert main(["runs", "export", "--store", a]) == 0
    told = capsys.readouterr()
    assert left_out.format(a) in told.err
    assert [list(json.loads(line)) for line in told.out.splitlines()] == [["search"]]
    assert main(["runs", "import", file, "--store", str(tmp_path / "f.sqlite")]) == 2
    assert "has only the key 'lap', which is not a kind of record that this version knows" in capsys.readouterr().err
    main(["verify", "--store", a])
    assert "unreadable: " in (said := capsys.readouterr().out) and "1 record of kind lap" in said


@pytest.mark.parametrize("plural", ["../laps", "searches", "runs", "calibrations", ""])
def test_a_kind_whose_records_would_be_in_a_file_of_others_is_refused(tmp_path: Path, plural: str) -> None:
    lap = LAP.replace('plural="laps"', f'plural="{plural}"')
    with (
        plugged_in(tmp_path / "site", "labconsole.kinds", {"lap": lap}),
        pytest.raises(StoreError, match=f"plug-in lap cannot be used: its KIND has the plural '{plural}'; allowed"),
    ):
        record_kinds()


def test_a_record_that_cannot_be_read_is_left_out_of_a_merge_and_named(
    tmp_path: Path, record: SearchRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    with open_store(str(a)) as store:
        store.save_experiment(SEARCH, record)
        store.save_experiment(SEARCH, record.model_copy(update={"search_id": "broken"}))
    with sqlite3.connect(a) as connection:
        connection.execute("UPDATE experiments SET record = '{}' WHERE id = 'broken'")
    connection.close()
    assert main(["runs", "import", str(a), "--store", str(b)]) == 1
    assert f"left out: {a}: search broken: has format None" in capsys.readouterr().err
    with open_store(str(b)) as store:
        assert store.experiments(SEARCH) == [record]


@pytest.mark.parametrize("source", ["KIN = 1", "import missing_module"])
def test_a_kind_that_cannot_be_used_is_named(tmp_path: Path, source: str) -> None:
    with (
        plugged_in(tmp_path / "site", "labconsole.kinds", {"lap": source}),
        pytest.raises(StoreError, match="plug-in lap .*cannot be"),
    ):
        record_kinds()


def test_of_a_plan_without_any_it_is_said_whether_others_have_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "store.sqlite")

    def told(*words: str) -> str:
        assert main(["experiment", "job", "--store", place, *words]) == 0
        return capsys.readouterr().out

    with open_store(place) as store:
        store.count()
    assert told("--list") == told("--list", "--plan", "p") == told("--summary") == "no jobs are stored\n"
    with open_store(place) as store:
        store.save_experiment(JOB, taken([2.0], guests=1, working="one"))
    assert told("--list", "--plan", "minee") == told("--summary", "--plan", "minee") == "none of plan minee\n"
    assert "lxc: wait (3 s)" in told("--list", "--plan", "p")
