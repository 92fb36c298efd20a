"""The command verify: every derived number in a store, computed again from the raw counts beside it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from labconsole.errors import StoreError
from labconsole.measure.recompute import Discrepancy, recompute


def verify(args: argparse.Namespace) -> int:
    """``labconsole verify``: 0 when every number follows from its counts, 1 when one does not or cannot be read."""
    from labconsole.store import open_store

    runs, numbers = 0, 0
    unreadable: list[StoreError] = []
    with open_store(args.store, write=False) as store:
        for record in store.iterate(unreadable=unreadable.append):
            runs += 1
            for found in recompute(record):
                numbers += 1
                _tell(record.run_id, found, as_json=args.json)
    for problem in unreadable:
        _tell_unreadable(problem, as_json=args.json)
    if args.json:
        _line({"runs": runs, "differences": numbers, "unreadable": len(unreadable)})
    else:
        bad = f"; {len(unreadable)} could not be read" if unreadable else ""
        word = "every derived number follows from its raw counts" if not numbers else f"{numbers} numbers do not follow"
        sys.stdout.write(f"{runs} runs verified: {word}{bad}\n")
    return 1 if numbers or unreadable else 0


def _tell(run_id: str, found: Discrepancy, *, as_json: bool) -> None:
    if as_json:
        _line({"run_id": run_id, **asdict(found)})
    else:
        sys.stdout.write(f"{run_id}  {found.where}: stored {found.stored}, the counts give {found.recomputed}\n")


def _tell_unreadable(problem: StoreError, *, as_json: bool) -> None:
    if as_json:
        _line({"unreadable": str(problem)})
    else:
        sys.stdout.write(f"unreadable: {problem}\n")


def _line(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
