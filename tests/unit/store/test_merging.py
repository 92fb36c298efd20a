"""Two stores made one: between SQLite and PostgreSQL in every direction, again and again, with faults in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.store.merging import merge
from labconsole.store.open import open_store
from support.store_places import ServerPlace, SqlitePlace
from support.store_samples import sample_record, sample_series


@pytest.fixture(params=["sqlite to sqlite", "sqlite to postgresql", "postgresql to sqlite", "postgresql to postgresql"])
def places(request, tmp_path: Path, postgres):
    source, target = (
        SqlitePlace(tmp_path, f"{number}.sqlite") if word == "sqlite" else ServerPlace(postgres)
        for number, word in enumerate(request.param.split(" to "))
    )
    return source, target


def refused(error: StoreError) -> None:
    pytest.fail(str(error))


def fill(place, numbers: range) -> None:
    with open_store(place.url) as store:
        for number in numbers:
            store.save(sample_record(number), sample_series() if number % 2 else None)
        store.set_note(sample_record(numbers[0]).run_id, f"note {numbers[0]}", author="op")
        store.set_plan_note(f"plan{numbers[0]}", "t", f"plan note {numbers[0]}", author="op")
        store.save_calibration({"testbed_fingerprint": "t", "number": numbers[0]})


def everything(place) -> tuple:
    with open_store(place.url, write=False) as store:
        runs = list(store.iterate())
        return (
            [run.to_json() for run in runs],
            [store.series(run.run_id) for run in runs],
            store.notes(),
            store.calibrations(),
        )


def test_a_merge_brings_everything_once_and_back_again_nothing(places, capsys):
    source, target = places
    fill(source, range(4))
    fill(target, range(3, 6))
    assert main(["runs", "import", source.url, "--store", target.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "added": 3,
        "present": 1,
        "series": 0,
        "notes": 2,
        "boots": 0,
        "calibrations": 1,
        "flows": 0,
        "jobs": 0,
        "routes": 0,
        "searches": 0,
        "left_out": 0,
    }
    assert main(["runs", "import", source.url, "--store", target.url]) == 0
    assert capsys.readouterr().out == "0 runs added, 4 already stored\n"
    runs, series, notes, calibrations = everything(target)
    assert runs == [sample_record(number).to_json() for number in range(6)]
    assert series == [sample_series() if number % 2 else None for number in range(6)]
    assert sorted(note.text for note in notes.values()) == ["note 0", "note 3", "plan note 0", "plan note 3"]
    assert [calibration["number"] for calibration in calibrations] == [3, 0]
    assert main(["runs", "import", target.url, "--store", source.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 2
    assert everything(source) == everything(target)


def test_of_two_notes_on_a_run_the_newer_one_is_kept(places, capsys):
    source, target = places
    run_id = sample_record(0).run_id
    for place, text in ((target, "older"), (source, "newer")):
        with open_store(place.url) as store:
            store.save(sample_record(0))
            store.set_note(run_id, text, author="op")
    for place, other in ((target, source), (source, target)):
        assert main(["runs", "import", other.url, "--store", place.url]) == 0
        with open_store(place.url, write=False) as store:
            assert store.notes()[run_id].text == "newer"


def test_a_run_that_is_another_one_there_is_told_and_the_rest_comes_over(places, capsys):
    source, target = places
    fill(source, range(3))
    with open_store(target.url) as store:
        store.save(sample_record(1, operator="somebody else"))
    assert main(["runs", "import", source.url, "--store", target.url]) == 1
    said = capsys.readouterr()
    assert (
        f"left out: {source.name}: run {sample_record(1).run_id} is already stored with different content" in said.err
    )
    assert said.out == "2 runs added, 0 already stored, 2 notes imported, 1 calibration imported, 1 left out\n"
    with open_store(target.url, write=False) as store:
        assert [run.operator for run in store.iterate()] == ["op", "somebody else", "op"]


def test_what_is_damaged_is_told_and_left_out(places):
    source, target = places
    fill(source, range(4))
    source.execute("UPDATE runs SET record = '{' WHERE run_id = ?", sample_record(0).run_id)
    if isinstance(source, SqlitePlace):
        (source.path.parent / "0.sqlite.series" / f"{sample_record(1).run_id}.npz").write_bytes(b"PK")
    else:
        source.execute("UPDATE series SET content = 'PK' WHERE run_id = ?", sample_record(1).run_id)
    told: list[str] = []
    with open_store(source.url, write=False) as one, open_store(target.url) as other:
        result = merge(one, other, lambda problem: told.append(str(problem)))
        assert (result.added, result.left_out) == (3, 2)
        assert other.series(sample_record(1).run_id) is None
        assert other.series(sample_record(3).run_id) == sample_series()
    assert "not valid JSON" in told[0]
    assert f"run {sample_record(1).run_id}: its time series" in told[1]


def test_series_follow_a_run_that_came_without(tmp_path):
    source, target = SqlitePlace(tmp_path, "a"), SqlitePlace(tmp_path, "b")
    fill(source, range(1, 2))
    with open_store(target.url) as store:
        store.save(sample_record(1))
        with open_store(source.url, write=False) as other:
            assert merge(other, store, refused).series == 1
        assert store.series(sample_record(1).run_id) == sample_series()


def test_a_record_of_an_older_program_is_the_same_run_although_it_is_written_otherwise(tmp_path):
    old, new = SqlitePlace(tmp_path, "a"), SqlitePlace(tmp_path, "b")
    fill(old, range(1))
    fill(new, range(1))
    record = sample_record(0).to_json()
    del record["timeline"]
    old.execute("UPDATE runs SET record = ?", json.dumps(record))
    with open_store(old.url, write=False) as source, open_store(new.url) as target:
        assert merge(source, target, refused).present == 1


def test_a_store_that_is_not_there_is_one_sentence(tmp_path, capsys):
    assert main(["runs", "import", "sqlite:///nowhere.sqlite", "--store", str(tmp_path / "s")]) == 2
    assert "nowhere.sqlite: there is no run store there" in capsys.readouterr().err


def test_a_merge_needs_a_store_that_can_be_written(tmp_path):
    place = SqlitePlace(tmp_path)
    fill(place, range(1))
    with open_store(place.url, write=False) as store, pytest.raises(StoreError, match="opened read-only"):
        merge(store, store, refused)
