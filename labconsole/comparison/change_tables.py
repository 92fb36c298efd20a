"""The two sides of a comparison as tables, sentences and JSON. Pure.

All changes share their columns of the effect and their sentences; forwarding rates and other quantities each have a
table with their own columns of the point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from labconsole.comparison.changes import Changes, Side
from labconsole.comparison.effects import Change, count_replicates, format_replicates
from labconsole.comparison.points import RUN, ComparedPoint, RunPoint, TrialPoint, find_pooled_conditions
from labconsole.contracts.measured import HELD
from labconsole.contracts.report import Table
from labconsole.measure.comparison import Pair
from labconsole.measure.groups import format_condition
from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.model.record.kind import record_kinds
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_bounds,
    format_noun_count,
    format_number,
    format_p_value,
    format_percent,
    format_with_interval,
    size_cells,
    target_cell,
)
from labconsole.report.points import PointSummary
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

OFFERED_ALIKE_RATIO: Final = 0.05
"""Difference in offered load that needs no remark, as a ratio: at target ``max`` it is never quite the same."""

MATCHED: Final = ("duration", "method")
"""Conditions that two sides of runs must share in a point; the others are pooled."""

CHANGES_NOTE: Final = (
    "a change is after / before − 1, on the logarithm. Would have shown: the smallest change that the row shows with "
    "80 % power at 0.05."
)

# -- columns -----------------------------------------------------------------------------------------------------------


def _bounds(change: Change) -> tuple[float | None, float | None]:
    effect = change.effect
    return (None, None) if effect is None else (effect.ci_low, effect.ci_high)


def _format_percent(ratio: float | None) -> str:
    """A ratio in percent, with enough digits to tell it from zero."""
    return UNKNOWN if ratio is None else format_number(100 * ratio, digits_to_tell(100 * ratio))


EFFECT_COLUMNS: Final[list[TableColumn[Change]]] = [
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

PRINTED_CHANGE: Final[list[TableColumn[Change]]] = [
    printed_column("change, %", lambda change: _format_percent(change.change_ratio)),
    printed_column("95 % interval, %", lambda change: format_bounds(*_bounds(change))),
]

PRINTED_SUPPORT: Final[list[TableColumn[Change]]] = [
    printed_column("would have shown, %", lambda change: _format_percent(change.smallest_ratio)),
    printed_column("p, Holm", lambda change: format_p_value(change.adjusted_p)),
    printed_column("over", format_replicates),
]
"""What supports a printed change, last in its row."""

SET_UP_COLUMNS: Final[list[TableColumn[ComparedPoint]]] = [
    csv_column("set_ups", lambda point: point.mean.set_ups if point.mean else 0),
    csv_column("boots", lambda point: point.replicates.boot_count),
    csv_column("occasions", lambda point: len(point.replicates.set_ups_by_occasion)),
    csv_column("trials", lambda point: point.mean.trials if point.mean else 0),
]

QUANTITY_SIDE_COLUMNS: Final[list[TableColumn[ComparedPoint]]] = [
    csv_column("mean", lambda point: mean_value(point.mean)),
    csv_columns(("ci_low", "ci_high"), lambda point: _set_up_interval(point)),
    *SET_UP_COLUMNS,
    csv_column("bound", lambda point: ", ".join(sorted(point.bounds))),
]

QUANTITY_COLUMNS: Final[list[TableColumn[Change]]] = [
    csv_column("kind", lambda change: change.key.kind),
    csv_column("quantity", lambda change: change.key.quantity.name),
    csv_column("unit", lambda change: change.key.quantity.unit),
    csv_column("better", lambda change: change.key.quantity.better),
    csv_column("point", lambda change: change.before.name),
    csv_column("after_point", lambda change: change.after.name),
    prefix_columns("before_", QUANTITY_SIDE_COLUMNS, lambda change: change.before),
    prefix_columns("after_", QUANTITY_SIDE_COLUMNS, lambda change: change.after),
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

RUN_SIDE_COLUMNS: Final[list[TableColumn[ComparedPoint]]] = [
    csv_column("bps", lambda point: mean_value(point.mean)),
    csv_columns(("ci_low_bps", "ci_high_bps"), lambda point: (_of(point).rate_bps.ci_low, _of(point).rate_bps.ci_high)),
    *SET_UP_COLUMNS,
    csv_column("loss_ratio", lambda point: None if (loss := _of(point).loss) is None else loss.ratio),
]
"""The result of a side, which the name of the side precedes."""


def _of(point: ComparedPoint) -> PointSummary:
    assert isinstance(point, RunPoint)
    return point.summary


def _list_design_columns(size: Sequence[str]) -> list[TableColumn[PointSummary]]:
    return [
        csv_column("platform", lambda of: of.design.platform),
        csv_columns(size, lambda of: size_cells(of.frame)[: len(size)]),
        csv_column("sources", lambda of: of.sources),
        csv_column("target_bps", target_cell),
        csv_column("background", lambda of: of.background),
        csv_column("duration_s", lambda of: of.design.conditions.duration),
    ]


def _build_run_columns(changes: Changes) -> list[TableColumn[Change]]:
    varied = list_varied_conditions(changes)
    return [
        prefix_columns("", _list_design_columns(SIZE_COLUMNS), lambda change: _of(change.before)),
        prefix_columns("after_", _list_design_columns(SIZE_COLUMNS[:1]), lambda change: _of(change.after)),
        prefix_columns("before_", RUN_SIDE_COLUMNS, lambda change: change.before),
        prefix_columns("after_", RUN_SIDE_COLUMNS, lambda change: change.after),
        *EFFECT_COLUMNS,
        csv_column("why", lambda change: change.no_claim_reason),
        printed_column("design point", lambda change: format_compared_point(change, varied)),
        *PRINTED_CHANGE,
        printed_column("finding", lambda change: _format_finding(change, changes.margin_ratio)),
        printed_column("before, Mbit/s", lambda change: format_with_interval(_of(change.before).rate_bps)),
        printed_column("after, Mbit/s", lambda change: format_with_interval(_of(change.after).rate_bps)),
        printed_column("lost, %", lambda change: f"{_format_loss(change.before)} → {_format_loss(change.after)}"),
        *PRINTED_SUPPORT,
    ]


# -- tables ------------------------------------------------------------------------------------------------------------


def build_tables(changes: Changes) -> Iterator[Table]:
    """The tables that have at least one row: of each design point of runs that both sides have, of each quantity of
    other trials, and of other differences.
    """
    against = f"{changes.after.words} against {changes.before.words}"
    if runs := changes.runs.changes:
        note = f"Rates are sums over the streams on the wire, as means over set-ups; {CHANGES_NOTE}"
        yield build_table("changes", f"Forwarding rate: {against}", _build_run_columns(changes), runs, note)
    if others := changes.quantities.changes:
        title, note = f"Trials of other kinds: {against}", f"Means over set-ups; {CHANGES_NOTE}"
        yield build_table("quantities", title, QUANTITY_COLUMNS, others, note)
    if changes.differences:
        columns: list[TableColumn[Pair]] = [
            column("where", "where", lambda pair: pair.section),
            column("what", "what", lambda pair: pair.label),
            column("before", "before", lambda pair: _plain(pair.left)),
            column("after", "after", lambda pair: _plain(pair.right)),
        ]
        yield build_table(
            "differences",
            "What else differs",
            columns,
            changes.differences,
            "As the newest run of each side reports it, settings with all values that it had; what is another number "
            "every time is left out.",
        )


def to_markdown(changes: Changes) -> Iterator[str]:
    """The sentences as a list, then the tables."""
    yield from (f"- {escape_markdown(sentence)}" for sentence in describe_changes(changes))
    for table in build_tables(changes):
        yield ""
        yield table_as_markdown(table).rstrip("\n")


def to_json(changes: Changes) -> dict[str, Any]:
    """The whole comparison as one object: of trials other than runs with the exact factors of each point."""
    of_run, of_quantity = join_columns(_build_run_columns(changes)), join_columns(QUANTITY_COLUMNS)
    runs, others, varied = changes.runs, changes.quantities, list_varied_conditions(changes)
    return {
        "before": changes.before.words,
        "after": changes.after.words,
        "factors": list(runs.factors.get(RUN, ())),
        "margin_ratio": changes.margin_ratio,
        "claims": changes.size,
        "points": [of_run.to_json(each) for each in runs.changes],
        "only_before": [format_point(point, varied) for point in runs.only_before],
        "only_after": [format_point(point, varied) for point in runs.only_after],
        "quantities": [
            {**of_quantity.to_json(each), "factors": _plain_factors(dict(each.before.key.factors))}
            for each in others.changes
        ],
        "only_before_quantities": [each.title for each in others.only_before],
        "only_after_quantities": [each.title for each in others.only_after],
        "differences": [_difference(pair) for pair in changes.differences],
        "sentences": list(describe_changes(changes)),
    }


def _plain_factors(factors: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
        for name, value in factors.items()
    }


def _difference(pair: Pair) -> dict[str, Any]:
    return {"where": pair.section, "what": pair.label, "before": pair.left, "after": pair.right}


def _plain(value: Any) -> str | None:
    return None if value is None else str(value)


# -- sentences ---------------------------------------------------------------------------------------------------------


def describe_changes(changes: Changes) -> Iterator[str]:
    """State what may be concluded, with reservations."""
    yield from _describe_results(changes)
    yield from describe_reservations(changes)


def _describe_results(changes: Changes) -> Iterator[str]:
    """A sentence for the runs and each other kind that both sides have, and for the factors of other kinds."""
    runs, others = changes.runs.changes, changes.quantities
    margin = "" if changes.margin_ratio is None else f"The margin is {format_percent(changes.margin_ratio)}."
    if runs:
        points = format_noun_count(len(runs), "design point")
        yield f"{points} on both sides: {_count_results(runs)}. {margin}".rstrip()
    elif not others.changes:
        yield "No design point is on both sides."
    for kind in dict.fromkeys(each.key.kind for each in others.changes):
        own = [each for each in others.changes if each.key.kind == kind]
        yield f"Of {record_kinds()[kind].plural} {_count_quantities(own)} on both sides: {_count_results(own)}."
    for kind, names in others.factors.items():
        yield f"Compared by {', '.join(names)}: {record_kinds()[kind].plural}."
    if margin and others.changes and not runs:
        yield margin


def _count_results(changes: Sequence[Change]) -> str:
    """The number of each result, the most frequent first."""
    results: Counter[str] = Counter()
    for each in changes:
        direction = format_direction(each)
        is_told = direction and each.word.startswith("different")
        results[each.word + (f" ({direction})" if is_told else "") + each.reach] += 1
    return ", ".join(f"{many} {name}" for name, many in sorted(results.items(), key=lambda each: (-each[1], each[0])))


def _count_quantities(quantities: Sequence[object]) -> str:
    return f"{len(quantities)} {'quantity' if len(quantities) == 1 else 'quantities'}"


def format_direction(change: Change) -> str:
    """The direction of a change: of a rate "more" or "less", of other quantities "better" or "worse"."""
    if change.key.kind == RUN:
        return "" if change.change_ratio is None else "more" if change.change_ratio > 0 else "less"
    return UNKNOWN if change.better is None else "better" if change.better else "worse"


def describe_reservations(changes: Changes) -> Iterator[str]:
    """Caveats to the results."""
    if factors := changes.runs.factors.get(RUN):
        yield f"Compared by {', '.join(name.removesuffix('_bps').removesuffix('_s') for name in factors)}."
    if "set-ups" in changes.scopes:
        sides = zip(*(each.sides for each in changes.matched.changes if each.scope == "set-ups"), strict=True)
        boots = [max(side.boot_count for side in set_ups) for set_ups in sides]
        yield (
            f"Set-ups are of {format_noun_count(boots[0], 'boot')} of the machine before and {boots[1]} after: a "
            "difference may be one of the boots, or of the time that lies between the two sides, and not of what was "
            "changed. Three occasions on one side (of a boot each, unless all is of one boot), three boots a side that "
            "are mixed in time, or both in the blocks of one plan, tell them apart."
        )
    if any(each.scope == "boots" and not each.has_mixed_boots for each in changes.matched.changes):
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
        yield from _describe_run_reservations(side, name)
        yield from _describe_trial_reservations(side, name)
    varied, runs, others = list_varied_conditions(changes), changes.runs, changes.quantities
    for points, name in ((runs.only_before, "before"), (runs.only_after, "after")):
        if points:
            count = format_noun_count(len(points), "design point")
            yield _describe_unmatched([format_point(each, varied) for each in points], name, count)
    for points, name in ((others.only_before, "before"), (others.only_after, "after")):
        if points:
            yield _describe_unmatched([each.title for each in points], name, _count_quantities(points))


def _describe_unmatched(names: Sequence[str], side: str, count: str) -> str:
    """Describe the points that the other side lacks."""
    return f"Only {side}: {count} ({'; '.join(names[:3])}{'; …' if len(names) > 3 else ''})."


def _describe_occasions(changes: Changes) -> str:
    """Describe the side with the most occasions."""
    sides = [each.sides for each in changes.matched.changes if each.scope == "occasions"]
    most = max(sides, key=lambda pair: sum(len(side.set_ups_by_occasion) for side in pair))
    many, all_of = count_replicates("occasions", most), tuple(len(side.set_ups_by_occasion) for side in most)
    counts = f"{format_noun_count(many[0], 'occasion')} before and {many[1]} after, each as the mean of its set-ups"
    return counts if many == all_of else f"{counts} ({all_of[0]} and {all_of[1]}; those of one boot are one)"


def _describe_run_reservations(side: Side, name: str) -> Iterator[str]:
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


def _describe_trial_reservations(side: Side, name: str) -> Iterator[str]:
    """Differences that are averaged over, and trials that do not enter."""
    for kind, conditions in find_pooled_conditions(side.trials).items():
        plural = record_kinds()[kind].plural.capitalize()
        yield f"{plural} {name} are averaged although they differ: {'; '.join(conditions)}."
    for kind in sorted({trial.kind for trial in side.trials}):
        own = [trial for trial in side.trials if trial.kind == kind]
        why = Counter(trial.left_out for trial in own if trial.left_out is not None)
        if why:
            reasons = ", ".join(f"{code} {many}" for code, many in why.most_common())
            trials = format_noun_count(len(own), "trial")
            yield f"{sum(why.values())} of {trials} {name} of kind {kind} enter no mean: {reasons}."


# -- cells -------------------------------------------------------------------------------------------------------------


def format_compared_point(change: Change, varied: Sequence[str] = ()) -> str:
    """The point on both sides; if a factor is compared, with both of its values."""
    one, other = format_point(change.before, varied), format_point(change.after, varied)
    return one if one == other else f"{one} → {other}"


def list_varied_conditions(changes: Changes) -> list[str]:
    """Conditions that points of runs are matched by and that vary among the points of this comparison."""
    runs = changes.runs
    both = [point for each in runs.changes for point in (each.before, each.after)]
    points = [_of(point).design.conditions for point in (*both, *runs.only_before, *runs.only_after)]
    return [name for name in MATCHED if len({getattr(conditions, name) for conditions in points}) > 1]


def format_point(point: ComparedPoint, varied: Sequence[str]) -> str:
    """Format ``raw, 64 B, 1 × 100 Mbit/s``, for runs with these conditions: ``, 5 s``."""
    if isinstance(point, TrialPoint):
        return point.name
    conditions = point.summary.design.conditions
    return ", ".join([point.name, *(format_condition(name, getattr(conditions, name)) for name in varied)])


def format_offered(change: Change) -> str:
    """What both sides of runs were offered, if that differs although the same was requested.

    Another load on the sources' machine, or other sources, may be the only change.
    """
    if change.key.kind != RUN:
        return ""
    before, after = _of(change.before), _of(change.after)
    one, other = before.offered_bps.mean, after.offered_bps.mean
    if before.target_bps != after.target_bps or abs(one - other) <= OFFERED_ALIKE_RATIO * max(one, other):
        return ""
    return f"; offered {format_rate_bps(round(one))} → {format_rate_bps(round(other))}"


def _format_finding(change: Change, margin_ratio: float | None = None) -> str:
    """The finding with its direction or bound; of runs what a bound shows matters only within a margin."""
    is_run = change.key.kind == RUN
    if (reason := change.no_claim_reason) is not None:
        more = f": {reason}"
    elif change.word.startswith("different"):
        direction = "" if is_run else f" ({format_direction(change)})"
        more = f"{direction}{change.reach}{', at least' if change.bound else ''}"
    else:
        is_bound = change.bound and (margin_ratio is not None or not is_run)
        more = f"{change.reach}{f', {change.bound_reason}' if is_bound else ''}"
    return f"{change.word}{more}{format_offered(change)}"


def _format_mean(point: ComparedPoint) -> str:
    quantity, mean = point.key.quantity, point.mean
    if mean is None:
        return UNKNOWN
    more = "≥ " if point.bounds == {"at least"} else "≤ " if point.bounds == {HELD} else ""
    if mean.scope != "set-ups":  # an interval from one set-up would not represent others
        return more + format_number(mean.mean / quantity.scale, quantity.places)
    return more + format_with_interval(mean, quantity.scale, quantity.places)


def _set_up_interval(point: ComparedPoint) -> tuple[float | None, float | None]:
    """Of the mean over set-ups: an interval from one set-up would not represent others."""
    mean = point.mean
    return (mean.ci_low, mean.ci_high) if mean is not None and mean.scope == "set-ups" else (None, None)


def _format_loss(point: ComparedPoint) -> str:
    loss = _of(point).loss
    return UNKNOWN if loss is None or loss.ratio is None else format_number(100 * loss.ratio, 2)
