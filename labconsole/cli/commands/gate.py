"""``labconsole gate``: whether a plan measured again stands beside its baseline, for CI. docs/compare.md."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, whole_number
from labconsole.cli.output import complain, json_line, plain_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.model.plan.plan import Plan
    from labconsole.model.record.baseline import Baseline
    from labconsole.report.gating import Gate
    from labconsole.store.writing import RunStore

MOST_STATUS = 125
"""What a shell and `git bisect run` leave to commands."""

about = About(
    116,
    "judge a plan's runs against a baseline: exit status, JUnit and Markdown for CI",
    description="Compare what is stored of a plan, or of an occasion of it, with a baseline, and end with status 0 if "
    "every design point is shown not to be worse by more than the margin, with 1 if one is shown to be, was not "
    "measured, or (unless --undecided says otherwise) is shown neither way: in its forwarding rate, or in what its "
    "searches, jobs, starts, flows or routers come to. Nothing is measured: replay does that.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    add_common(parser, "--hosts", "--store", "--json")
    parser.add_argument("plan", type=Path, help="plan file, such as nightly.yaml")
    parser.add_argument("--baseline", required=True, metavar="NAME", help="what it is compared with")
    parser.add_argument("--occasion", metavar="NAME", help="on which it was measured (default: without an occasion)")
    parser.add_argument(
        "--margin", metavar="RATIO",
        help="largest change for the worse that does not matter, such as 2%% (default: the plan's)",
    )  # fmt: skip
    parser.add_argument(
        "--undecided", type=whole_number, default=1, metavar="N",
        help="exit status where a point is shown neither to be worse nor not to be: 0 lets it pass, 125 makes `git "
        "bisect run` skip (default: 1)",
    )  # fmt: skip
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a test case a design point as JUnit XML")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary as Markdown")


def run(args: argparse.Namespace) -> int:
    """0 where all points pass; what --undecided says where none is worse; else 1."""
    from labconsole.api.plan_files import plan_on
    from labconsole.cli.text import gate as text
    from labconsole.store.open import open_store

    if not 0 <= args.undecided <= MOST_STATUS:
        raise ConfigError("is not a status", key="--undecided", value=args.undecided, allowed=f"0 to {MOST_STATUS}")
    plan = plan_on(args.plan, args.occasion, args.hosts)
    with open_store(args.store, write=False) as store:
        found = _judge(args, plan, store)
    if args.junit is not None:
        _write(args.junit, text.junit(plan.name, args.baseline, found, undecided_passes=not args.undecided), "--junit")
    if args.markdown is not None:
        _write(args.markdown, "\n".join(text.markdown(plan.name, args.baseline, found)) + "\n", "--markdown")
    if args.json:
        json_line(text.to_json(plan.name, args.baseline, found))
    else:
        plain_lines(*text.lines(plan.name, args.baseline, found))
    # What was not measured never passes; where the undecided is skipped, so is that.
    status: dict[str, int] = {"passed": 0, "undecided": args.undecided, "not measured": args.undecided or 1}
    return status.get(found.outcome, 1)


def _judge(args: argparse.Namespace, plan: Plan, store: RunStore) -> Gate:
    from labconsole.experiments.measured import measured_kinds
    from labconsole.model.query import parse_query
    from labconsole.model.record.baseline import set_together
    from labconsole.model.record.summary import RunFilter
    from labconsole.report.changes import find_changes
    from labconsole.report.gathering import Wanted, file_points, gather_sides
    from labconsole.report.gating import judge, unmeasured
    from labconsole.report.gating_quantities import asked_trials
    from labconsole.report.judged_points import UNMEASURED
    from labconsole.report.selection import parse_margin

    known = store.baselines()
    occasions = next((held for held in set_together(known) if held[0].name == args.baseline), None)
    if occasions is None:
        allowed = ", ".join(dict.fromkeys(each.name for each in known)) or "none: labconsole baseline set NAME PLAN"
        raise ConfigError("there is no such baseline", key="--baseline", value=args.baseline, allowed=allowed)
    if plan.stop.raising is not None or plan.stop.lowering is not None:
        raise ConfigError(
            f"plan {plan.name} leaves out trials by what others came to (stop.raising, stop.lowering), and a gate "
            "needs every one of its points"
        )
    baseline, hashes = occasions[0], [each.plan_hash for each in occasions]
    _refuse_elsewhere(args.hosts, baseline)
    asked, beside = file_points([plan]), asked_trials(plan)
    if not asked and not beside:
        raise ConfigError(f"plan {plan.name} asks for nothing that a gate judges: no points, no load goals")
    if plan.hash() in hashes:
        raise ConfigError(
            f"plan {plan.name} is what baseline {baseline.name} is of: measure it again with replay --occasion NAME, "
            "and name that occasion",
            key="--occasion",
        )
    margin_ratio = parse_margin(args.margin) or plan.margin_ratio
    if margin_ratio is None:
        raise ConfigError("the plan declares no margin, and a gate needs one", key="--margin", allowed="such as 2%")
    place, everything = store.name, parse_query("")
    of_baseline = RunFilter(plan_hash=hashes, testbed_fingerprint=baseline.testbed_fingerprint, until=baseline.set_at)
    of_plan = RunFilter(plan_hash=plan.hash(), testbed_fingerprint=baseline.testbed_fingerprint)
    steps = [*plan.search_hashes, *plan.step_hashes]
    places = _measured_on(store, plan.hash(), steps)
    if not places:
        return unmeasured(asked, margin_ratio, beside, _former(store, plan) or UNMEASURED)
    if baseline.testbed_fingerprint not in places:
        fingerprint, testbed = next(iter(places.items()))
        raise ConfigError(
            f"{plan.name} was measured on testbed {testbed} ({fingerprint}), and "
            f"baseline {baseline.name} on {baseline.testbed} ({baseline.testbed_fingerprint})"
        )
    names = [each.plan_name for each in occasions]
    words = f"{', '.join(names)} (baseline {baseline.name})"
    kinds = measured_kinds()
    # Searches and trials of guests do not say which plan they are of but by its name, and by hashes of their own.
    trials_of_baseline = RunFilter(
        plan_name=names, testbed_fingerprint=baseline.testbed_fingerprint, until=baseline.set_at
    )
    trials_of_plan = RunFilter(plan_hash=steps, testbed_fingerprint=baseline.testbed_fingerprint)
    before, after = gather_sides(
        Wanted(words, place, store, of_baseline, everything, trials_of_baseline),
        Wanted(plan.name, place, store, of_plan, everything, trials_of_plan),
        kinds,
        on_unreadable=complain,
    )
    found = find_changes(before, after, margin_ratio, kinds, across_factors=False)
    return judge(found, asked, margin_ratio, beside)


def _measured_on(store: RunStore, plan_hash: str, steps: list[str]) -> dict[str, str]:
    """Testbeds on which anything of a plan was measured, by their fingerprints. ``steps``: hashes beside its own."""
    from labconsole.model.record.kinds import record_kinds
    from labconsole.model.record.summary import RunFilter

    found = {run.testbed_fingerprint: run.testbed for run in store.list(RunFilter(plan_hash=plan_hash))}
    for kind in record_kinds().values() if steps else ():
        columns = map(kind.columns, store.experiments(kind, RunFilter(plan_hash=steps)))
        found |= {each.testbed_fingerprint: each.testbed for each in columns}
    return found


def _refuse_elsewhere(hosts: Path | None, baseline: Baseline) -> None:
    """Refuse the file of another testbed than the baseline's. Raises ConfigError."""
    from labconsole.model.inventory import load_inventory

    if hosts is None:
        return
    inventory = load_inventory(hosts)
    fingerprint = inventory.fingerprint()
    if fingerprint != baseline.testbed_fingerprint:
        raise ConfigError(
            f"describes testbed {inventory.testbed} ({fingerprint}), and baseline {baseline.name} was measured on "
            f"{baseline.testbed} ({baseline.testbed_fingerprint})",
            key="--hosts", value=str(hosts),
        )  # fmt: skip


def _former(store: RunStore, plan: Plan) -> str | None:
    """That what is stored under the name of a plan which has not been measured is of another plan; None: nothing is."""
    from labconsole.model.record.kinds import record_kinds
    from labconsole.model.record.summary import RunFilter

    where = RunFilter(plan_name=plan.name)
    hashes = {run.plan_hash for run in store.list(where) if run.role != "telemetry" and run.plan_hash is not None}
    told = f"hash {', '.join(sorted(hashes))}, now {plan.hash()}"
    if hashes or any(next(iter(store.experiments(kind, where)), None) for kind in record_kinds().values()):
        return (
            f"it has not been measured as the plan is now: the plan has changed since {plan.name} was measured, or the "
            f"defaults of hosts.yaml have{f' ({told})' if hashes else ''}"
        )
    return None


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot be written: {exc.strerror or exc}", key=option, value=str(path)) from None
