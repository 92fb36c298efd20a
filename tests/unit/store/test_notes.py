"""Notes on runs, calibrations, pages of the list, and stores that an older labconsole wrote."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.model.record.annotations import exported, plan_notes
from labconsole.store.importing import import_records, read_jsonl
from labconsole.store.open import open_store
from support.store_samples import sample_record

VERSION_1 = Path(__file__).parent / "samples" / "store-version-1.sqlite"
"""Written by labconsole 0.1.0 before there were notes: three runs."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "runs.sqlite"
    shutil.copy(VERSION_1, path)
    return path


@pytest.fixture
def store(place):
    with open_store(place.url) as opened:
        yield opened


def versions(path: Path) -> list[int]:
    with sqlite3.connect(path) as connection:
        found = [row[0] for row in connection.execute("SELECT version FROM labconsole_schema ORDER BY version")]
    connection.close()
    return found


def test_a_store_of_version_1_is_brought_up_to_date_when_opened_for_writing(old: Path):
    with open_store(str(old)) as store:
        assert [s.run_id for s in store.list()] == [sample_record(n).run_id for n in (2, 1, 0)]
        assert store.get(sample_record(0).run_id) == sample_record(0, format=1, method=1)
        store.set_note(sample_record(0).run_id, "the first", author="op@host")
        store.save(sample_record(3), None)
        store.save_calibration({"testbed_fingerprint": "t"})
    assert versions(old) == [1, 5]
    with open_store(str(old)) as store:  # and only once
        assert store.list()[-1].note == "the first"
        assert store.count() == 4
    assert versions(old) == [1, 5]


def test_a_store_of_version_1_is_read_as_it_is(old: Path):
    with open_store(str(old), write=False) as store:
        assert [s.note for s in store.list()] == [None] * 3
        assert len(store.page(limit=10).runs) == 3
        assert len(list(store.iterate())) == 3
        assert store.note(sample_record(0).run_id) is None
        assert store.latest_calibration("7d3f9a11c0de4b52") is None
    assert versions(old) == [1]


def test_a_migration_that_fails_leaves_the_old_store(old: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("labconsole.store.sql.schema.calibrations.create", broken)
    with pytest.raises(StoreError, match="disk I/O error"):
        open_store(str(old))
    with sqlite3.connect(old) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert tables == {"labconsole_schema", "runs"}
    assert versions(old) == [1]


def test_a_note_is_replaced_and_removed(store):
    store.save(sample_record(), None)
    run_id = sample_record().run_id
    assert store.note(run_id) is None
    store.set_note(run_id[:12], "  loud fan  ", author="a@h")
    note = store.note(run_id)
    assert (note.text, note.author) == ("loud fan", "a@h")
    store.set_note(run_id, "fan replaced", author="b@h")
    assert store.list()[0].note == "fan replaced"
    store.set_note(run_id, None, author="b@h")
    assert store.note(run_id) is None
    assert store.list()[0].note is None
    assert store.get(run_id) == sample_record()


def test_a_note_needs_a_run_and_has_a_length(store):
    with pytest.raises(StoreError, match="there is no run none"):
        store.set_note("none", "x", author="a")
    store.save(sample_record(), None)
    with pytest.raises(StoreError, match="at most 10000 characters, this one has 10001"):
        store.set_note(sample_record().run_id, "x" * 10_001, author="a")


def line(text: str | None, written_at: str) -> dict[str, object]:
    return {**sample_record().to_json(), "note": {"text": text, "author": "far@away", "written_at": written_at}}


def test_of_two_notes_the_newer_stays_wherever_it_was_written(store):
    run_id = sample_record().run_id
    assert import_records(store, [line("first", "2026-01-01T00:00:00Z")]).notes == 1
    assert import_records(store, [line("first", "2026-01-01T00:00:00Z")]).notes == 0
    assert import_records(store, [line("newer", "2026-01-02T01:00:00+01:00")]).notes == 1
    assert import_records(store, [line("older", "2026-01-01T23:00:00Z")]).notes == 0
    assert store.note(run_id).text == "newer"
    assert import_records(store, [line(None, "2026-01-03T00:00:00Z")]).notes == 1
    assert store.note(run_id) is None
    assert import_records(store, [line("newer", "2026-01-02T00:00:00Z")]).notes == 0
    assert store.note(run_id) is None


def test_what_is_typed_counts_although_another_machines_clock_is_ahead(store):
    import_records(store, [line("from the future", "2999-01-01T00:00:00Z")])
    store.set_note(sample_record().run_id, "typed now", author="op")
    assert store.note(sample_record().run_id).text == "typed now"
    import_records(store, [line("from the future", "2999-01-01T00:00:00Z")])
    assert store.note(sample_record().run_id).text == "typed now"


def test_an_exported_run_brings_its_note(store, tmp_path):
    store.save(sample_record(), None)
    store.set_note(sample_record().run_id, "Ä", author="op")
    file = tmp_path / "out.jsonl"
    notes = store.notes()
    file.write_text("".join(json.dumps(exported(r, notes.get(r.run_id))) + "\n" for r in store.iterate()))
    with open_store(str(tmp_path / "other.sqlite")) as other:
        assert import_records(other, read_jsonl(file)).notes == 1
        assert other.notes() == notes


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("text", "note must be an object of text, author and written_at"),
        ({"text": "x", "author": "a"}, "note must be an object of text, author and written_at"),
        ({"text": 1, "author": "a", "written_at": "2026-01-01T00:00:00Z"}, "note must have a text"),
        ({"text": "x", "author": "a", "written_at": "noon"}, "note: 'noon' is not an RFC 3339 time"),
        ({"text": "x" * 10_001, "author": "a", "written_at": "2026-01-01T00:00:00Z"}, "at most 10000 characters"),
    ],
)
def test_a_note_that_is_none_refuses_the_import(store, note, message):
    with pytest.raises(StoreError, match=re.escape(message)):
        import_records(store, [{**sample_record().to_json(), "note": note}])
    assert store.count() == 0


def test_calibrations_are_kept_and_the_newest_is_found(store):
    assert store.latest_calibration("t") is None
    for number in range(3):
        store.save_calibration({"testbed_fingerprint": "t", "number": number})
    store.save_calibration({"testbed_fingerprint": "u", "number": 9})
    assert store.latest_calibration("t") == {"testbed_fingerprint": "t", "number": 2}
    assert [c["number"] for c in store.calibrations()] == [9, 2, 1, 0]
    for bad in ({}, {"testbed_fingerprint": 3}, {"testbed_fingerprint": "t", "x": float("nan")}):
        with pytest.raises(StoreError, match="calibration"):
            store.save_calibration(bad)


def test_the_list_is_read_in_pages_and_kept_up_to_date(store):
    for number in (5, 1, 4, 2, 3):  # saved in another order than started
        store.save(sample_record(number), None)
    newest = store.page(limit=2)
    assert [s.run_id for s in newest.runs] == [sample_record(n).run_id for n in (3, 2)]
    rest = store.page(before=newest.first, limit=10)
    assert [s.run_id for s in rest.runs] == [sample_record(n).run_id for n in (4, 1, 5)]
    assert store.page(before=rest.first, limit=10).runs == []
    store.save(sample_record(0), None)
    store.save(sample_record(9), None)
    fresh = store.page(after=newest.last, limit=1)
    assert [s.run_id for s in fresh.runs] == [sample_record(0).run_id]
    assert [s.run_id for s in store.page(after=fresh.last, limit=1).runs] == [sample_record(9).run_id]
    assert store.page(after=newest.last + 2, limit=9).runs == []


def test_a_reader_may_not_note(old: Path):
    with open_store(str(old), write=False) as store, pytest.raises(StoreError, match="opened read-only"):
        store.set_note(sample_record(0).run_id, "x", author="a")


def test_a_note_on_a_plan_is_kept_beside_those_on_runs_and_needs_no_run(store):
    assert store.plan_note("abc", "7d3f") is None
    store.set_plan_note("abc", "7d3f", "  after the fan was replaced ", author="a@h")
    note = store.plan_note("abc", "7d3f")
    assert (note.text, note.author) == ("after the fan was replaced", "a@h")
    assert store.plan_note("abc", "other") is None
    store.set_plan_note("abc", "7d3f", "", author="b@h")
    assert store.plan_note("abc", "7d3f") is None
    assert [each.note.text for each in plan_notes(store.notes())] == [None]
    assert store.count() == 0


def test_a_store_that_is_only_read_takes_no_note_on_a_plan(place):
    with open_store(place.url) as store:
        store.set_plan_note("abc", "7d3f", "words", author="a@h")
    with open_store(place.url, write=False) as store:
        assert store.plan_note("abc", "7d3f").text == "words"
        with pytest.raises(StoreError):
            store.set_plan_note("abc", "7d3f", "others", author="a@h")


def test_notes_on_plans_go_out_and_come_in_with_an_export(place, tmp_path, capsys):
    with open_store(place.url) as store:
        store.save(sample_record(0), None)
        store.set_plan_note("abc", "7d3f", "words", author="a@h")
    assert main(["runs", "export", "--store", place.url]) == 0
    (tmp_path / "runs.jsonl").write_text(capsys.readouterr().out)
    last = json.loads((tmp_path / "runs.jsonl").read_text().splitlines()[-1])
    assert (last["plan_note"]["plan_hash"], last["plan_note"]["text"]) == ("abc", "words")
    other = str(tmp_path / "other.sqlite")
    assert main(["runs", "import", str(tmp_path / "runs.jsonl"), "--store", other]) == 0
    with open_store(other) as store:
        assert store.plan_note("abc", "7d3f").text == "words"
    last["plan_note"]["plan_hash"] = "x@y\x1b"
    (tmp_path / "runs.jsonl").write_text(json.dumps(last) + "\n")
    capsys.readouterr()
    assert main(["runs", "import", str(tmp_path / "runs.jsonl"), "--store", other]) == 2
    assert "plan_hash and testbed_fingerprint must be of letters" in capsys.readouterr().err
