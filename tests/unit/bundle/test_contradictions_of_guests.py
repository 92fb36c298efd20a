"""Contradictions in records of guests, one at a time, in a store that is really consistent: verify finds every one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from support.consistent_guests import Stored, consistent_guests
from support.contradictory_guests import ALONE, BESIDE, COLUMNS, FACTS, Change, change_column, stored_guests
from support.contradictory_runs import judged, set_to
from support.contradictory_searches import SEARCHES, searched, stored_search
from support.recorded_guests import recorded_guests

LEAST = 81
"""Sixty, and the twenty-one that verify was once seen to pass over."""


def verified(path: Path, guests: dict[str, Stored], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the command says of a store of these, line by line; the last line is the summary."""
    if not path.exists():
        stored_guests(path, guests)
    status = main(["verify", "--store", str(path), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == (1 if lines[-1]["differences"] else 0)
    return lines


def id_of(stored: Stored) -> str:
    kind, data = stored
    return str(data[f"{kind}_id"])


@pytest.mark.parametrize(("name", "record", "change", "where"), ALONE, ids=[each[0] for each in ALONE])
def test_a_contradiction_within_a_record_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, record: str, change: Any, where: str
) -> None:
    guests = consistent_guests()
    change(guests[record][1])
    found = verified(tmp_path / "s.sqlite", guests, capsys)[:-1]
    own = id_of(guests[record])
    assert any(line["run_id"] == own and line["where"].startswith(where) for line in found), found


@pytest.mark.parametrize(("name", "change", "record", "where"), BESIDE, ids=[each[0] for each in BESIDE])
def test_a_contradiction_between_records_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, change: Change, record: str, where: str
) -> None:
    guests = consistent_guests()
    change({each: data for each, (_, data) in guests.items()})
    found = verified(tmp_path / "s.sqlite", guests, capsys)[:-1]
    own = id_of(guests[record])
    assert any(line["run_id"] == own and line["where"].startswith(where) for line in found), found


@pytest.mark.parametrize("record", ["out", "route", "job", "boot"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_table_that_says_otherwise_than_the_record_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: str, column: str
) -> None:
    guests, path = consistent_guests(), tmp_path / "s.sqlite"
    stored_guests(path, guests)
    change_column(path, id_of(guests[record]), column, COLUMNS[column])
    (found,) = verified(path, guests, capsys)[:-1]
    assert found["where"] == f"column {column}" and found["stored"] == COLUMNS[column]


def test_there_are_eighty_contradictions_and_more() -> None:
    names = [each[0] for each in (*ALONE, *BESIDE)]
    assert len(names) + len(COLUMNS) >= LEAST
    assert len(set(names)) == len(names)


def test_the_consistent_store_gives_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(tmp_path / "s.sqlite", consistent_guests(), capsys) == [
        {"runs": 0, "searches": 0, "boots": 2, "flows": 6, "jobs": 3, "routes": 2, "differences": 0, "unreadable": 0}
    ]


def test_trials_that_were_really_taken_give_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests = recorded_guests()
    assert {kind for kind, _ in guests.values()} == {"boot", "flow", "job", "route"}
    assert verified(tmp_path / "s.sqlite", guests, capsys)[:-1] == []


@pytest.mark.parametrize(("name", "change", "where"), SEARCHES, ids=[each[0] for each in SEARCHES])
def test_a_contradiction_in_a_search_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, change: Any, where: str
) -> None:
    runs, search = searched()
    change(search)
    stored_search(tmp_path / "s.sqlite", runs, search)
    found = verified(tmp_path / "s.sqlite", {}, capsys)[:-1]
    assert any(line["run_id"] == search["search_id"] and line["where"].startswith(where) for line in found), found


def test_the_search_and_its_runs_give_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored_search(tmp_path / "s.sqlite", *searched())
    assert verified(tmp_path / "s.sqlite", {}, capsys)[:-1] == []


def test_a_bundle_of_them_is_verified_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests = {name: each for name, each in consistent_guests().items() if each[0] == "route"}
    set_to(f"{FACTS}.boot_id", "boot-9")(guests["route-2"][1])
    set_to("routers.0.routes", 0)(guests["route"][1])
    path, bundle = tmp_path / "s.sqlite", tmp_path / "b.tar.gz"
    stored_guests(path, guests)
    assert main(["report", "--store", str(path), "--bundle", str(bundle)]) == 0
    capsys.readouterr()
    assert main(["verify", str(bundle), "--json"]) == 1
    told = capsys.readouterr().out
    assert f"{id_of(guests['route-2'])}  set_up.id: " in told and "lacks routes_missing" in told


def test_an_unreadable_record_is_told_and_the_rest_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests, path = consistent_guests(), tmp_path / "s.sqlite"
    stored_guests(path, guests)
    change_column(path, id_of(guests["job"]), "record", '{"format": 1}')
    assert main(["verify", "--store", str(path), "--json"]) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["unreadable"], last["jobs"], last["routes"]) == (1, 2, 2)


def test_reasons_that_rest_on_what_no_record_holds_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guests, path = consistent_guests(), tmp_path / "s.sqlite"
    for name in ("route", "job"):
        guests[name][1]["verdict"] = judged("suspect", "guests_changed")
    lines = verified(path, guests, capsys)
    words = "the reason guests_changed, which rests on what the record does not hold"
    assert lines[:-1] == [] and lines[-1]["not_judged"] == {words: 2}
    main(["verify", "--store", str(path)])
    assert f"not judged in 2 records: {words}" in capsys.readouterr().out
