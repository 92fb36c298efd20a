"""Advice on a plan as plain lines of text: a row for each configuration, and what it could show."""

from __future__ import annotations

from labconsole.cli.text.replay import minutes
from labconsole.engine.execution.advice import ConfigurationAdvice, Dimension, PlanAdvice
from labconsole.engine.execution.set_up_course import beside_words
from labconsole.model.plan.plan import Plan


def advice_lines(plan: Plan, found: PlanAdvice) -> list[str]:
    """The advice for people."""
    lines = [
        f"{plan.name}: for means known to ± {_percent(found.accuracy_ratio)}, from its stored blocks; at most "
        f"{found.claims} claim{'s' if found.claims != 1 else ''} in the report",
        "",
        f"{'':34}{'stored':>8} {'between':>8} {'within':>8} {'set-up':>8} {'trials':>8} {'advised':>9} {'takes':>9}",
    ]
    lines += [_row(each) for each in found.each]
    lines += [
        "",
        "smallest change between two platforms that is detected with 80 % power, alone / as one of all claims:",
    ]
    lines += [
        f"{_name(each):34}{_shown(each.as_planned)}; {_shown(each.as_advised)}" for each in found.each
    ]  # fmt: skip
    lines += [f"{_name(each)}: point {point} is left out: {why}" for each in found.each for point, why in each.left_out]
    lines += [f"not advised: {why}" for why in found.refused]
    lines += [
        "",
        f"set_ups: {found.set_ups}, repetitions: {found.repetitions} is enough for all of them and takes about "
        f"{minutes(found.total_s)} plus the pilot",
    ]
    if found.repetitions > plan.repetitions:
        lines.append("completed blocks keep their repetitions; to change repetitions, start a new plan")
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
