"""Contradictions in records of guests, one at a time, in a store that is really consistent: verify finds every one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from support.consistent_guests import Stored, consistent_guests
from support.contradictory_guests import ALONE, BESIDE, COLUMNS, Change, change_column, stored_guests

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
