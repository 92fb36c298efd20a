"""Searches in a store: kept, found again by meaning, taken over, and in a file from before there were any."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunFilter
from labconsole.store.open import open_store
from labconsole.store.searches import parse_search
from support.search_script import Script
from support.search_script import made as searched
from support.store_places import Place


@pytest.fixture(scope="module")
def record() -> SearchRecord:
    (made,) = searched(Script())
    return made


def test_a_search_comes_back_as_it_was_and_is_found_by_its_meaning(place: Place, record: SearchRecord) -> None:
    with open_store(place.url) as store:
        store.save_search(record)
        store.save_search(record)
    with open_store(place.url, write=False) as store:
        assert store.searches() == [record]
        assert store.search(record.search_id[:12]) == record
        assert store.finished_search(record.plan.hash, record.testbed_fingerprint) == record
        assert store.finished_search("search-other", record.testbed_fingerprint) is None
        assert store.finished_search(record.plan.hash, "elsewhere") is None
        assert store.searches(RunFilter(platform=["kvm"])) == []
        with pytest.raises(StoreError, match="there is no search"):
            store.search("x")


def test_a_search_that_failed_is_kept_and_does_not_count_as_finished(tmp_path: Path, record: SearchRecord) -> None:
    failed = record.model_copy(update={"search_id": "other", "status": "failed", "failure": "why"})
    with open_store(str(tmp_path / "s.sqlite")) as store:
        store.save_search(failed)
        assert store.finished_search(record.plan.hash, record.testbed_fingerprint) is None
        assert store.searches(status="failed") == [failed]


def test_a_search_of_format_1_is_written_as_it_came_and_made_again(tmp_path: Path, record: SearchRecord) -> None:
    data = {**record.to_json(), "format": 1}
    for trial in data["trials"]:
        del trial["queued_packets"], trial["source_lost_packets"]
    old = parse_search(data, "here")
    assert json.loads(json.dumps(old.to_json())) == json.loads(json.dumps(data))
    with open_store(str(tmp_path / "s.sqlite")) as store:
        store.save_search(old)
        assert store.search(old.search_id).to_json() == old.to_json()
        assert store.finished_search(record.plan.hash, record.testbed_fingerprint) is None


def test_the_same_id_with_other_content_is_refused(place: Place, record: SearchRecord) -> None:
    with open_store(place.url) as store:
        store.save_search(record)
        with pytest.raises(StoreError, match="different content"):
            store.save_search(record.model_copy(update={"operator": "x@y"}))


def test_a_store_of_version_2_gets_the_table_when_it_is_written_and_has_no_searches_until_then(
    tmp_path: Path, record: SearchRecord
) -> None:
    path = tmp_path / "s.sqlite"
    open_store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE searches")
        connection.execute("UPDATE labconsole_schema SET version = 2")
    with open_store(str(path), write=False) as store:
        assert store.searches() == []
    with open_store(str(path)) as store:
        store.save_search(record)
        assert store.searches() == [record]


@pytest.mark.parametrize(
    "change",
    [{"format": 3}, {"format": None}, {"extra": 1}, {"search_id": "../x"}, {"started_at": "then"}, {"goals": 5}],
)
def test_what_is_no_search_record_is_refused(record: SearchRecord, change: dict[str, object]) -> None:
    with pytest.raises(StoreError, match="line 3"):
        parse_search({**record.to_json(), **change}, "line 3")


def test_searches_leave_with_the_runs_and_come_back_once(
    tmp_path: Path, record: SearchRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(tmp_path / "a.sqlite")) as store:
        store.save_search(record)
    file = tmp_path / "all.jsonl"
    assert main(["runs", "export", "--store", str(tmp_path / "a.sqlite"), "--out", str(file)]) == 0
    assert json.loads(file.read_text())["search"]["search_id"] == record.search_id
    for taken in (1, 0):
        assert main(["runs", "import", str(file), "--store", str(tmp_path / "b.sqlite"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["searches"] == taken
    with open_store(str(tmp_path / "b.sqlite")) as store:
        assert store.searches() == [record]
    assert main(["runs", "import", str(tmp_path / "a.sqlite"), "--store", str(tmp_path / "c.sqlite")]) == 0
    with open_store(str(tmp_path / "c.sqlite")) as store:
        assert store.searches() == [record]
