"""``labconsole verify``: recompute a store's derived numbers and verdicts, and look for contradictions.

Every derived number is recomputed from the raw counts in its record. Every verdict is judged again, as far as its
record has the reasons. Every two facts that cannot both be true are reported.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import answer
from labconsole.errors import ConfigError, StoreError
from labconsole.units import counted

if TYPE_CHECKING:
    from labconsole.measure.recompute.discrepancy import Discrepancy
    from labconsole.model.record.search import SearchRecord

about = About(
    120,
    "recompute and judge saved runs, searches and trials of guests again and compare them with each other; "
    "for a bundle, also make its report again",
    description="Recompute every derived number of the store's runs, searches and trials of guests from the recorded "
    "counts, judge every verdict again, and look for contradictions between records; with a bundle, do so with its "
    "records, check its files, and make its report again. Prints a line for each finding. Exit status: 0 nothing was "
    "found, which does not show that a record is genuine; 1 something was, or a record cannot be read; 2 bad usage, or "
    "not a bundle.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store", "--json")
    parser.add_argument(
        "bundle",
        nargs="?",
        type=Path,
        metavar="FILE.tar.gz",
        help="a file written by report --bundle: check its files, verify its records, make its report again",
    )


def run(args: argparse.Namespace) -> int:
    """Return 0 if everything follows and nothing contradicts, else 1; also 1 if a record is unreadable."""
    if args.bundle is not None:
        return _verify_bundle(args)
    from labconsole.bundle.examination import Examination, columns, experiment_columns
    from labconsole.model.record.kind import record_kinds
    from labconsole.model.record.search import SEARCH
    from labconsole.store.open import open_store

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
        searches: list[SearchRecord] = []
        there: Counter[str] = Counter()
        for kind in record_kinds().values():
            for repeated, other in store.iterate_experiments(kind, unreadable.append):
                if kind is SEARCH:
                    searches.append(other)
                else:
                    there[kind.plural] += 1
                    examination.take_other(kind, other)
                for wrong in experiment_columns(kind, repeated, other):
                    found(kind.columns(other).id, wrong)
        unreadable += store.unknown_experiments()
    examination.end(searches)
    for problem in unreadable:
        answer({"unreadable": str(problem)}, [f"unreadable: {problem}"], as_json=args.json)
    counts = {"runs": examination.runs, "searches": len(searches), **there}
    bad = f"; {len(unreadable)} could not be read" if unreadable else ""
    more = f" and {len(searches)} search{'es' if len(searches) > 1 else ''}" if searches else ""
    more += "".join(f" and {count} {plural}" for plural, count in there.items())
    answer(
        {**counts, "differences": differences, "unreadable": len(unreadable), **_not_judged(examination.unjudged)},
        [
            f"{counted(examination.runs, 'run')}{more} verified: {_verdict(differences)}{bad}",
            *_unjudged(examination.unjudged),
        ],
        as_json=args.json,
    )
    return 1 if differences or unreadable else 0


def _verdict(differences: int) -> str:
    if differences:
        return f"{differences} difference{'s' if differences > 1 else ''}"
    return "every derived number follows from its raw counts, and no contradiction was found"


def _verify_bundle(args: argparse.Namespace) -> int:
    """``labconsole verify FILE``: 0 if the files match the manifest and everything in them follows.

    Shows the commands of its plans, which are no difference: nothing here runs them.
    """
    from labconsole.bundle.verify import check

    if args.store is not None:
        raise ConfigError("cannot be used with a bundle, which needs no store", key="--store", value=args.store)

    def tell(sentence: str) -> None:
        answer({"difference": sentence}, [sentence], as_json=args.json)

    found = check(args.bundle, tell)
    counts, differences = found.counts, found.differences
    looked_at = ", ".join(f"{count} {word}" for word, count in counts.items() if word != "tables")
    word = "everything follows from the raw counts" if not differences else f"{differences} differences"
    for each in found.commands:
        answer(
            each.to_json(),
            [f"{each.plan}: {each.when} command, run on the operator's machine when the plan is run: {each.command}"],
            as_json=args.json,
        )
    answer(
        {
            "bundle": str(args.bundle),
            **counts,
            "differences": differences,
            **({"commands": len(found.commands)} if found.commands else {}),
            **_not_judged(found.unjudged),
        },
        [
            f"{looked_at} verified, {counts['tables']} files of the report reproduced: {word}",
            *_unjudged(found.unjudged),
        ],
        as_json=args.json,
    )
    return 1 if differences else 0


def _not_judged(found: Counter[str]) -> dict[str, object]:
    return {"not_judged": dict(found)} if found else {}


def _unjudged(found: Counter[str]) -> list[str]:
    return [f"not judged in {counted(records, 'record')}: {reason}" for reason, records in sorted(found.items())]


def _tell(run_id: str, found: Discrepancy, *, as_json: bool) -> None:
    answer({"run_id": run_id, **found.to_json()}, [f"{run_id}  {found.where}: {found.sentence}"], as_json=as_json)
