"""``labconsole plan advise``: how many set-ups and repetitions a plan needs, from its own blocks. docs/plans.md."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from labconsole.engine.plan_advice import ConfigurationAdvice, Dimension, PlanAdvice, plan_advice
from labconsole.engine.set_up_course import beside_words
from labconsole.errors import ConfigError
from labconsole.headless import json_line
from labconsole.measure.admission import admit
from labconsole.model.claims import most_claims
from labconsole.model.plan import Plan
from labconsole.model.plan_load import load_plan
from labconsole.replay_screen import minutes
from labconsole.store import RunFilter
from labconsole.terminal import harmless
from labconsole.testbed import hosts_path, load_testbed
from labconsole.units import parse_ratio


def advise(args: argparse.Namespace) -> int:
    """Print the advice for one plan on this testbed. Raises ConfigError, MeasurementError, StoreError."""
    accuracy_ratio = _accuracy(args.accuracy)
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    plan = load_plan(args.plan, inventory)
    where = RunFilter(plan_hash=plan.hash(), testbed_fingerprint=inventory.fingerprint())
    # What the report's means rest on.
    entered = {run.run_id for run in admit(store.list(where)).entered if run.block} if plan.set_ups else set()
    records = [record for record in store.iterate(where) if record.run_id in entered] if entered else []
    claims = most_claims([point.request for point in plan.points], plan.claims)
    found = plan_advice(plan, records, accuracy_ratio, claims)
    if args.json:
        json_line({"event": "advice", "plan": plan.name, "hash": plan.hash(), **asdict(found)})
    else:
        sys.stdout.write(harmless("\n".join(_lines(plan, found))) + "\n")
    return 0


def _accuracy(text: str) -> float:
    try:
        ratio = parse_ratio(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio < 1:
        allowed = "a share above 0 and below 1, such as 2% or 0.02"
        raise ConfigError("is not a ratio", key="--accuracy", value=text, allowed=allowed)
    return ratio


def _lines(plan: Plan, found: PlanAdvice) -> list[str]:
    lines = [
        f"{plan.name}: a mean known to ± {_percent(found.accuracy_ratio)}, by its stored blocks; "
        f"at most {found.claims} claim{'s' if found.claims != 1 else ''} in the report",
        "",
        f"{'':34}{'stored':>8} {'between':>8} {'within':>8} {'set-up':>8} {'trials':>8} {'advised':>9} {'takes':>9}",
    ]
    lines += [_row(each) for each in found.each]
    lines += ["", "smallest change between two platforms that is shown with 80 % power, alone / as one of all claims:"]
    lines += [
        f"{_name(each):34}{_shown(each.as_planned)}; {_shown(each.as_advised)}" for each in found.each
    ]  # fmt: skip
    lines += [f"{_name(each)}: point {point} is left out: {why}" for each in found.each for point, why in each.left_out]
    lines += [f"not advised: {why}" for why in found.refused]
    lines += [
        "",
        f"set_ups: {found.set_ups}, repetitions: {found.repetitions} is enough for all of them and takes about "
        f"{minutes(found.total_s)} and the pilot",
    ]
    if found.repetitions > plan.repetitions:
        lines.append("the blocks that are done keep their repetitions: more of them only in a plan that begins anew")
    return lines


def _name(each: ConfigurationAdvice) -> str:
    return f"{each.platform} {beside_words(each.background)}"


def _row(each: ConfigurationAdvice) -> str:
    spread, advised = each.spread, each.advised
    # A variance between set-ups below zero: their means lie closer together than their trials make likely.
    between = spread.variance_between
    shown = f"{'-' if between < 0 else ''}{_percent(abs(between) ** 0.5)}"
    return (
        f"{_name(each):34}{f'{spread.set_ups} × {spread.repetitions:.3g}':>8} {shown:>8} "
        f"{_percent(spread.variance_within**0.5):>8} {each.setup_s:>6.1f} s {each.trial_s:>6.1f} s "
        f"{f'{advised.set_ups} × {advised.repetitions}':>9} {minutes(advised.total_s):>9}"
    )


def _shown(found: Dimension) -> str:
    alone, all_claims = (
        "unknown" if ratio is None else _percent(ratio) for ratio in (found.smallest_ratio, found.of_family_ratio)
    )
    return f"{found.set_ups} × {found.repetitions} shows {alone} / {all_claims}"


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.3g} %"
