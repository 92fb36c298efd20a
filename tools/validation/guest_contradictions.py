"""How many contradictions made by hand in records of guests and searches the real ``labconsole verify`` finds, and that
it finds none where there is none: in a consistent store, and in trials that were really taken.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tables import NO, YES, Table

from labconsole.cli.main import main
from support.consistent_guests import Stored, consistent_guests
from support.contradictory_guests import ALONE, BESIDE, COLUMNS, change_column, stored_guests
from support.contradictory_searches import SEARCHES, searched, stored_search
from support.recorded_guests import recorded_guests

LEAST = 81
"""Sixty, and the twenty-one that an earlier version was seen to pass over, or more."""

OF = {
    "out": "guests that send",
    "weights": "guests that send",
    "beside": "guests that send",
    "ring": "rings",
    "in": "guests that are sent to",
    "route": "routers",
    "job": "jobs",
    "disk": "jobs",
    "boot": "starts",
    "hot": "starts",
}
COLUMN_NAMES = ("of", "contradictions, one at a time", "verify finds", "allowed", "as it must be")
BETWEEN, TABLE, SEARCH = "records beside each other", "the store's columns beside its records", "searches"

Prepare = Callable[[Path], None]
Made = tuple[str, str, Prepare, str, str]
"""Group, name, what makes the store, which record verify has to tell of, and where in it."""


def found() -> Table:
    """A row of each group, and of what is consistent."""
    table = Table("26. Contradictions in records of guests", COLUMN_NAMES)
    made: dict[str, list[str]] = {}
    missed: dict[str, list[str]] = {}
    for group, name, prepare, record_id, where in _made():
        made.setdefault(group, []).append(name)
        told = _verified(prepare)
        if not any(line.get("run_id") == record_id and line["where"].startswith(where) for line in told):
            missed.setdefault(group, []).append(name)
    for group, names in made.items():
        _row(table, group, len(names), missed.get(group, []))
    total, lost = sum(map(len, made.values())), [name for names in missed.values() for name in names]
    if total < LEAST:
        lost.append(f"there are {total}, of at least {LEAST}")
    _row(table, f"all, at least {LEAST}", total, lost)
    for what, guests in (("a consistent store of them", consistent_guests()), ("trials of a lab", recorded_guests())):
        told = _verified(_store(guests))
        _row(table, f"{what}: {len(guests)} records", 0, [f"{line['where']}: {line['says']}" for line in told])
    return table


def _row(table: Table, group: str, made: int, missed: list[str]) -> None:
    told = f"{made - len(missed)} of {made}" if made else f"{len(missed)}"
    failure = f"{'not found' if made else 'found'}: {', '.join(missed)}" if missed else None
    table.add(group, made or "none", told, "all" if made else "none", NO if missed else YES, failure=failure)


def _made() -> Iterator[Made]:
    for name, record, change, where in ALONE:
        guests = consistent_guests()
        change(guests[record][1])
        yield OF[record], name, _store(guests), _id(guests[record]), where
    for name, change_all, record, where in BESIDE:
        guests = consistent_guests()
        change_all({each: data for each, (_, data) in guests.items()})
        yield BETWEEN, name, _store(guests), _id(guests[record]), where
    for column, value in COLUMNS.items():
        guests = consistent_guests()
        yield TABLE, column, _with_column(guests, column, value), _id(guests["route"]), f"column {column}"
    for name, change_search, where in SEARCHES:
        runs, search = searched()
        change_search(search)
        yield SEARCH, name, _searching(runs, copy.deepcopy(search)), search["search_id"], where


def _id(stored: Stored) -> str:
    kind, data = stored
    return str(data[f"{kind}_id"])


def _store(guests: dict[str, Stored]) -> Prepare:
    return lambda path: stored_guests(path, guests)


def _with_column(guests: dict[str, Stored], column: str, value: str) -> Prepare:
    def prepare(path: Path) -> None:
        stored_guests(path, guests)
        change_column(path, _id(guests["route"]), column, value)

    return prepare


def _searching(runs: list[dict[str, Any]], search: dict[str, Any]) -> Prepare:
    return lambda path: stored_search(path, runs, search)


def _verified(prepare: Prepare) -> list[dict[str, Any]]:
    """The differences that the command prints."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.sqlite"
        prepare(path)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main(["verify", "--store", str(path), "--json"])
    return [json.loads(line) for line in printed.getvalue().splitlines()][:-1]
