"""The two sides of a comparison in searches, jobs, starts, flows and routers, as table, sentences, JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from labconsole.contracts.measured import HELD
from labconsole.contracts.report import Table
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.record.kinds import record_kinds
from labconsole.report.change_columns import EFFECT_COLUMNS, PRINTED_CHANGE, PRINTED_SUPPORT
from labconsole.report.changes import Changes, Side
from labconsole.report.formatting import UNKNOWN, format_noun_count, format_number, format_percent, format_with_interval
from labconsole.report.measured_points import MeasuredPoint, find_pooled_conditions
from labconsole.report.quantity_changes import QuantityChange
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    csv_column,
    csv_columns,
    join_columns,
    mean_value,
    prefix_columns,
    printed_column,
)


class QuantitySide(NamedTuple):
    """One side of a comparison."""

    point: MeasuredPoint
    mean: SetUpMean | None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Of the mean over set-ups: an interval from one set-up would not represent others."""
        known = self.mean is not None and self.mean.scope == "set-ups"
        return (self.mean.ci_low, self.mean.ci_high) if self.mean is not None and known else (None, None)


SIDE_COLUMNS: Final[list[TableColumn[QuantitySide]]] = [
    csv_column("mean", lambda side: mean_value(side.mean)),
    csv_columns(("ci_low", "ci_high"), lambda side: side.bounds),
    csv_column("set_ups", lambda side: side.mean.set_ups if side.mean else 0),
    csv_column("boots", lambda side: side.point.replicates.boot_count),
    csv_column("occasions", lambda side: len(side.point.replicates.set_ups_by_occasion)),
    csv_column("trials", lambda side: side.mean.trials if side.mean else 0),
    csv_column("bound", lambda side: ", ".join(sorted(side.point.bounds))),
]


COLUMNS: Final[list[TableColumn[QuantityChange]]] = [
    csv_column("kind", lambda change: change.key.kind),
    csv_column("quantity", lambda change: change.key.quantity.name),
    csv_column("unit", lambda change: change.key.quantity.unit),
    csv_column("better", lambda change: change.key.quantity.better),
    csv_column("point", lambda change: change.before.words),
    csv_column("after_point", lambda change: change.after.words),
    prefix_columns("before_", SIDE_COLUMNS, lambda change: QuantitySide(change.before, change.before.mean)),
    prefix_columns("after_", SIDE_COLUMNS, lambda change: QuantitySide(change.after, change.after.mean)),
    *EFFECT_COLUMNS,
    csv_column("changed_for", lambda change: None if change.better is None else format_direction(change)),
    csv_column("why", lambda change: change.no_claim_reason),
    printed_column("design point", lambda change: format_compared_point(change)),
    printed_column("quantity", lambda change: f"{change.key.quantity.name}, {change.key.quantity.shown_unit}"),
    *PRINTED_CHANGE,
    printed_column("finding", lambda change: _format_finding(change)),
    printed_column("before", lambda change: _format_mean(change.before)),
    printed_column("after", lambda change: _format_mean(change.after)),
    *PRINTED_SUPPORT,
]


def build_quantities_table(changes: Changes) -> Table | None:
    """A row for each quantity of each design point that both sides have, or None if there are none."""
    if not changes.quantities.changes:
        return None
    return build_table(
        "quantities",
        f"Beside forwarding trials: {changes.after.words} against {changes.before.words}",
        COLUMNS,
        changes.quantities.changes,
        "Means over set-ups; a change is after / before − 1, on the logarithm. Would have shown: the smallest "
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


def _format_mean(point: MeasuredPoint) -> str:
    quantity, mean = point.quantity, point.mean
    if mean is None:
        return UNKNOWN
    more = "≥ " if point.bounds == {"at least"} else "≤ " if point.bounds == {HELD} else ""
    if mean.scope != "set-ups":  # an interval from one set-up would not represent others
        return more + format_number(mean.mean / quantity.scale, quantity.places)
    return more + format_with_interval(mean, quantity.scale, quantity.places)


def _format_finding(change: QuantityChange) -> str:
    if (reason := change.no_claim_reason) is not None:
        return f"{change.word}: {reason}"
    if not change.word.startswith("different"):
        return f"{change.word}{change.reach}" + (f", {change.bound_reason}" if change.bound else "")
    return f"{change.word} ({format_direction(change)}){change.reach}{', at least' if change.bound else ''}"


def build_json_rows(changes: Changes) -> list[dict[str, Any]]:
    """One object for each row, with the exact values and the factors of the point."""
    row = join_columns(COLUMNS)
    return [
        {**row.to_json(each), "factors": _plain(dict(each.before.key.factors))} for each in changes.quantities.changes
    ]


def _plain(factors: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
        for name, value in factors.items()
    }
