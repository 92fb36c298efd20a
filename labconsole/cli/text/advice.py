"""Advice on a plan as plain lines of text: a row for each configuration, and the changes it could show."""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.cli.text.replay import format_h_mm_ss
from labconsole.cli.text.runs import DASH
from labconsole.engine.execution.advice import ConfigurationAdvice, Dimension, PlanAdvice
from labconsole.experiments.advice import CHANGES_RATIO, GuestsAdvice, QuantityAdvice
from labconsole.measure.statistics.components import MOST_SET_UPS
from labconsole.model.plan.plan import Plan

WIDTHS = (8, 8, 8, 8, 8, 9, 9)
NEW_PLAN = "completed blocks keep their repetitions; to change repetitions, start a new plan"
NONE_FOUND = "none"
NO_SPREAD_FOUND = "between none: the means of set-ups differ no more than the trials of one make likely"
MANY, UNKNOWN = f"> {MOST_SET_UPS}", "unknown"


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
        *_explain(each.spread.variance_between for each in found.each),
        "",
        "smallest change between two platforms that is detected with 80 % power, alone / as one of all claims:",
    ]
    lines += [
        f"{_name(each):34}{_format_dimension(each.as_planned)}; {_format_dimension(each.as_advised)}"
        for each in found.each
    ]
    lines += [f"{_name(each)}: point {point} is left out: {why}" for each in found.each for point, why in each.left_out]
    lines += [f"not advised: {why}" for why in found.refused]
    lines += [
        "",
        f"set_ups: {found.set_ups}, repetitions: {found.repetitions} is enough for all of them and takes about "
        f"{format_h_mm_ss(found.total_s)} plus the pilot",
    ]
    if found.repetitions > plan.repetitions:
        lines.append(NEW_PLAN)
    return lines


def guests_advice_lines(plan: Plan, found: GuestsAdvice) -> list[str]:
    """Advice on a plan of guests: the needs of each quantity of each design point, and the changes they can show."""
    names = [f"{each.point}: {each.quantity}" for each in found.each]
    width = max(map(len, names))
    headings = zip(("stored", "between", "within", "set-up", "trials", "advised", "takes"), WIDTHS, strict=True)
    lines = [
        f"{plan.name}: for means known to ± {_percent(found.accuracy_ratio)}, from its stored trials; "
        f"{found.claims} claim{'s' if found.claims != 1 else ''} in their report",
        "",
        f"{'':{width}}{' '.join(f'{heading:>{wide}}' for heading, wide in headings)}",
    ]
    for name, each in zip(names, found.each, strict=True):
        advised, spread = each.as_advised, each.spread
        within = DASH if spread is None else _percent(spread.variance_within**0.5)
        between = each.sd_ratio**2 if spread is None else spread.variance_between
        lines.append(
            f"{name:{width}}{f'{each.set_ups} × {each.repetitions:.3g}':>8} {_format_spread(between):>8} {within:>8} "
            f"{each.setup_s:>6.1f} s {each.trial_s:>6.1f} s {f'{advised.set_ups} × {advised.repetitions}':>9} "
            f"{format_h_mm_ss(advised.total_s):>9}"
        )
    lines += [
        *_explain(0.0 if each.spread is None else each.spread.variance_between for each in found.each),
        "",
        "smallest change between two points of the same blocks that is detected with 80 % power, alone / as one of all "
        "claims:",
        *(
            f"{name:{width}}  {_format_dimension(each.as_planned)}; {_format_dimension(each.as_advised)}"
            for name, each in zip(names, found.each, strict=True)
        ),
        "",
        "set-ups of the advised repetitions that detect a change with 80 % power, alone:",
        f"{'':{width}}" + "".join(f"{_percent(change):>9}" for change in CHANGES_RATIO),
        *(
            f"{name:{width}}" + "".join(f"{many:>9}" for many in _format_blocks_needed(each))
            for name, each in zip(names, found.each, strict=True)
        ),
    ]
    lines += [f"not advised: {what}: {why}" for what, why in found.left_out]
    lines += [f"trials left out: {point}: {why}" for point, why in found.trials_left_out]
    unknown = len(found.without_time)
    without = f", without {unknown} point{'s' if unknown > 1 else ''} whose time is not known" if unknown else ""
    lines += [
        "",
        f"set_ups: {found.set_ups}, repetitions: {found.repetitions} is enough for all of them and takes "
        f"about {format_h_mm_ss(found.total_s)}{without}",
    ]
    requested = plan.guests
    shared = requested is not None and any(
        point.crew is not None for point in requested.points
    )  # else set up for each trial
    if requested is not None and shared and found.repetitions > requested.repetitions:
        lines.append(NEW_PLAN)
    if any(each.spread is None for each in found.each):
        where = " in a new plan" if shared else ""
        lines.append(
            f"with one trial in each set-up, the variation within one is unknown: repetitions: 2{where} would show it"
        )
    return lines


def _format_blocks_needed(each: QuantityAdvice) -> list[str]:
    if not each.to_show:
        return [UNKNOWN] * len(CHANGES_RATIO)
    return [MANY if many is None else str(many) for _, many in each.to_show]


def _name(each: ConfigurationAdvice) -> str:
    return f"{each.platform} alone" if each.background == "none" else f"{each.platform} + {each.background}"


def _row(each: ConfigurationAdvice) -> str:
    spread, advised = each.spread, each.advised
    return (
        f"{_name(each):34}{f'{spread.set_ups} × {spread.repetitions:.3g}':>8} "
        f"{_format_spread(spread.variance_between):>8} {_percent(spread.variance_within**0.5):>8} "
        f"{each.setup_s:>6.1f} s {each.trial_s:>6.1f} s "
        f"{f'{advised.set_ups} × {advised.repetitions}':>9} {format_h_mm_ss(advised.total_s):>9}"
    )


def _format_spread(variance: float) -> str:
    """The root of a variance between set-ups. An estimate below zero has none, and only shows that it is not above."""
    return NONE_FOUND if variance < 0 else _percent(variance**0.5)


def _explain(variances: Iterable[float]) -> list[str]:
    return [NO_SPREAD_FOUND] if any(variance < 0 for variance in variances) else []


def _format_dimension(found: Dimension) -> str:
    alone, all_claims = (
        UNKNOWN if ratio is None else _percent(ratio) for ratio in (found.smallest_ratio, found.of_family_ratio)
    )
    return f"{found.set_ups} × {found.repetitions} shows {alone} / {all_claims}"


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.3g} %"
