"""The command verify: every derived number in a store, computed again from the raw counts beside it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from labconsole.errors import ConfigError, StoreError
from labconsole.measure.recompute import Discrepancy, recompute
from labconsole.measure.recompute_search import recompute_search
from labconsole.model.plan_search import HASH_PREFIX
from labconsole.model.record import Total


def verify(args: argparse.Namespace) -> int:
    """``labconsole verify``: 0 when every number follows from its counts, 1 when one does not or cannot be read."""
    from labconsole.store import open_store

    if args.bundle is not None:
        return _verify_bundle(args)
    runs, numbers = 0, 0
    unreadable: list[StoreError] = []
    totals: dict[str, Total] = {}
    with open_store(args.store, write=False) as store:
        for record in store.iterate(unreadable=unreadable.append):
            runs += 1
            for found in recompute(record):
                numbers += 1
                _tell(record.run_id, found, as_json=args.json)
            if record.plan is not None and record.plan.hash.startswith(HASH_PREFIX):
                totals[record.run_id] = record.total
        searches = store.searches()
    for search in searches:
        for found in recompute_search(search, totals):
            numbers += 1
            _tell(search.search_id, found, as_json=args.json)
    for problem in unreadable:
        _tell_unreadable(problem, as_json=args.json)
    if args.json:
        _line({"runs": runs, "searches": len(searches), "differences": numbers, "unreadable": len(unreadable)})
    else:
        bad = f"; {len(unreadable)} could not be read" if unreadable else ""
        word = "every derived number follows from its raw counts" if not numbers else f"{numbers} numbers do not follow"
        more = f" and {len(searches)} searches" if searches else ""
        sys.stdout.write(f"{runs} runs{more} verified: {word}{bad}\n")
    return 1 if numbers or unreadable else 0


def _verify_bundle(args: argparse.Namespace) -> int:
    """``labconsole verify FILE``: 0 when the files are those of the manifest and everything in them follows."""
    from labconsole.bundle_verification import check

    if args.store is not None:
        raise ConfigError("a bundle is verified without a store", key="--store", value=args.store)
    differences = 0

    def tell(sentence: str) -> None:
        nonlocal differences
        differences += 1
        if args.json:
            _line({"difference": sentence})
        else:
            sys.stdout.write(f"{sentence}\n")

    counts = check(args.bundle, tell)
    if args.json:
        _line({"bundle": str(args.bundle), **counts, "differences": differences})
    else:
        looked_at = ", ".join(f"{count} {word}" for word, count in counts.items() if word != "tables")
        word = "everything follows from the raw counts" if not differences else f"{differences} differences"
        sys.stdout.write(f"{looked_at} verified, {counts['tables']} files of the report made again: {word}\n")
    return 1 if differences else 0


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
