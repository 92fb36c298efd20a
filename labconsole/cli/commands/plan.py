"""``labconsole plan``: the set-ups and repetitions that a plan needs, and its note. docs/plans.md."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, hosts_path
from labconsole.cli.output import answer
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.model.plan.plan import Plan
    from labconsole.store.writing import RunStore

about = About(70, "get advice on plans, and write notes on them")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, and the options of each."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    advise = actions.add_parser(
        "advise",
        help="compute how many set-ups and repetitions a plan needs",
        description="From the plan's stored blocks (at least three; but for guests, of at least two repetitions), "
        "compute how much results vary between set-ups and within them, how many set-ups and repetitions reach the "
        "wanted accuracy in the least time, and which differences they can show.",
    )
    add_common(advise, "--hosts", "--store", "--json")
    advise.add_argument("plan", type=Path, help="plan file with set_ups")
    advise.add_argument("--occasion", metavar="NAME", help="on which it was measured (default: without an occasion)")
    advise.add_argument(
        "--accuracy",
        default="2%",
        metavar="RATIO",
        help="wanted accuracy of a mean, plus or minus (default: %(default)s)",
    )
    note = actions.add_parser(
        "note",
        help="write a note on a plan, or show it",
        description="A note belongs to what the plan means on this testbed, not to its file: it is kept in the run "
        "store, merged and exported with the plan's runs, and shown in the console.",
    )
    add_common(note, "--hosts", "--store", "--json")
    note.add_argument("plan", type=Path, help="plan file")
    note.add_argument("text", nargs="?", help='the text to attach ("" removes the note); without it the note is shown')


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises ConfigError, MeasurementError, StoreError."""
    return _note(args) if args.action == "note" else _advise(args)


def _note(args: argparse.Namespace) -> int:
    from labconsole.api.testbed import load_testbed
    from labconsole.cli.text.runs import note_lines
    from labconsole.model.identity import operator_name
    from labconsole.model.plan.loader import load_plan

    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    plan = load_plan(args.plan, inventory)
    key = plan.hash(), inventory.fingerprint()
    if args.text is not None:
        store.set_plan_note(*key, args.text, author=operator_name())
    note = store.plan_note(*key)
    result = {"plan": plan.name, "hash": key[0], "note": None if note is None else note.to_json()}
    answer(result, note_lines(note) or ["no note"], as_json=args.json)
    return 0


def _advise(args: argparse.Namespace) -> int:
    """Print the advice for one plan on this testbed. Raises ConfigError, MeasurementError, StoreError."""
    from labconsole.api.testbed import load_testbed
    from labconsole.cli.text.advice import advice_lines
    from labconsole.engine.execution.advice import plan_advice
    from labconsole.measure.admission import admit
    from labconsole.model.plan.file import most_claims
    from labconsole.model.plan.loader import load_plan
    from labconsole.model.plan.plan import build_occasion_plan
    from labconsole.model.record.summary import RunFilter

    accuracy_ratio = _accuracy(args.accuracy)
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    plan = load_plan(args.plan, inventory)
    if args.occasion is not None:
        plan = build_occasion_plan(plan, args.occasion)
    if plan.guests is not None:
        return _advise_guests(plan, store, inventory.fingerprint(), accuracy_ratio, as_json=args.json)
    where = RunFilter(plan_hash=plan.hash(), testbed_fingerprint=inventory.fingerprint())
    # The runs behind the report's means.
    entered = {run.run_id for run in admit(store.list(where)).entered if run.block} if plan.set_ups else set()
    records = [record for record in store.iterate(where) if record.run_id in entered] if entered else []
    if not records and plan.set_ups:
        _ask_for_occasion(plan, store, inventory.fingerprint())
    claims = most_claims([point.request for point in plan.points], plan.claims)
    found = plan_advice(plan, records, accuracy_ratio, claims)
    data = {"event": "advice", "plan": plan.name, "hash": plan.hash(), **found.to_json()}
    answer(data, advice_lines(plan, found), as_json=args.json)
    return 0


def _advise_guests(
    plan: Plan, store: RunStore, testbed_fingerprint: str, accuracy_ratio: float, *, as_json: bool
) -> int:
    from labconsole.cli.text.advice import guests_advice_lines
    from labconsole.engine.crew_experiment import load_by_hash
    from labconsole.experiments.advice import guests_advice
    from labconsole.experiments.kinds import load_measured_kinds
    from labconsole.experiments.units import report_units

    assert plan.guests is not None
    noun = plan.guests.kind
    kind = next((each for each in load_measured_kinds() if each.kind.name == noun), None)
    if kind is None:
        raise ConfigError(f"has trials of a kind that measures nothing to compare: {noun}", key="plan", value=plan.name)
    records = list(load_by_hash(store, kind.kind, plan.guests.hashes, testbed_fingerprint))
    if not records:
        _ask_for_occasion(plan, store, testbed_fingerprint)
    claims = sum(len(unit.claims({noun: records})) for unit in report_units(noun) if unit.claims is not None)
    found = guests_advice(plan, kind, records, accuracy_ratio, claims)
    data = {"event": "advice", "plan": plan.name, "hash": plan.hash(), **found.to_json()}
    answer(data, guests_advice_lines(plan, found), as_json=as_json)
    return 0


def _ask_for_occasion(plan: Plan, store: RunStore, testbed_fingerprint: str) -> None:
    """Name the occasions of a plan that was measured only on occasions. Raises ConfigError."""
    from labconsole.api.plan_files import find_names_of_plan
    from labconsole.model.plan.plan import build_occasion_plans
    from labconsole.model.record.summary import RunFilter

    if plan.occasion is not None:
        return
    stored = find_names_of_plan(plan.name, store, RunFilter(testbed_fingerprint=testbed_fingerprint))
    occasions = ", ".join(each.occasion or "" for each in build_occasion_plans(plan, stored))
    if occasions and plan.name not in stored:
        raise ConfigError(
            f"is missing: plan {plan.name} is stored for this testbed on occasions alone",
            key="--occasion",
            allowed=occasions,
        )


def _accuracy(text: str) -> float:
    from labconsole.units import parse_ratio

    try:
        ratio = parse_ratio(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio < 1:
        allowed = "a share above 0 and below 1, such as 2% or 0.02"
        raise ConfigError("is not a valid ratio", key="--accuracy", value=text, allowed=allowed)
    return ratio
