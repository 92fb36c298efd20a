"""``labconsole gate``: compare a new measurement of a plan with its baseline, for CI. docs/compare.md."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, whole_number
from labconsole.cli.output import print_error, print_json_line, print_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.comparison.gate import Gate
    from labconsole.model.plan.plan import Plan
    from labconsole.model.record.annotations import Baseline
    from labconsole.store.writing import RunStore

MOST_STATUS = 125
"""Highest status that a shell and `git bisect run` leave to commands."""

UNDECIDED_STATUS = 4
"""Used by no other command, so that a pipeline can distinguish an undecided gate from one that found a fall."""

about = About(
    116,
    "judge a plan's runs against a baseline: exit status, JUnit and Markdown for CI",
    description="Compare what is stored of a plan, or of occasions of it, with a baseline: its forwarding rates, and "
    "the results of its searches, jobs, starts, flows or routers. Nothing is measured: replay does that. Exit status: "
    "0 every design point is shown not to be worse by more than the margin; 1 one is shown to be worse; 2 bad usage; "
    "4 none is shown to be worse, but one is undecided or was not measured.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json")
    parser.add_argument("plan", type=Path, help="plan file, such as nightly.yaml")
    parser.add_argument("--baseline", required=True, metavar="NAME", help="baseline to compare with")
    parser.add_argument(
        "--occasion",
        metavar="NAME",
        action="append",
        default=[],
        help="occasion on which it was measured (default: without an occasion); may be repeated: all are one side",
    )
    parser.add_argument(
        "--margin",
        metavar="RATIO",
        help="largest change for the worse that does not matter, such as 2%% (default: the plan's)",
    )
    parser.add_argument(
        "--undecided",
        type=whole_number,
        default=UNDECIDED_STATUS,
        metavar="N",
        help="exit status if a point is undecided (shown neither to be worse nor not to be) or was not measured: 125 "
        f"makes `git bisect run` skip, 0 lets it pass (default: {UNDECIDED_STATUS})",
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a test case per design point as JUnit XML")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary as Markdown")


def run(args: argparse.Namespace) -> int:
    """Return 0 if all points pass, 1 if one is worse, else the status of --undecided."""
    from labconsole.api.plan_files import load_plan_on_occasion
    from labconsole.cli.text import gate as text
    from labconsole.store.open import open_store

    if not 0 <= args.undecided <= MOST_STATUS:
        raise ConfigError("is not a status", key="--undecided", value=args.undecided, allowed=f"0 to {MOST_STATUS}")
    if twice := sorted(name for name, many in Counter(args.occasion).items() if many > 1):
        raise ConfigError("is given twice", key="--occasion", value=twice[0])
    plans = [load_plan_on_occasion(args.plan, occasion, args.hosts) for occasion in args.occasion or [None]]
    names = ", ".join(plan.name for plan in plans)
    with open_store(args.store, write=False) as store:
        found = _judge(args, plans, store)
    if args.junit is not None:
        _write(
            args.junit, text.format_junit(names, args.baseline, found, undecided_fails=args.undecided == 1), "--junit"
        )
    if args.markdown is not None:
        _write(args.markdown, "\n".join(text.format_markdown(names, args.baseline, found)) + "\n", "--markdown")
    if args.json:
        print_json_line(text.to_json(names, args.baseline, found))
    else:
        print_lines(*text.format_lines(names, args.baseline, found))
    # A plan that was not measured never passes; if the undecided is skipped, so is that.
    not_measured: int = args.undecided or UNDECIDED_STATUS
    status: dict[str, int] = {"passed": 0, "worse": 1, "undecided": args.undecided, "not measured": not_measured}
    return status[found.outcome]


def _judge(args: argparse.Namespace, plans: list[Plan], store: RunStore) -> Gate:
    from labconsole.comparison.changes import find_changes
    from labconsole.comparison.gate import build_unmeasured_gate, collect_planned_trials, judge_gate
    from labconsole.comparison.judgements import UNMEASURED
    from labconsole.comparison.loading import SideSelection, load_sides, select_baseline
    from labconsole.experiments.kinds import load_measured_kinds
    from labconsole.model.query import parse_query
    from labconsole.model.record.annotations import group_baselines
    from labconsole.model.record.summary import RunFilter
    from labconsole.report.loading import load_file_points
    from labconsole.report.request import parse_margin

    known = store.baselines()
    occasions = next((each for each in group_baselines(known) if each[0].name == args.baseline), None)
    if occasions is None:
        allowed = ", ".join(dict.fromkeys(each.name for each in known)) or "none: labconsole baseline set NAME PLAN"
        raise ConfigError("there is no such baseline", key="--baseline", value=args.baseline, allowed=allowed)
    plan = plans[0]  # all are one plan, on different occasions
    if plan.stop.raising is not None or plan.stop.lowering is not None:
        raise ConfigError(
            f"plan {plan.name} leaves out trials depending on the results of others (stop.raising, stop.lowering), but "
            "a gate needs all of its points"
        )
    baseline, hashes = occasions[0], [each.plan_hash for each in occasions]
    _refuse_elsewhere(args.hosts, baseline)
    points, planned_trials = load_file_points(plans), collect_planned_trials(plans)
    if not points and not planned_trials:
        raise ConfigError(f"plan {plan.name} has nothing that a gate can judge: no points, no load goals")
    if same := next((each for each in plans if each.hash() in hashes), None):
        raise ConfigError(
            f"baseline {baseline.name} is of plan {same.name} itself: measure it again with replay --occasion NAME, "
            "and name that occasion",
            key="--occasion",
        )
    margin_ratio = parse_margin(args.margin) or plan.margin_ratio
    if margin_ratio is None:
        raise ConfigError("the plan declares no margin, and a gate needs one", key="--margin", allowed="such as 2%")
    of_plan = RunFilter(plan_hash=[each.hash() for each in plans], testbed_fingerprint=baseline.testbed_fingerprint)
    for each in plans:
        places = _find_measured_testbeds(store, each)
        if not places:
            of = f"{each.name}: " if len(plans) > 1 else ""
            why = _describe_former_plan(store, each) or (UNMEASURED if args.occasion else _unnamed(store, each))
            return build_unmeasured_gate(points, margin_ratio, planned_trials, of + why)
        if baseline.testbed_fingerprint not in places:
            fingerprint, testbed = next(iter(places.items()))
            raise ConfigError(
                f"{each.name} was measured on testbed {testbed} ({fingerprint}), and "
                f"baseline {baseline.name} on {baseline.testbed} ({baseline.testbed_fingerprint})"
            )
    kinds = load_measured_kinds()
    # Searches and trials of guests identify their plan only by their own hashes.
    steps = [key for each in plans for key in (*each.search_hashes, *each.step_hashes)]
    trials_of_plan = RunFilter(plan_hash=steps, testbed_fingerprint=baseline.testbed_fingerprint)
    names = ", ".join(each.name for each in plans)
    before, after = load_sides(
        select_baseline(occasions, store),
        SideSelection(names, store.name, store, of_plan, parse_query(""), trials_of_plan),
        kinds,
        on_unreadable=print_error,
    )
    found = find_changes(before, after, margin_ratio, kinds, across_factors=False)
    return judge_gate(found, points, margin_ratio, planned_trials)


def _find_measured_testbeds(store: RunStore, plan: Plan) -> dict[str, str]:
    """Testbeds on which any part of a plan was measured, by fingerprint."""
    from labconsole.model.record.kind import record_kinds
    from labconsole.model.record.summary import RunFilter

    steps = [*plan.search_hashes, *plan.step_hashes]
    found = {run.testbed_fingerprint: run.testbed for run in store.list(RunFilter(plan_hash=plan.hash()))}
    for kind in record_kinds().values() if steps else ():
        columns = map(kind.columns, store.experiments(kind, RunFilter(plan_hash=steps)))
        found |= {each.testbed_fingerprint: each.testbed for each in columns}
    return found


def _refuse_elsewhere(hosts: Path | None, baseline: Baseline) -> None:
    """Refuse a file of another testbed than the baseline's. Raises ConfigError."""
    from labconsole.model.inventory import load_inventory

    if hosts is None:
        return
    inventory = load_inventory(hosts)
    fingerprint = inventory.fingerprint()
    if fingerprint != baseline.testbed_fingerprint:
        raise ConfigError(
            f"describes testbed {inventory.testbed} ({fingerprint}), and baseline {baseline.name} was measured on "
            f"{baseline.testbed} ({baseline.testbed_fingerprint})",
            key="--hosts",
            value=str(hosts),
        )


def _describe_former_plan(store: RunStore, plan: Plan) -> str | None:
    """For an unmeasured plan, report that another plan is stored under its name, or None if there is none."""
    from labconsole.model.record.kind import record_kinds
    from labconsole.model.record.summary import RunFilter

    where = RunFilter(plan_name=plan.name)
    hashes = {run.plan_hash for run in store.list(where) if run.role != "telemetry" and run.plan_hash is not None}
    change = f"hash {', '.join(sorted(hashes))}, now {plan.hash()}"
    if hashes or any(next(iter(store.experiments(kind, where)), None) for kind in record_kinds().values()):
        return (
            f"it has not been measured as the plan is now: the plan has changed since {plan.name} was measured, or the "
            f"defaults of hosts.yaml have{f' ({change})' if hashes else ''}"
        )
    return None


def _unnamed(store: RunStore, plan: Plan) -> str:
    """For a plan that was not measured without an occasion, report occasions on which it was, if any."""
    from labconsole.api.plan_files import find_names_of_plan
    from labconsole.comparison.judgements import UNMEASURED
    from labconsole.model.record.summary import RunFilter

    if not find_names_of_plan(plan.name, store, RunFilter()):
        return UNMEASURED
    return "it has not been measured but on occasions: name those that are to be judged by --occasion"


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot be written: {exc.strerror or exc}", key=option, value=str(path)) from None
