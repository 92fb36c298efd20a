"""How many of the contradictions made by hand (tests/unit/bundle/test_contradictions.py) the real ``labconsole verify`` finds."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import NO, YES, Table

from labconsole.cli.main import main
from labconsole.store.open import open_store
from labconsole.store.records import parse_record
from support.consistent_runs import by_id, consistent
from support.contradictory_runs import RECORD, SEVERAL

LEAST = 40


def row(table: Table) -> None:
    """What was found of how many, and that the store they are put into has none."""
    try:
        missed = [name for name, runs, run_id, where in _contradictory() if not _found(runs, run_id, where)]
        made = sum(1 for _ in _contradictory())
        clean = _verified(consistent())
    except Exception as exc:
        table.not_done("contradictory records", exc)
        return
    right = not missed and made >= LEAST and not clean
    table.add(
        "contradictions made by hand, one at a time, in a consistent store",
        f"{made}, and none",
        f"verify finds {made - len(missed)} of {made}, and {len(clean)} in the store without them",
        f"all of at least {LEAST}, and none",
        YES if right else NO,
        failure=None if right else f"not found: {', '.join(missed) or 'nothing'}; in the consistent store: {clean[:3]}",
    )


def _contradictory() -> Iterator[tuple[str, list[dict[str, Any]], str, str]]:
    """Name, runs, and where verify has to see it."""
    for name, run_id, change, where in RECORD:
        runs = consistent()
        change(by_id(runs)[run_id])
        yield name, runs, run_id, where
    for name, change_all, run_id, where in SEVERAL:
        held = by_id(consistent())
        change_all(held)
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
