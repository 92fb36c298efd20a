"""The two sides of a comparison in searches, jobs, starts, flows and routers, as table, sentences, JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from labconsole.contracts.measured import HELD
from labconsole.contracts.report import Cell, Table
from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.model.record.kinds import record_kinds
from labconsole.report.changes import Changes, Side
from labconsole.report.compared_effect import format_replicates
from labconsole.report.formatting import (
    UNKNOWN,
    format_bounds,
    format_noun_count,
    format_number,
    format_p_value,
    format_percent,
    format_with_interval,
)
from labconsole.report.measured_points import MeasuredPoint, find_pooled_conditions
from labconsole.report.quantity_changes import QuantityChange

_SIDE: Final = ("mean", "ci_low", "ci_high", "set_ups", "boots", "occasions", "trials", "bound")
COLUMNS: Final = (
    "kind",
    "quantity",
    "unit",
    "better",
    "point",
    "after_point",
    *(f"before_{name}" for name in _SIDE),
    *(f"after_{name}" for name in _SIDE),
    "change_ratio",
    "change_ci_low_ratio",
    "change_ci_high_ratio",
    "at_least",
    "over",
    "p",
    "adjusted_p",
    "equivalence_p",
    "smallest_effect_ratio",
    "word",
    "changed_for",
    "why",
)


def build_quantities_table(changes: Changes) -> Table | None:
    """A row for each quantity of each design point that both sides have, or None if there are none."""
    found = changes.quantities.changes
    if not found:
        return None
    return Table(
        name="quantities",
        title=f"Trials of other kinds: {changes.after.words} against {changes.before.words}",
        columns=COLUMNS,
        rows=tuple(_cells(each) for each in found),
        headings=(
            "design point",
            "quantity",
            "change, %",
            "95 % interval, %",
            "finding",
            "before",
            "after",
            "would have shown, %",
            "p, Holm",
            "over",
        ),
        shown=tuple(_format_row(each) for each in found),
        note="Means over set-ups; a change is after / before − 1, on the logarithm. Would have shown: the smallest "
        "change that the row shows with 80 % power at 0.05.",
    )


def describe_results(changes: Changes) -> Iterator[str]:
    """A sentence for each kind that both sides have, and one if sides are compared by a factor."""
    for kind in dict.fromkeys(each.key.kind for each in changes.quantities.changes):
        own = [each for each in changes.quantities.changes if each.key.kind == kind]
        results = Counter(
            each.word + (f" ({format_direction(each)})" if each.word.startswith("different") else "") + each.reach
            for each in own
        )
        ordered = sorted(results.items(), key=lambda item: (-item[1], item[0]))
        text = ", ".join(f"{many} {name}" for name, many in ordered)
        yield f"Of {record_kinds()[kind].plural} {_many(len(own))} on both sides: {text}."
    for kind, names in changes.quantities.factors.items():
        yield f"Compared by {', '.join(names)}: {record_kinds()[kind].plural}."
    if changes.margin_ratio is not None and not changes.changes and changes.quantities.changes:
        yield f"The margin is {format_percent(changes.margin_ratio)}."


def describe_reservations(side: Side, name: str) -> Iterator[str]:
    """Differences that are averaged over, and trials that do not enter."""
    for kind, conditions in find_pooled_conditions(side.trials).items():
        yield f"{_plural(kind)} {name} are averaged although they differ: {'; '.join(conditions)}."
    for kind in sorted({trial.kind for trial in side.trials}):
        own = [trial for trial in side.trials if trial.kind == kind]
        why = Counter(trial.left_out for trial in own if trial.left_out is not None)
        if why:
            reasons = ", ".join(f"{code} {many}" for code, many in why.most_common())
            trials = format_noun_count(len(own), "trial")
            yield f"{sum(why.values())} of {trials} {name} of kind {kind} enter no mean: {reasons}."


def describe_unmatched(points: tuple[MeasuredPoint, ...], name: str) -> Iterator[str]:
    """Describe the points that the other side lacks."""
    if points:
        some = "; ".join(f"{each.words}: {each.quantity.name}" for each in points[:3])
        yield f"Only {name}: {_many(len(points))} ({some}{'; …' if len(points) > 3 else ''})."


def _many(quantities: int) -> str:
    return "1 quantity" if quantities == 1 else f"{quantities} quantities"


def _plural(kind: str) -> str:
    return record_kinds()[kind].plural.capitalize()


def format_direction(change: QuantityChange) -> str:
    """ "better" or "worse"."""
    return UNKNOWN if change.better is None else "better" if change.better else "worse"


def format_compared_point(change: QuantityChange) -> str:
    """The point on both sides; if a factor is compared, with both of its values."""
    one, other = change.before.words, change.after.words
    return one if one == other else f"{one} → {other}"


def _format_row(change: QuantityChange) -> tuple[str, ...]:
    effect, ratio, small = change.effect, change.change_ratio, change.smallest_ratio
    quantity = change.key.quantity
    return (
        format_compared_point(change),
        f"{quantity.name}, {quantity.shown_unit}",
        UNKNOWN if ratio is None else format_number(100 * ratio, digits_to_tell(100 * ratio)),
        UNKNOWN if effect is None else format_bounds(effect.ci_low, effect.ci_high),
        _format_finding(change),
        _format_mean(change.before),
        _format_mean(change.after),
        UNKNOWN if small is None else format_number(100 * small, digits_to_tell(100 * small)),
        format_p_value(change.adjusted_p),
        format_replicates(change, change.sides),
    )


def _format_mean(point: MeasuredPoint) -> str:
    quantity, mean = point.quantity, point.mean
    if mean is None:
        return UNKNOWN
    more = "≥ " if point.bounds == {"at least"} else "≤ " if point.bounds == {HELD} else ""
    if mean.scope != "set-ups":  # an interval from one set-up would not represent others
        return more + format_number(mean.mean / quantity.scale, quantity.places)
    return more + format_with_interval(mean, quantity.scale, quantity.places)


def _format_finding(change: QuantityChange) -> str:
    if change.why is not None:
        return f"{change.word}: {change.why}"
    if not change.word.startswith("different"):
        return f"{change.word}{change.reach}" + (f", {change.bound_reason}" if change.bound else "")
    return f"{change.word} ({format_direction(change)}){change.reach}{', at least' if change.bound else ''}"


def _cells(change: QuantityChange) -> tuple[Cell, ...]:
    effect, quantity = change.effect, change.key.quantity
    return (
        change.key.kind,
        quantity.name,
        quantity.unit,
        quantity.better,
        change.before.words,
        change.after.words,
        *_build_side_cells(change.before),
        *_build_side_cells(change.after),
        change.change_ratio,
        *((None, None) if effect is None else (effect.ci_low, effect.ci_high)),
        change.bound,
        change.scope,
        None if effect is None else effect.p,
        change.adjusted_p,
        change.equivalence_adjusted_p,
        change.smallest_ratio,
        change.word,
        format_direction(change) if change.better is not None else None,
        change.why,
    )


def _build_side_cells(point: MeasuredPoint) -> tuple[Cell, ...]:
    mean, bounds = point.mean, ", ".join(sorted(point.bounds))
    boots, occasions = point.replicates.boot_count, len(point.replicates.set_ups_by_occasion)
    if mean is None:
        return (None, None, None, 0, boots, occasions, 0, bounds)
    known = mean.scope == "set-ups"
    return (
        mean.mean,
        mean.ci_low if known else None,
        mean.ci_high if known else None,
        mean.set_ups,
        boots,
        occasions,
        mean.trials,
        bounds,
    )


def build_json_rows(changes: Changes) -> list[dict[str, Any]]:
    """One object for each row, with the exact values and the factors of the point."""
    return [
        {**dict(zip(COLUMNS, _cells(each), strict=True)), "factors": _plain(dict(each.before.key.factors))}
        for each in changes.quantities.changes
    ]


def _plain(factors: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
        for name, value in factors.items()
    }
