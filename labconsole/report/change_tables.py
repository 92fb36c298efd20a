"""Tables and sentences on the two sides of a comparison, for terminal, Markdown and machines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from labconsole.contracts.report import Cell, Table
from labconsole.measure.comparison import Pair
from labconsole.measure.groups import format_condition
from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.report import quantity_tables
from labconsole.report.changes import Change, Changes, Side, collect_set_ups
from labconsole.report.compared_effect import count_replicates, format_replicates
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
from labconsole.report.tables import to_markdown as table_as_markdown
from labconsole.text.sanitize import escape_markdown
from labconsole.units import format_rate_bps

OFFERED_ALIKE_RATIO: Final = 0.05
"""Difference in offered load that needs no remark, as a ratio: at target ``max`` it is never quite the same."""

MATCHED: Final = ("duration", "method")
"""Conditions that two sides must share in a point; the others are pooled."""

_SIDE: Final = ("bps", "ci_low_bps", "ci_high_bps", "set_ups", "boots", "occasions", "trials", "loss_ratio")
COLUMNS: Final = (
    "platform",
    *SIZE_COLUMNS,
    "sources",
    "target_bps",
    "background",
    "duration_s",
    "after_platform",
    "after_frame_size_bytes",
    "after_sources",
    "after_target_bps",
    "after_background",
    "after_duration_s",
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
    "why",
)


def build_changes_table(changes: Changes) -> Table:
    """A row for each design point that both sides have."""
    return Table(
        name="changes",
        title=f"Forwarding rate: {changes.after.words} against {changes.before.words}",
        columns=COLUMNS,
        rows=tuple(_cells(each) for each in changes.changes),
        headings=(
            "design point",
            "change, %",
            "95 % interval, %",
            "finding",
            "before, Mbit/s",
            "after, Mbit/s",
            "lost, %",
            "would have shown, %",
            "p, Holm",
            "over",
        ),
        shown=tuple(_format_row(each, changes) for each in changes.changes),
        note="Rates are sums over the streams on the wire, as means over set-ups; a change is after / before − 1, on "
        "the logarithm. Would have shown: the smallest change that the row shows with 80 % power at 0.05.",
    )


def build_differences_table(changes: Changes) -> Table | None:
    """Differences in the environment of the runs, or None if none was found."""
    rows = tuple((pair.section, pair.label, _plain(pair.left), _plain(pair.right)) for pair in changes.differences)
    if not rows:
        return None
    return Table(
        name="differences",
        title="What else differs",
        columns=("where", "what", "before", "after"),
        rows=rows,
        headings=("where", "what", "before", "after"),
        shown=tuple(tuple(UNKNOWN if cell is None else cell for cell in row) for row in rows),
        note="As the newest run of each side reports it, settings with all values that it had; what is another number "
        "every time is left out.",
    )


def describe_changes(changes: Changes) -> Iterator[str]:
    """State what may be concluded, with reservations."""
    if changes.changes or not changes.quantities.changes:
        yield _describe_result(changes)
    yield from quantity_tables.describe_results(changes)
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
        yield from quantity_tables.describe_reservations(side, name)
    for points, name in ((changes.only_before, "before"), (changes.only_after, "after")):
        if points:
            varied = varied_conditions(changes)
            some = "; ".join(format_point(point, varied) for point in points[:3]) + ("; …" if len(points) > 3 else "")
            yield f"Only {name}: {format_noun_count(len(points), 'design point')} ({some})."
    yield from quantity_tables.describe_unmatched(changes.quantities.only_before, "before")
    yield from quantity_tables.describe_unmatched(changes.quantities.only_after, "after")


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


def _format_row(change: Change, changes: Changes) -> tuple[str, ...]:
    effect = change.effect
    ratio, small = change.change_ratio, change.smallest_ratio
    return (
        format_compared_design(change, changes),
        UNKNOWN if ratio is None else format_number(100 * ratio, digits_to_tell(100 * ratio)),
        UNKNOWN if effect is None else format_bounds(effect.ci_low, effect.ci_high),
        _format_finding(change, changes),
        format_with_interval(change.before.rate_bps),
        format_with_interval(change.after.rate_bps),
        " → ".join(_format_loss(point) for point in (change.before, change.after)),
        UNKNOWN if small is None else format_number(100 * small, digits_to_tell(100 * small)),
        format_p_value(change.adjusted_p),
        format_replicates(change, change.sides),
    )


def _format_loss(point: PointSummary) -> str:
    return UNKNOWN if point.loss is None or point.loss.ratio is None else format_number(100 * point.loss.ratio, 2)


def _format_finding(change: Change, changes: Changes) -> str:
    if change.why is not None:
        return f"{change.word}: {change.why}{format_offered(change)}"
    more = ""
    if change.word.startswith("different"):
        more = ", at least" if change.bound else ""
    elif change.bound and changes.margin_ratio is not None:
        more = f", {change.bound_reason}"
    return f"{change.word}{change.reach}{more}{format_offered(change)}"


def _cells(change: Change) -> tuple[Cell, ...]:
    before, after, effect = change.before, change.after, change.effect
    return (
        before.design.platform,
        *size_cells(before.frame),
        before.sources,
        target_cell(before),
        before.background,
        before.design.conditions.duration,
        after.design.platform,
        after.frame.bytes,
        after.sources,
        target_cell(after),
        after.background,
        after.design.conditions.duration,
        *_build_side_cells(before),
        *_build_side_cells(after),
        change.change_ratio,
        *((None, None) if effect is None else (effect.ci_low, effect.ci_high)),
        change.bound,
        change.scope,
        None if effect is None else effect.p,
        change.adjusted_p,
        change.equivalence_adjusted_p,
        change.smallest_ratio,
        change.word,
        change.why,
    )


def _build_side_cells(point: PointSummary) -> tuple[Cell, ...]:
    rate, set_ups = point.rate_bps, collect_set_ups(point)
    return (
        rate.mean,
        rate.ci_low,
        rate.ci_high,
        rate.set_ups,
        set_ups.boot_count,
        len(set_ups.set_ups_by_occasion),
        rate.trials,
        None if point.loss is None else point.loss.ratio,
    )


def build_tables(changes: Changes) -> Iterator[Table]:
    """The tables that have at least one row."""
    if changes.changes:
        yield build_changes_table(changes)
    for table in (quantity_tables.build_quantities_table(changes), build_differences_table(changes)):
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
    return {
        "before": changes.before.words,
        "after": changes.after.words,
        "factors": list(changes.factors),
        "margin_ratio": changes.margin_ratio,
        "claims": changes.size,
        "points": [dict(zip(COLUMNS, _cells(each), strict=True)) for each in changes.changes],
        "only_before": [format_point(point, varied_conditions(changes)) for point in changes.only_before],
        "only_after": [format_point(point, varied_conditions(changes)) for point in changes.only_after],
        "quantities": quantity_tables.build_json_rows(changes),
        "only_before_quantities": [f"{each.words}: {each.quantity.name}" for each in changes.quantities.only_before],
        "only_after_quantities": [f"{each.words}: {each.quantity.name}" for each in changes.quantities.only_after],
        "differences": [_difference(pair) for pair in changes.differences],
        "sentences": list(describe_changes(changes)),
    }


def _difference(pair: Pair) -> dict[str, Any]:
    return {"where": pair.section, "what": pair.label, "before": pair.left, "after": pair.right}


def _plain(value: Any) -> str | None:
    return None if value is None else str(value)
