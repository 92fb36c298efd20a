"""Results over occasions as tables, figures and objects, and the report units of each kind that show them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from labconsole.comparison.occasions import base_name, build_trial_sides
from labconsole.comparison.points import RUN, select_newest
from labconsole.comparison.trends import Trend, TrendResult, TrendStep, find_trends
from labconsole.contracts.measured import MeasuredKind, MeasuredTrial, Quantity
from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.trend import CUT_RESULTS
from labconsole.model.plan.plan import AT
from labconsole.model.record.kind import record_kinds
from labconsole.report.formatting import UNKNOWN, format_number, format_percent
from labconsole.report.material import Material, Unit
from labconsole.report.table_builder import (
    Item,
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_columns,
    join_columns,
    mean_value,
    printed_column,
)

# -- trend tables ------------------------------------------------------------------------------------------------------
# Results over occasions as tables, figures and objects, for each kind by itself.

TRENDS_NOTE = (
    "Level: mean and standard deviation of the occasions since the last change, found by minimum description length "
    "(jumpavg), without outliers. Would have found, each in 8 of 10 such series: a step in the middle of the series / "
    "a latest occasion that alone is off. One that is may be an outlier, or the first of a change. Fewer than "
    f"{CUT_RESULTS} occasions are not cut."
)

MOST_OUTLIERS = 3
"""Most outliers named in a row, the last ones; the table of occasions has all."""


class TrendStepRow(NamedTuple):
    """A change of level in a trend."""

    trend: Trend
    step: TrendStep

    @property
    def differences(self) -> str:
        """What else changed then."""
        return "; ".join(each.words for each in self.step.differences)


class OccasionRow(NamedTuple):
    """The result of one occasion of a trend. ``place``: its index."""

    trend: Trend
    place: int
    result: TrendResult

    @property
    def value(self) -> float | None:
        return mean_value(self.result.mean)

    @property
    def level(self) -> float | None:
        """The level that the occasion belongs to."""
        return next((each.mean for each in self.trend.levels if each.first <= self.place <= each.last), None)

    @property
    def is_outlier(self) -> bool:
        return any(each.place == self.place for each in self.trend.outliers)

    @property
    def is_change(self) -> bool:
        return any(step.first == self.place for step in self.trend.steps)


def group_by_kind(trends: Sequence[Trend]) -> dict[str, list[Trend]]:
    """Group trends by kind, runs first."""
    found: dict[str, list[Trend]] = {}
    for each in sorted(trends, key=lambda each: each.kind != RUN):
        found.setdefault(each.kind, []).append(each)
    return found


def build_tables(trends: Sequence[Trend]) -> Iterator[Table]:
    """Tables for each kind: a row for each design point, and a row for each change, with what else changed then."""
    for kind, own in group_by_kind(trends).items():
        yield _trends_table(kind, own)
        if any(each.steps for each in own):
            yield _steps_table(kind, own)


def _named(kind: str, name: str) -> str:
    return name if kind == RUN else f"{name}-{kind}"


def _title(kind: str) -> str:
    return f"{'Forwarding rate' if kind == RUN else record_kinds()[kind].plural.capitalize()} over occasions"


def _units(kind: str) -> tuple[str, str]:
    """Units of columns, and of headings."""
    return ("_bps", ", Mbit/s") if kind == RUN else ("", "")


def _point_columns(kind: str, trend: Callable[[Item], Trend]) -> TableColumn[Item]:
    """The design point and, of trials other than runs, the quantity."""
    point: TableColumn[Item] = column("point", "design point", lambda item: trend(item).words)
    if kind == RUN:
        return point
    columns: list[TableColumn[Item]] = [
        csv_column("kind", lambda _: kind),
        csv_column("quantity", lambda item: trend(item).quantity.name),
        csv_column("unit", lambda item: trend(item).quantity.unit),
        csv_column("better", lambda item: trend(item).quantity.better),
        point,
        printed_column("quantity", lambda item: _format_quantity(trend(item).quantity)),
    ]
    return join_columns(columns)


def _format_quantity(quantity: Quantity) -> str:
    return f"{quantity.name}, {quantity.shown_unit}"


def _last_value(trend: Trend) -> float | None:
    return mean_value(trend.results[-1].mean)


def _trends_table(kind: str, trends: Sequence[Trend]) -> Table:
    unit, shown_unit = _units(kind)
    columns: list[TableColumn[Trend]] = [
        _point_columns(kind, lambda each: each),
        csv_column("occasions", lambda each: len(each.results)),
        csv_column("last_occasion", lambda each: each.results[-1].occasion),
        csv_column(f"last{unit}", _last_value),
        csv_column(f"level{unit}", lambda each: each.levels[-1].mean if each.levels else None),
        csv_column(f"level_sd{unit}", lambda each: each.levels[-1].sd if each.levels else None),
        csv_column("changes", lambda each: len(each.steps)),
        csv_column("changed_at", lambda each: each.steps[-1].occasion if each.steps else None),
        csv_column("change_ratio", lambda each: each.steps[-1].change_ratio if each.steps else None),
        csv_column("smallest_step_ratio", lambda each: each.smallest.middle_ratio),
        csv_column("smallest_latest_ratio", lambda each: each.smallest.latest_ratio),
        csv_column("outliers", lambda each: "; ".join(outlier.occasion for outlier in each.outliers)),
        csv_column("margin_ratio", lambda each: each.margin_ratio),
        csv_column("why", lambda each: each.why),
        printed_column("last change", describe_last_change),
        printed_column(f"level{shown_unit}", format_level),
        printed_column(f"last{shown_unit}", lambda each: format_value(each, _last_value(each))),
        printed_column("would have found", format_smallest_change),
        printed_column("occasions", lambda each: str(len(each.results))),
    ]
    note = TRENDS_NOTE + format_margin_note(trends)
    return build_table(_named(kind, "trends"), _title(kind), columns, trends, note)


def format_margin_note(trends: Sequence[Trend]) -> str:
    """Changes that a margin leaves out; empty without one."""
    margins = {each.margin_ratio for each in trends}
    if margins <= {None}:
        return ""
    if None in margins or len(margins) > 1:
        return " Changes within the margin of their plan, if it declares one, do not count."
    return (
        f" Changes of {format_percent(max(filter(None, margins)), 2)} or less do not count: they are within the margin."
    )


def format_smallest_change(trend: Trend) -> str:
    """The smallest change that would be found in the middle of the series and at the latest occasion."""
    middle, latest = trend.smallest
    if latest is None:
        return UNKNOWN
    return f"{UNKNOWN if middle is None else format_number(100 * middle, 2)} / {format_percent(latest, 2)}"


def _steps_table(kind: str, trends: Sequence[Trend]) -> Table:
    direction: list[TableColumn[TrendStepRow]] = [
        csv_column("changed_for", lambda row: "better" if row.step.better else "worse")
    ]
    columns: list[TableColumn[TrendStepRow]] = [
        _point_columns(kind, lambda row: row.trend),
        printed_column("change", lambda row: format_step(row.trend, row.step)),
        column("occasion", "since", lambda row: row.step.occasion),
        column("started_at", "date", lambda row: row.step.started_at, lambda row: row.step.started_at[:10]),
        csv_column("change_ratio", lambda row: row.step.change_ratio),
        *([] if kind == RUN else direction),
        column(
            "also_changed",
            "what else changed then",
            lambda row: row.differences,
            lambda row: row.differences or "nothing that is known",
        ),
        csv_column("at_least", lambda row: row.step.at_least),
    ]
    title = "Changes" if kind == RUN else f"Changes of {record_kinds()[kind].plural}"
    rows = [TrendStepRow(trend, step) for trend in trends for step in trend.steps]
    return build_table(_named(kind, "changes"), title, columns, rows)


def build_results_tables(trends: Sequence[Trend]) -> Iterator[Table]:
    """For each kind every result, with its interval and level: the data of the figure."""
    for kind, own in group_by_kind(trends).items():
        unit, shown_unit = _units(kind)
        columns: list[TableColumn[OccasionRow]] = [
            _point_columns(kind, lambda row: row.trend),
            column("number", "no.", lambda row: row.place + 1),
            column("occasion", "occasion", lambda row: row.result.occasion),
            column("started_at", "date", lambda row: row.result.started_at, lambda row: row.result.started_at[:10]),
            csv_column(f"result{unit}", lambda row: row.value),
            csv_columns((f"ci_low{unit}", f"ci_high{unit}"), lambda row: row.result.interval),
            printed_column(f"result{shown_unit}", _format_result),
            csv_column("set_ups", lambda row: row.result.mean.set_ups if row.result.mean else 0),
            column(f"level{unit}", f"level{shown_unit}", lambda row: row.level, _format_level),
            csv_column("outlier", lambda row: row.is_outlier),
            csv_column("changed", lambda row: row.is_change),
            printed_column("change", lambda row: "outlier" if row.is_outlier else "here" if row.is_change else ""),
        ]
        rows = [OccasionRow(trend, place, result) for trend in own for place, result in enumerate(trend.results)]
        yield build_table(_named(kind, "occasions"), f"{_title(kind)}, result by result", columns, rows)


def _format_result(row: OccasionRow) -> str:
    """The result of an occasion with half its interval."""
    low, high = row.result.interval
    half = "" if low is None or high is None else f" ± {format_value(row.trend, (high - low) / 2)}"
    return format_value(row.trend, row.value) + half


def _format_level(row: OccasionRow) -> str:
    return format_value(row.trend, row.level)


def build_figures(trends: Sequence[Trend]) -> Iterator[Figure]:
    """For each kind one figure, with a panel per design point: its results, the levels, and a line at each change."""
    for kind, own in group_by_kind(trends).items():
        panels = tuple(panel for each in own if (panel := build_panel(each)) is not None)
        if panels:
            yield Figure(
                name=_named(kind, "trend"),
                title=_title(kind),
                kind="curves",
                x_label="occasion",
                y_label="change from the first level, %",
                panels=panels,
                ideal=False,
                from_zero=False,
                x_numbered=True,
                caption="Occasions are numbered in the order of their beginning. Bars: 95 % interval over the set-ups "
                "of an occasion. Levels: between two changes, by minimum description length; dotted upright lines: the "
                "changes.",
            )


def build_panel(trend: Trend) -> Panel | None:
    """A panel, or None if there are fewer than two results or no level to show changes from."""
    first = trend.first_level
    if len(trend.results) < 2 or not first or first < 0:
        return None
    marks = []
    for place, result in enumerate(trend.results, 1):
        if result.mean is not None:
            low, high = (None if bound is None else 100 * (bound / first - 1) for bound in result.interval)
            change = 100 * (result.mean.mean / first - 1)
            marks.append(Mark(float(place), change, low, high, result.mean.trials, result.mean.set_ups))
    level = [
        Mark(float(place + 1), 100 * (each.mean / first - 1), None, None, each.last - each.first + 1)
        for each in trend.levels
        for place in (each.first, each.last)
    ]
    curves = [PlottedCurve("result", tuple(marks)), *([PlottedCurve("level", tuple(level))] if level else [])]
    places = tuple(step.first + 0.5 for step in trend.steps)
    return Panel(trend.title, tuple(curves), changes=places, change_names=tuple(step.occasion for step in trend.steps))


def format_value(trend: Trend, value: float | None) -> str:
    """A value in its display unit, without the unit."""
    return format_number(None if value is None else value / trend.quantity.scale, trend.quantity.places)


def format_level(trend: Trend) -> str:
    """The last level, and how far results are from it."""
    if not trend.levels:
        return UNKNOWN
    last, quantity = trend.levels[-1], trend.quantity
    spread = "" if last.sd is None else f" ± {format_number(last.sd / quantity.scale, quantity.places + 1)}"
    return f"{format_value(trend, last.mean)}{spread}"


def describe_last_change(trend: Trend) -> str:
    """The last change, or why none is searched for, and the outliers."""
    if trend.why is not None:
        return trend.why
    change = "none"
    if trend.steps:
        step = trend.steps[-1]
        change = f"{format_step(trend, step)} since {step.occasion}"
    return "; ".join([change, *describe_outliers(trend)])


def describe_outliers(trend: Trend) -> list[str]:
    """Outlying occasions; the earlier ones only as a number."""
    passed = [each for each in trend.outliers if not each.can_be_change]
    latest = [each for each in trend.outliers if each.can_be_change]
    named = [f"{each.occasion} ({_signed(each.change_ratio)})" for each in passed[-MOST_OUTLIERS:]]
    more = len(passed) - len(named)
    sentences = [f"outlier{'s' if len(passed) > 1 else ''}: {', '.join(named)}"] if named else []
    if more:
        sentences[0] += f" and {more} earlier"
    return sentences + [
        f"{each.occasion} is off by {_signed(each.change_ratio)}: an outlier, or the first of a change"
        for each in latest[:1]
    ]


def _signed(ratio: float) -> str:
    return f"{'+' if ratio > 0 else ''}{format_percent(ratio, 2)}"


def format_step(trend: Trend, step: TrendStep) -> str:
    """A change of level; if it is not of a rate, also its direction, as less may be better."""
    least = "at least " if step.at_least else ""
    way = "" if trend.kind == RUN else f" ({'better' if step.better else 'worse'})"
    return f"{least}{_signed(step.change_ratio)}{way}"


def build_json_object(trend: Trend) -> dict[str, Any]:
    """The whole trend, for machines."""
    of_runs = trend.kind == RUN
    point: TableColumn[Trend] = _point_columns(trend.kind, lambda each: each)
    names = ("rate_bps", "ci_low_bps", "ci_high_bps") if of_runs else ("value", "ci_low", "ci_high")
    results = []
    for result in trend.results:
        values = (None if result.mean is None else result.mean.mean, *result.interval)
        entry = {"occasion": result.occasion, **dict(zip(names, values, strict=True))}
        results.append({**entry, "set_ups": 0 if result.mean is None else result.mean.set_ups})
    return {
        **point.to_json(trend),
        "results": results,
        "levels": [each.to_json() for each in trend.levels],
        "changes": [
            {
                "occasion": step.occasion,
                "started_at": step.started_at,
                "change_ratio": step.change_ratio,
                **({} if of_runs else {"changed_for": "better" if step.better else "worse"}),
                "at_least": step.at_least,
                "also_changed": [
                    {"where": each.section, "what": each.label, "before": each.left, "after": each.right}
                    for each in step.differences
                ],
            }
            for step in trend.steps
        ],
        "outliers": [
            {
                "occasion": each.occasion,
                "started_at": each.started_at,
                "change_ratio": each.change_ratio,
                "can_be_change": each.can_be_change,
            }
            for each in trend.outliers
        ],
        "smallest_step_ratio": trend.smallest.middle_ratio,
        "smallest_latest_ratio": trend.smallest.latest_ratio,
        "margin_ratio": trend.margin_ratio,
        "why": trend.why,
    }


# -- trend units -------------------------------------------------------------------------------------------------------
# Results of a kind other than runs over the occasions of its plans: the report units that all kinds share.

SEARCHES = "search"
"""The kind that a report's material keeps apart from the others."""

MOST_PANELS = 12
"""Most panels of the figure; the table has every design point."""


def build_trend_units(measured: MeasuredKind, place: int) -> tuple[Unit, ...]:
    """A figure and tables of every plan with several occasions; empty if there is none."""
    name = measured.kind.name
    return (
        ReportUnit(name=f"trend-{name}", place=place, make=partial(_figure, measured=measured)),
        ReportUnit(name=f"trends-{name}", place=place, make=partial(_tables, measured=measured)),
    )


def build_trend_figures(trends: Sequence[Trend]) -> list[Figure]:
    """Figures of the first design points."""
    return list(build_figures(trends[:MOST_PANELS]))


def build_trend_tables(trends: Sequence[Trend], omitted: Sequence[str]) -> list[Table]:
    """Tables of the design points, the changes, and every result. ``omitted``: the occasions that are left out."""
    found = list(build_tables(trends))
    if found and omitted:
        found[0] = replace(found[0], note=f"{found[0].note} {'. '.join(omitted)}.")
    return [*found, *build_results_tables(trends)]


def _figure(material: Material, *, measured: MeasuredKind) -> list[Figure]:
    return build_trend_figures(_trends(material, measured)[0])


def _tables(material: Material, *, measured: MeasuredKind) -> list[Table]:
    return build_trend_tables(*_trends(material, measured))


def _trends(material: Material, measured: MeasuredKind) -> tuple[list[Trend], list[str]]:
    by_plan: dict[str, list[MeasuredTrial]] = {}
    records = material.searches if measured.kind.name == SEARCHES else material.of(measured.kind.name)
    for trial in select_newest(measured.trials(records, material.search_runs)):
        if AT in trial.plan_name:
            by_plan.setdefault(base_name(trial.plan_name), []).append(trial)
    found: list[Trend] = []
    omitted: list[str] = []
    for trials in by_plan.values():
        if len({trial.plan_name for trial in trials}) > 1:
            sides = list(build_trial_sides(trials, trials, "", omitted.append))
            found += find_trends(sides, margin_ratio=material.given_margin_ratio)
    return found, omitted
