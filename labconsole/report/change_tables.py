"""The two sides of a comparison as tables, sentences and JSON: forwarding rates, and other quantities. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from labconsole.contracts.measured import HELD
from labconsole.contracts.report import Table
from labconsole.measure.comparison import Pair
from labconsole.measure.groups import format_condition
from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.record.kind import record_kinds
from labconsole.report.changes import Change, Changes, Side, collect_set_ups
from labconsole.report.compared_effect import (
    MeasuredPoint,
    SideSetUps,
    count_replicates,
    find_pooled_conditions,
    format_replicates,
)
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_bounds,
    format_design_point,
    format_noun_count,
    format_number,
    format_p_value,
    format_percent,
    format_with_interval,
    size_cells,
    target_cell,
)
from labconsole.report.points import PointSummary
from labconsole.report.quantity_changes import QuantityChange
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_columns,
    join_columns,
    mean_value,
    prefix_columns,
    printed_column,
)
from labconsole.report.tables import to_markdown as table_as_markdown
from labconsole.text.sanitize import escape_markdown
from labconsole.units import format_rate_bps

# -- shared columns ----------------------------------------------------------------------------------------------------
# Columns that comparisons of forwarding rates and of other quantities share.

AnyChange = Change | QuantityChange


def _bounds(change: AnyChange) -> tuple[float | None, float | None]:
    effect = change.effect
    return (None, None) if effect is None else (effect.ci_low, effect.ci_high)


def _format_percent(ratio: float | None) -> str:
    """A ratio in percent, with enough digits to tell it from zero."""
    return UNKNOWN if ratio is None else format_number(100 * ratio, digits_to_tell(100 * ratio))


EFFECT_COLUMNS: Final[list[TableColumn[AnyChange]]] = [
    csv_column("change_ratio", lambda change: change.change_ratio),
    csv_columns(("change_ci_low_ratio", "change_ci_high_ratio"), _bounds),
    csv_column("at_least", lambda change: change.bound),
    csv_column("over", lambda change: change.scope),
    csv_column("p", lambda change: None if change.effect is None else change.effect.p),
    csv_column("adjusted_p", lambda change: change.adjusted_p),
    csv_column("equivalence_p", lambda change: change.equivalence_adjusted_p),
    csv_column("smallest_effect_ratio", lambda change: change.smallest_ratio),
    csv_column("word", lambda change: change.word),
]
"""The effect in the CSV, but for the reason of a row without one."""

PRINTED_CHANGE: Final[list[TableColumn[AnyChange]]] = [
    printed_column("change, %", lambda change: _format_percent(change.change_ratio)),
    printed_column("95 % interval, %", lambda change: format_bounds(*_bounds(change))),
]

PRINTED_SUPPORT: Final[list[TableColumn[AnyChange]]] = [
    printed_column("would have shown, %", lambda change: _format_percent(change.smallest_ratio)),
    printed_column("p, Holm", lambda change: format_p_value(change.adjusted_p)),
    printed_column("over", lambda change: format_replicates(change, change.sides)),
]
"""What supports a printed change, last in its row."""


# -- other quantities --------------------------------------------------------------------------------------------------
# The two sides of a comparison in searches, jobs, starts, flows and routers, as table, sentences, JSON.


class QuantitySide(NamedTuple):
    """One side of a comparison."""

    point: MeasuredPoint
    mean: SetUpMean | None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Of the mean over set-ups: an interval from one set-up would not represent others."""
        known = self.mean is not None and self.mean.scope == "set-ups"
        return (self.mean.ci_low, self.mean.ci_high) if self.mean is not None and known else (None, None)


QUANTITY_SIDE_COLUMNS: Final[list[TableColumn[QuantitySide]]] = [
    csv_column("mean", lambda side: mean_value(side.mean)),
    csv_columns(("ci_low", "ci_high"), lambda side: side.bounds),
    csv_column("set_ups", lambda side: side.mean.set_ups if side.mean else 0),
    csv_column("boots", lambda side: side.point.replicates.boot_count),
    csv_column("occasions", lambda side: len(side.point.replicates.set_ups_by_occasion)),
    csv_column("trials", lambda side: side.mean.trials if side.mean else 0),
    csv_column("bound", lambda side: ", ".join(sorted(side.point.bounds))),
]


QUANTITY_COLUMNS: Final[list[TableColumn[QuantityChange]]] = [
    csv_column("kind", lambda change: change.key.kind),
    csv_column("quantity", lambda change: change.key.quantity.name),
    csv_column("unit", lambda change: change.key.quantity.unit),
    csv_column("better", lambda change: change.key.quantity.better),
    csv_column("point", lambda change: change.before.words),
    csv_column("after_point", lambda change: change.after.words),
    prefix_columns("before_", QUANTITY_SIDE_COLUMNS, lambda change: QuantitySide(change.before, change.before.mean)),
    prefix_columns("after_", QUANTITY_SIDE_COLUMNS, lambda change: QuantitySide(change.after, change.after.mean)),
    *EFFECT_COLUMNS,
    csv_column("changed_for", lambda change: None if change.better is None else format_direction(change)),
    csv_column("why", lambda change: change.no_claim_reason),
    printed_column("design point", lambda change: format_compared_point(change)),
    printed_column("quantity", lambda change: f"{change.key.quantity.name}, {change.key.quantity.shown_unit}"),
    *PRINTED_CHANGE,
    printed_column("finding", lambda change: _format_quantity_finding(change)),
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
        f"Trials of other kinds: {changes.after.words} against {changes.before.words}",
        QUANTITY_COLUMNS,
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


def describe_quantity_reservations(side: Side, name: str) -> Iterator[str]:
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


def _format_quantity_finding(change: QuantityChange) -> str:
    if (reason := change.no_claim_reason) is not None:
        return f"{change.word}: {reason}"
    if not change.word.startswith("different"):
        return f"{change.word}{change.reach}" + (f", {change.bound_reason}" if change.bound else "")
    return f"{change.word} ({format_direction(change)}){change.reach}{', at least' if change.bound else ''}"


def build_json_rows(changes: Changes) -> list[dict[str, Any]]:
    """One object for each row, with the exact values and the factors of the point."""
    row = join_columns(QUANTITY_COLUMNS)
    return [
        {**row.to_json(each), "factors": _plain_quantity(dict(each.before.key.factors))}
        for each in changes.quantities.changes
    ]


def _plain_quantity(factors: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
        for name, value in factors.items()
    }


# -- forwarding rates --------------------------------------------------------------------------------------------------
# Tables and sentences on the two sides of a comparison, for terminal, Markdown and machines.

OFFERED_ALIKE_RATIO: Final = 0.05
"""Difference in offered load that needs no remark, as a ratio: at target ``max`` it is never quite the same."""

MATCHED: Final = ("duration", "method")
"""Conditions that two sides must share in a point; the others are pooled."""


class RunSide(NamedTuple):
    """One side of a comparison: its point and the set-ups behind its rate."""

    point: PointSummary
    set_ups: SideSetUps


SIDE_COLUMNS: Final[list[TableColumn[RunSide]]] = [
    csv_column("bps", lambda side: side.point.rate_bps.mean),
    csv_column("ci_low_bps", lambda side: side.point.rate_bps.ci_low),
    csv_column("ci_high_bps", lambda side: side.point.rate_bps.ci_high),
    csv_column("set_ups", lambda side: side.point.rate_bps.set_ups),
    csv_column("boots", lambda side: side.set_ups.boot_count),
    csv_column("occasions", lambda side: len(side.set_ups.set_ups_by_occasion)),
    csv_column("trials", lambda side: side.point.rate_bps.trials),
    csv_column("loss_ratio", lambda side: None if side.point.loss is None else side.point.loss.ratio),
]
"""The result of a side, which the name of the side precedes."""


def build_columns(changes: Changes) -> list[TableColumn[Change]]:
    """The columns of a comparison of forwarding rates."""
    return [
        csv_column("platform", lambda change: change.before.design.platform),
        csv_columns(SIZE_COLUMNS, lambda change: size_cells(change.before.frame)),
        csv_column("sources", lambda change: change.before.sources),
        csv_column("target_bps", lambda change: target_cell(change.before)),
        csv_column("background", lambda change: change.before.background),
        csv_column("duration_s", lambda change: change.before.design.conditions.duration),
        csv_column("after_platform", lambda change: change.after.design.platform),
        csv_column("after_frame_size_bytes", lambda change: change.after.frame.bytes),
        csv_column("after_sources", lambda change: change.after.sources),
        csv_column("after_target_bps", lambda change: target_cell(change.after)),
        csv_column("after_background", lambda change: change.after.background),
        csv_column("after_duration_s", lambda change: change.after.design.conditions.duration),
        prefix_columns("before_", SIDE_COLUMNS, lambda change: RunSide(change.before, collect_set_ups(change.before))),
        prefix_columns("after_", SIDE_COLUMNS, lambda change: RunSide(change.after, collect_set_ups(change.after))),
        *EFFECT_COLUMNS,
        csv_column("why", lambda change: change.no_claim_reason),
        printed_column("design point", lambda change: format_compared_design(change, changes)),
        *PRINTED_CHANGE,
        printed_column("finding", lambda change: _format_finding(change, changes)),
        printed_column("before, Mbit/s", lambda change: format_with_interval(change.before.rate_bps)),
        printed_column("after, Mbit/s", lambda change: format_with_interval(change.after.rate_bps)),
        printed_column("lost, %", lambda change: f"{_format_loss(change.before)} → {_format_loss(change.after)}"),
        *PRINTED_SUPPORT,
    ]


def build_changes_table(changes: Changes) -> Table:
    """A row for each design point that both sides have."""
    return build_table(
        "changes",
        f"Forwarding rate: {changes.after.words} against {changes.before.words}",
        build_columns(changes),
        changes.changes,
        "Rates are sums over the streams on the wire, as means over set-ups; a change is after / before − 1, on "
        "the logarithm. Would have shown: the smallest change that the row shows with 80 % power at 0.05.",
    )


def build_differences_table(changes: Changes) -> Table | None:
    """Differences in the environment of the runs, or None if none was found."""
    if not changes.differences:
        return None
    columns: list[TableColumn[Pair]] = [
        column("where", "where", lambda pair: pair.section),
        column("what", "what", lambda pair: pair.label),
        column("before", "before", lambda pair: _plain(pair.left)),
        column("after", "after", lambda pair: _plain(pair.right)),
    ]
    return build_table(
        "differences",
        "What else differs",
        columns,
        changes.differences,
        "As the newest run of each side reports it, settings with all values that it had; what is another number "
        "every time is left out.",
    )


def describe_changes(changes: Changes) -> Iterator[str]:
    """State what may be concluded, with reservations."""
    if changes.changes or not changes.quantities.changes:
        yield _describe_result(changes)
    yield from describe_results(changes)
    yield from describe_reservations(changes)


def describe_reservations(changes: Changes) -> Iterator[str]:
    """Caveats to the results."""
    if changes.factors:
        yield f"Compared by {', '.join(name.removesuffix('_bps').removesuffix('_s') for name in changes.factors)}."
    if "set-ups" in changes.scopes:
        sides = zip(*(each.sides for each in changes.every if each.scope == "set-ups"), strict=True)
        boots = [max(side.boot_count for side in set_ups) for set_ups in sides]
        yield (
            f"Set-ups are of {format_noun_count(boots[0], 'boot')} of the machine before and {boots[1]} after: a "
            "difference may be one of the boots, or of the time that lies between the two sides, and not of what was "
            "changed. Three occasions on one side (of a boot each, unless all is of one boot), three boots a side that "
            "are mixed in time, or both in the blocks of one plan, tell them apart."
        )
    if any(each.scope == "boots" and not each.has_mixed_boots for each in changes.every):
        yield (
            "The boots of both sides are not mixed in time: a difference may be one of the time that lies between the "
            "two sides, and not of what was changed. Three occasions on one side tell them apart."
        )
    if "occasions" in changes.scopes:
        over = _describe_occasions(changes)
        yield f"Over {over}: a change is judged by how far occasions of a side differ from each other."
    if not changes.differences:
        yield "Nothing else that is known of runs, nodes and platforms differs (not all kernel parameters are known)."
    for side, name in ((changes.before, "before"), (changes.after, "after")):
        yield from _describe_change_reservations(side, name)
        yield from describe_quantity_reservations(side, name)
    for points, name in ((changes.only_before, "before"), (changes.only_after, "after")):
        if points:
            varied = varied_conditions(changes)
            some = "; ".join(format_point(point, varied) for point in points[:3]) + ("; …" if len(points) > 3 else "")
            yield f"Only {name}: {format_noun_count(len(points), 'design point')} ({some})."
    yield from describe_unmatched(changes.quantities.only_before, "before")
    yield from describe_unmatched(changes.quantities.only_after, "after")


def _describe_occasions(changes: Changes) -> str:
    """Describe the side with the most occasions."""
    sides = [each.sides for each in changes.every if each.scope == "occasions"]
    most = max(sides, key=lambda pair: sum(len(side.set_ups_by_occasion) for side in pair))
    many, all_of = count_replicates("occasions", most), tuple(len(side.set_ups_by_occasion) for side in most)
    counts = f"{format_noun_count(many[0], 'occasion')} before and {many[1]} after, each as the mean of its set-ups"
    return counts if many == all_of else f"{counts} ({all_of[0]} and {all_of[1]}; those of one boot are one)"


def _describe_result(changes: Changes) -> str:
    if not changes.changes:
        return "No design point is on both sides."
    results: Counter[str] = Counter()
    for each in changes.changes:
        direction = "" if each.change_ratio is None else " (more)" if each.change_ratio > 0 else " (less)"
        results[each.word + (direction if each.word.startswith("different") else "") + each.reach] += 1
    text = ", ".join(f"{many} {name}" for name, many in sorted(results.items(), key=lambda each: (-each[1], each[0])))
    margin = "" if changes.margin_ratio is None else f" The margin is {format_percent(changes.margin_ratio)}."
    return f"{format_noun_count(len(changes.changes), 'design point')} on both sides: {text}.{margin}"


def _describe_change_reservations(side: Side, name: str) -> Iterator[str]:
    for pooled in side.pooled:
        yield f"Runs {name} are averaged although they differ: {pooled}."
    for facts in side.digest.planned.values():
        if facts.first_set_ups is not None and facts.set_ups != facts.first_set_ups:
            yield (
                f"Plan {facts.name} requested {facts.first_set_ups} set-ups at first and {facts.set_ups} later: "
                "what is added after a look makes false findings more frequent."
            )
    if side.missing_set_ups:
        are = "is" if side.missing_set_ups == 1 else "are"
        planned = format_noun_count(side.planned_set_ups, "planned set-up")
        yield f"Of {planned} {name}, {side.missing_set_ups} {are} missing."
    left_out = len(side.kept.excluded)
    if left_out:
        reasons = ", ".join(f"{code} {many}" for code, many in side.kept.excluded_by_reason)
        runs = format_noun_count(left_out + len(side.kept.entered), "run")
        yield f"{left_out} of {runs} {name} enter no mean: {reasons}."


def format_compared_design(change: Change, changes: Changes) -> str:
    """The point on both sides; if a factor is compared, with both of its values."""
    varied = varied_conditions(changes)
    one, other = format_point(change.before, varied), format_point(change.after, varied)
    return one if one == other else f"{one} → {other}"


def varied_conditions(changes: Changes) -> list[str]:
    """Conditions that points are matched by and that vary among the points of this comparison."""
    both = [point for each in changes.changes for point in (each.before, each.after)]
    points = [*both, *changes.only_before, *changes.only_after]
    return [name for name in MATCHED if len({getattr(point.design.conditions, name) for point in points}) > 1]


def format_point(point: PointSummary, varied: Sequence[str]) -> str:
    """Format ``raw, 64 B, 1 × 100 Mbit/s``, with these conditions: ``, 5 s``."""
    conditions = point.design.conditions
    return ", ".join(
        [format_design_point(point.design), *(format_condition(name, getattr(conditions, name)) for name in varied)]
    )


def format_offered(change: Change) -> str:
    """What both sides were offered, if that differs although the same was requested.

    Another load on the sources' machine, or other sources, may be the only change.
    """
    before, after = change.before, change.after
    one, other = before.offered_bps.mean, after.offered_bps.mean
    if before.target_bps != after.target_bps or abs(one - other) <= OFFERED_ALIKE_RATIO * max(one, other):
        return ""
    return f"; offered {format_rate_bps(round(one))} → {format_rate_bps(round(other))}"


def _format_loss(point: PointSummary) -> str:
    return UNKNOWN if point.loss is None or point.loss.ratio is None else format_number(100 * point.loss.ratio, 2)


def _format_finding(change: Change, changes: Changes) -> str:
    if (reason := change.no_claim_reason) is not None:
        return f"{change.word}: {reason}{format_offered(change)}"
    more = ""
    if change.word.startswith("different"):
        more = ", at least" if change.bound else ""
    elif change.bound and changes.margin_ratio is not None:
        more = f", {change.bound_reason}"
    return f"{change.word}{change.reach}{more}{format_offered(change)}"


def build_tables(changes: Changes) -> Iterator[Table]:
    """The tables that have at least one row."""
    if changes.changes:
        yield build_changes_table(changes)
    for table in (build_quantities_table(changes), build_differences_table(changes)):
        if table is not None:
            yield table


def to_markdown(changes: Changes) -> Iterator[str]:
    """The sentences as a list, then the tables."""
    yield from (f"- {escape_markdown(sentence)}" for sentence in describe_changes(changes))
    for table in build_tables(changes):
        yield ""
        yield table_as_markdown(table).rstrip("\n")


def to_json(changes: Changes) -> dict[str, Any]:
    """The whole comparison as one object."""
    row = join_columns(build_columns(changes))
    return {
        "before": changes.before.words,
        "after": changes.after.words,
        "factors": list(changes.factors),
        "margin_ratio": changes.margin_ratio,
        "claims": changes.size,
        "points": [row.to_json(each) for each in changes.changes],
        "only_before": [format_point(point, varied_conditions(changes)) for point in changes.only_before],
        "only_after": [format_point(point, varied_conditions(changes)) for point in changes.only_after],
        "quantities": build_json_rows(changes),
        "only_before_quantities": [f"{each.words}: {each.quantity.name}" for each in changes.quantities.only_before],
        "only_after_quantities": [f"{each.words}: {each.quantity.name}" for each in changes.quantities.only_after],
        "differences": [_difference(pair) for pair in changes.differences],
        "sentences": list(describe_changes(changes)),
    }


def _difference(pair: Pair) -> dict[str, Any]:
    return {"where": pair.section, "what": pair.label, "before": pair.left, "after": pair.right}


def _plain(value: Any) -> str | None:
    return None if value is None else str(value)
