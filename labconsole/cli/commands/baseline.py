"""``labconsole baseline``: named measurements that later ones are compared with. docs/compare.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from labconsole.api.comparisons import is_plan
from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_error, print_json_line, print_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.comparison.outliers import PointScatter
    from labconsole.model.plan.plan import Plan
    from labconsole.model.record.annotations import Baseline
    from labconsole.store.writing import RunStore

about = About(
    114,
    "name measurements as the reference for later ones",
    description="List the baselines of a store, set or move one to what is stored of a plan, or show where one has "
    "been; set and show say how far its occasions scatter, and which one is off. A baseline is all that was measured "
    "of a plan on a testbed by the time it is set, on one occasion or, so that a gate knows how far occasions differ, "
    "on three or more.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json")
    parser.add_argument(
        "action", nargs="?", choices=("list", "set", "show"), default="list", help="action (default: list)"
    )
    parser.add_argument("name", nargs="?", help="set, show: name of the baseline")
    parser.add_argument(
        "plan",
        nargs="*",
        metavar="PLAN",
        help="set: a plan's file, or its name as its runs have it, such as nightly@main; several of one plan, such as "
        "nightly@main-1 nightly@main-2 or 'nightly@main-*'",
    )
    parser.add_argument(
        "--occasion",
        metavar="NAME",
        action="append",
        default=[],
        help="set: with a file, the occasion on which it was measured; may be given again",
    )
    parser.add_argument(
        "--testbed",
        metavar="NAME",
        help="set: of the testbeds that it was measured on, the one of this name or fingerprint",
    )


def run(args: argparse.Namespace) -> int:
    """Return 0 on success."""
    from labconsole.model.record.annotations import group_baselines
    from labconsole.store.open import open_store

    _refuse_strays(args)
    if args.action == "set":
        open_store(args.store, write=False).close()  # a missing store has no runs, and is not created
    with open_store(args.store, write=args.action == "set") as store:
        if args.action == "set":
            found = _set(store, args)
            _tell(found, args, _scatter(store, found))
            return 0
        found, scatter = store.baselines(), []
        if args.action == "show":
            found = [each for each in found if each.name == args.name]
            if not found:
                raise ConfigError("there is no baseline of this name", value=args.name)
            scatter = _scatter(store, group_baselines(found)[0])
        else:
            last = {of_name[0].name: of_name for of_name in reversed(group_baselines(found))}
            found = [each for of_name in last.values() for each in reversed(of_name)]
        _tell(found, args, scatter)
    return 0


def _scatter(store: RunStore, occasions: list[Baseline]) -> list[PointScatter]:
    """Scatter between the occasions of a baseline; empty if its runs are no longer stored."""
    from labconsole.comparison.loading import load_side, select_baseline
    from labconsole.comparison.outliers import find_scatter
    from labconsole.experiments.kinds import load_measured_kinds

    try:
        side = load_side(select_baseline(occasions, store), load_measured_kinds(), print_error)
    except ConfigError:
        return []
    return find_scatter(side)


def _refuse_strays(args: argparse.Namespace) -> None:
    if args.action == "set" and (args.name is None or not args.plan):
        raise ConfigError("baseline set needs a name and a plan, such as: labconsole baseline set main nightly@main")
    if args.action == "show" and args.name is None:
        raise ConfigError("baseline show needs a name")
    if args.action != "set" and args.plan:
        raise ConfigError(f"baseline {args.action} takes no plan", value=args.plan[0])
    if args.action == "list" and args.name is not None:
        raise ConfigError("baseline list takes no name; use show", value=args.name)
    for option in ("occasion", "testbed"):
        if getattr(args, option) and args.action != "set":
            raise ConfigError("only valid with set", key=f"--{option}")


def _set(store: RunStore, args: argparse.Namespace) -> list[Baseline]:
    from labconsole.comparison.occasions import base_name
    from labconsole.model.identity import operator_name
    from labconsole.model.record.annotations import ALLOWED_NAMES, NAME, Baseline
    from labconsole.store.notes import now_utc

    if NAME.fullmatch(args.name) is None:
        raise ConfigError("is not a name", key="name of the baseline", value=args.name, allowed=ALLOWED_NAMES)
    found = [each for named in _named(store, args) for each in _measured(store, named, args.testbed)]
    found = list(dict.fromkeys(found))
    if not found:
        raise ConfigError("was measured on no such testbed", key="--testbed", value=args.testbed)
    plans = sorted({base_name(each.plan_name) for each in found})
    if len(plans) > 1:
        raise ConfigError("a baseline covers one plan", value=" ".join(args.plan), allowed=f"one of {', '.join(plans)}")
    testbeds = sorted({f"{each.testbed} ({each.testbed_fingerprint})" for each in found})
    if len(testbeds) > 1:
        raise ConfigError(
            "was measured on several testbeds, but a baseline covers one; use --testbed",
            value=" ".join(args.plan),
            allowed=", ".join(testbeds),
        )
    author, set_at = operator_name(), now_utc()
    occasions = [Baseline(name=args.name, author=author, set_at=set_at, **each._asdict()) for each in found]
    store.set_baseline(*occasions)
    return occasions[::-1]


class _BaselineName(NamedTuple):
    """The meaning of a word: a plan's name in the store, or a plan on an occasion."""

    word: str
    plan: Plan | None = None
    by_pattern: bool = False


def _named(store: RunStore, args: argparse.Namespace) -> Iterator[_BaselineName]:
    """Every requested measurement, by its name or its plan. Raises ConfigError if a pattern matches none."""
    from labconsole.api.plan_files import find_names_like, load_plan_on_occasion

    for word in args.plan:
        if is_plan(word):
            for occasion in args.occasion or [None]:
                yield _BaselineName(word, load_plan_on_occasion(Path(word), occasion, args.hosts))
        elif args.occasion:
            raise ConfigError("is for a plan's file; a plan's name has the occasion after the @", key="--occasion")
        else:
            names = find_names_like(word, store)
            if not names:
                there = ", ".join(find_names_like("*", store)) or None
                raise ConfigError(f"nothing of this name is saved in {store.name}", value=word, allowed=there)
            yield from (_BaselineName(name, by_pattern=name != word) for name in names)


def _measured(store: RunStore, named: _BaselineName, testbed: str | None) -> list[_MeasuredPlan]:
    """The one measurement that a name or a plan refers to.

    Empty if a pattern matched one from another testbed. Raises ConfigError if there is otherwise none, or several.
    """
    from labconsole.api.plan_files import find_names_of_plan
    from labconsole.measure.groups import is_search_trial
    from labconsole.model.plan.plan import AT
    from labconsole.model.record.summary import RunFilter

    word, plan, by_pattern = named
    where = RunFilter(plan_name=word) if plan is None else RunFilter(plan_hash=plan.hash())
    runs = [
        _MeasuredPlan(run.plan_hash, run.plan_name or "", run.testbed, run.testbed_fingerprint)
        for run in store.list(where)
        if run.role != "telemetry" and run.plan_hash is not None and not is_search_trial(run)
    ]
    runs = runs or _trials(store, word, plan)
    if testbed is not None:
        runs = [run for run in runs if testbed in (run.testbed, run.testbed_fingerprint)]
    if not runs and by_pattern:
        return []
    if not runs:
        of = plan.name if plan is not None else word
        there = find_names_of_plan(of.rpartition(AT)[0] or of, store, RunFilter())
        raise ConfigError(f"no run of this plan is saved in {store.name}", value=word, allowed=", ".join(there) or None)
    meant = {(run.plan_hash, run.testbed_fingerprint): run for run in reversed(runs)}
    if len(meant) > 1:
        several = ", ".join(
            sorted(f"plan {key} on {run.testbed} ({run.testbed_fingerprint})" for (key, _), run in meant.items())
        )
        raise ConfigError(
            "is more than one measurement; use the plan's file, --testbed, or both", value=word, allowed=several
        )
    return list(meant.values())


class _MeasuredPlan(NamedTuple):
    """The stored measurement of a plan on one occasion, as a baseline describes it."""

    plan_hash: str
    plan_name: str
    testbed: str
    testbed_fingerprint: str


def _trials(store: RunStore, name: str, plan: Plan | None) -> list[_MeasuredPlan]:
    """Searches and guest trials of a plan without runs, by its file or else by its name, newest first.

    Raises ConfigError for searches by name alone, as they do not record their plan.
    """
    from labconsole.model.record.kind import record_kinds
    from labconsole.model.record.summary import RunFilter

    where = RunFilter(plan_name=name)
    if plan is not None:
        where = RunFilter(plan_hash=[*plan.search_hashes, *plan.step_hashes])
    found = []
    for kind in record_kinds().values():
        for record in store.experiments(kind, where):
            of_plan = plan.hash() if plan is not None else getattr(record.plan, "plan_hash", None)
            if of_plan is None:
                raise ConfigError(
                    f"{kind.plural} do not say which plan they are of: name the plan by its file", value=name
                )
            of = kind.columns(record)
            found.append(_MeasuredPlan(of_plan, of.plan_name or "", of.testbed, of.testbed_fingerprint))
    return found


def _tell(found: list[Baseline], args: argparse.Namespace, scatter: list[PointScatter]) -> None:
    """Print the baselines. ``scatter``: of the occasions that were set last."""
    from labconsole.comparison.outliers import describe_scatter
    from labconsole.model.record.annotations import group_baselines

    if args.json:
        for each in found:
            points = [point.to_json() for point in scatter] if each.set_at == found[0].set_at else []
            print_json_line(each.to_json() | ({"scatter": points} if points else {}))
        return
    for number, occasions in enumerate(group_baselines(found)):
        of, last = ", ".join(each.plan_name for each in occasions), occasions[0]
        print_lines(f"{last.name}: {of} on {last.testbed}, set by {last.author} at {last.set_at[:19]}Z")
        if number == 0 and args.action != "list":
            print_lines(*describe_scatter(scatter, len(occasions)))
    if not found:
        print_lines("no baseline has been set")
