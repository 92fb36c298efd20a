"""The command verify: every derived number in a store, computed again from the raw counts beside it; every verdict
judged again; every two facts that cannot both be true.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict

from labconsole.errors import ConfigError, StoreError
from labconsole.examination import Examination, columns
from labconsole.measure.discrepancy import Discrepancy


def verify(args: argparse.Namespace) -> int:
    """``labconsole verify``: 0 when everything follows and nothing contradicts, else 1; 1 when one is unreadable."""
    from labconsole.store import open_store

    if args.bundle is not None:
        return _verify_bundle(args)
    differences = 0

    def found(run_id: str, wrong: Discrepancy) -> None:
        nonlocal differences
        differences += 1
        _tell(run_id, wrong, as_json=args.json)

    unreadable: list[StoreError] = []
    examination = Examination(found)
    with open_store(args.store, write=False) as store:
        listed = {summary.run_id: summary for summary in store.list()}
        for record in store.iterate(unreadable=unreadable.append):
            examination.take(record)
            for wrong in columns(listed[record.run_id], record) if record.run_id in listed else ():
                found(record.run_id, wrong)
        searches = store.searches()
    examination.end(searches)
    for problem in unreadable:
        _tell_unreadable(problem, as_json=args.json)
    counts = {"runs": examination.runs, "searches": len(searches)}
    if args.json:
        _line({**counts, "differences": differences, "unreadable": len(unreadable), **_not_judged(examination)})
    else:
        bad = f"; {len(unreadable)} could not be read" if unreadable else ""
        more = f" and {len(searches)} searches" if searches else ""
        sys.stdout.write(f"{examination.runs} runs{more} verified: {_verdict(differences)}{bad}\n")
        _tell_unjudged(examination.unjudged)
    return 1 if differences or unreadable else 0


def _verdict(differences: int) -> str:
    if differences:
        return f"{differences} difference{'s' if differences > 1 else ''}"
    return "every derived number follows from its raw counts, and nothing contradicts anything else"


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

    counts, not_judged = check(args.bundle, tell)
    if args.json:
        more = {"not_judged": dict(not_judged)} if not_judged else {}
        _line({"bundle": str(args.bundle), **counts, "differences": differences, **more})
    else:
        looked_at = ", ".join(f"{count} {word}" for word, count in counts.items() if word != "tables")
        word = "everything follows from the raw counts" if not differences else f"{differences} differences"
        sys.stdout.write(f"{looked_at} verified, {counts['tables']} files of the report made again: {word}\n")
        _tell_unjudged(not_judged)
    return 1 if differences else 0


def _not_judged(examination: Examination) -> dict[str, object]:
    return {"not_judged": dict(examination.unjudged)} if examination.unjudged else {}


def _tell_unjudged(found: Counter[str]) -> None:
    for words, runs in sorted(found.items()):
        sys.stdout.write(f"not judged in {runs} run{'s' if runs > 1 else ''}: {words}\n")


def _tell(run_id: str, found: Discrepancy, *, as_json: bool) -> None:
    if as_json:
        _line({"run_id": run_id, **asdict(found)})
    else:
        sys.stdout.write(f"{run_id}  {found.where}: {found.sentence}\n")


def _tell_unreadable(problem: StoreError, *, as_json: bool) -> None:
    if as_json:
        _line({"unreadable": str(problem)})
    else:
        sys.stdout.write(f"unreadable: {problem}\n")


def _line(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
