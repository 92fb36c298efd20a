"""How many of the contradictions made by hand (tests/unit/test_contradictions.py) the real ``labconsole verify`` finds."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import NO, YES, Table

from labconsole.cli import main
from labconsole.store import open_store
from labconsole.store.records import parse_record

LEAST = 40
UNIT_TESTS = Path(__file__).resolve().parents[1] / "unit"


def row(table: Table) -> None:
    """What was found of how many, and that the store they are put into has none."""
    try:
        missed = [name for name, runs, run_id, where in _contradictory() if not _found(runs, run_id, where)]
        made = sum(1 for _ in _contradictory())
        clean = _verified(_consistent())
    except Exception as exc:
        table.not_done("contradictory records", exc)
        return
    right = not missed and made >= LEAST and not clean
    table.add(
        "contradictions made by hand, one at a time, in a consistent store", f"{made}, and none",
        f"verify finds {made - len(missed)} of {made}, and {len(clean)} in the store without them",
        f"all of at least {LEAST}, and none", YES if right else NO,
        failure=None if right else f"not found: {', '.join(missed) or 'nothing'}; in the consistent store: {clean[:3]}",
    )  # fmt: skip


def _tables() -> tuple[Any, Any]:
    """The modules of the unit tests, which stand beside these."""
    if str(UNIT_TESTS) not in sys.path:
        sys.path.append(str(UNIT_TESTS))
    import consistent_runs
    import test_contradictions

    return consistent_runs, test_contradictions


def _consistent() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _tables()[0].consistent()
    return found


def _contradictory() -> Iterator[tuple[str, list[dict[str, Any]], str, str]]:
    """Name, runs, and where verify has to see it."""
    store, made = _tables()
    for name, run_id, change, where in made.RECORD:
        runs = store.consistent()
        change(store.by_id(runs)[run_id])
        yield name, runs, run_id, where
    for name, change, run_id, where in made.SEVERAL:
        held = store.by_id(store.consistent())
        change(held)
        yield name, list(held.values()), run_id, where


def _found(runs: list[dict[str, Any]], run_id: str, where: str) -> bool:
    return any(line["run_id"] == run_id and line["where"].startswith(where) for line in _verified(runs))


def _verified(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The differences that the command prints."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.sqlite"
        with open_store(str(path)) as store:
            for number, data in enumerate(runs):
                store.save(parse_record(data, f"run {number}"))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main(["verify", "--store", str(path), "--json"])
    return [json.loads(line) for line in printed.getvalue().splitlines()][:-1]
