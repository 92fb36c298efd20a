"""Results over occasions as tables, figures and objects, for each kind by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from labconsole.contracts.report import Cell, Figure, Mark, Panel, PlottedCurve, Table
from labconsole.measure.trend import CUT_RESULTS
from labconsole.model.record.kinds import record_kinds
from labconsole.report.formatting import UNKNOWN, format_number, format_percent
from labconsole.report.trends import RUN, Trend, TrendStep

TRENDS_NOTE = (
    "Level: mean and standard deviation of the occasions since the last change, found by minimum description length "
    "(jumpavg), without outliers. Would have found, each in 8 of 10 such series: a step in the middle of the series / "
    "a latest occasion that alone is off. One that is may be an outlier, or the first of a change. Fewer than "
    f"{CUT_RESULTS} occasions are not cut."
)

MOST_OUTLIERS = 3
"""Most outliers named in a row, the last ones; the table of occasions has all."""

QUANTITY_COLUMNS = ("kind", "quantity", "unit", "better")
"""Columns of quantities other than forwarding rates."""


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


def _build_quantity_cells(kind: str, trend: Trend) -> tuple[Cell, ...]:
    quantity = trend.quantity
    return () if kind == RUN else (kind, quantity.name, quantity.unit, quantity.better)


def _format_quantity(kind: str, trend: Trend) -> tuple[str, ...]:
    return () if kind == RUN else (f"{trend.quantity.name}, {trend.quantity.shown_unit}",)


def _trends_table(kind: str, trends: Sequence[Trend]) -> Table:
    (unit, shown_unit), extra_columns = _units(kind), () if kind == RUN else QUANTITY_COLUMNS
    rows, shown = [], []
    for each in trends:
        last, level = each.results[-1], each.levels[-1] if each.levels else None
        step = each.steps[-1] if each.steps else None
        value = None if last.mean is None else last.mean.mean
        rows.append(
            (
                *_build_quantity_cells(kind, each),
                each.words,
                len(each.results),
                last.occasion,
                value,
                level.mean if level else None,
                level.sd if level else None,
                len(each.steps),
                step.occasion if step else None,
                step.change_ratio if step else None,
                each.smallest.middle_ratio,
                each.smallest.latest_ratio,
                "; ".join(outlier.occasion for outlier in each.outliers),
                each.margin_ratio,
                each.why,
            )
        )
        shown.append(
            (
                each.words,
                *_format_quantity(kind, each),
                describe_last_change(each),
                format_level(each),
                format_value(each, value),
                format_smallest_change(each),
                str(len(each.results)),
            )
        )
    return Table(
        name=_named(kind, "trends"),
        title=_title(kind),
        columns=(
            *extra_columns,
            "point",
            "occasions",
            "last_occasion",
            f"last{unit}",
            f"level{unit}",
            f"level_sd{unit}",
            "changes",
            "changed_at",
            "change_ratio",
            "smallest_step_ratio",
            "smallest_latest_ratio",
            "outliers",
            "margin_ratio",
            "why",
        ),
        rows=tuple(rows),
        headings=(
            "design point",
            *(() if kind == RUN else ("quantity",)),
            "last change",
            f"level{shown_unit}",
            f"last{shown_unit}",
            "would have found",
            "occasions",
        ),
        shown=tuple(shown),
        note=TRENDS_NOTE + format_margin_note(trends),
    )


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
    rows, shown = [], []
    for trend in trends:
        for step in trend.steps:
            differences = "; ".join(each.words for each in step.differences)
            direction = () if kind == RUN else ("better" if step.better else "worse",)
            rows.append(
                (
                    *_build_quantity_cells(kind, trend),
                    trend.words,
                    step.occasion,
                    step.started_at,
                    step.change_ratio,
                    *direction,
                    differences,
                    step.at_least,
                )
            )
            shown.append(
                (
                    trend.words,
                    *_format_quantity(kind, trend),
                    format_step(trend, step),
                    step.occasion,
                    step.started_at[:10],
                    differences or "nothing that is known",
                )
            )
    return Table(
        name=_named(kind, "changes"),
        title="Changes" if kind == RUN else f"Changes of {record_kinds()[kind].plural}",
        columns=(
            *(() if kind == RUN else QUANTITY_COLUMNS),
            "point",
            "occasion",
            "started_at",
            "change_ratio",
            *(() if kind == RUN else ("changed_for",)),
            "also_changed",
            "at_least",
        ),
        rows=tuple(rows),
        headings=(
            "design point",
            *(() if kind == RUN else ("quantity",)),
            "change",
            "since",
            "date",
            "what else changed then",
        ),
        shown=tuple(shown),
    )


def build_results_tables(trends: Sequence[Trend]) -> Iterator[Table]:
    """For each kind every result, with its interval and level: the data of the figure."""
    for kind, own in group_by_kind(trends).items():
        unit, _ = _units(kind)
        rows, shown = [], []
        for trend in own:
            changed, apart = {step.first for step in trend.steps}, {each.place for each in trend.outliers}
            for place, result in enumerate(trend.results):
                mean, (low, high) = result.mean, result.interval
                level = next((each.mean for each in trend.levels if each.first <= place <= each.last), None)
                rows.append(
                    (
                        *_build_quantity_cells(kind, trend),
                        trend.words,
                        place + 1,
                        result.occasion,
                        result.started_at,
                        None if mean is None else mean.mean,
                        low,
                        high,
                        0 if mean is None else mean.set_ups,
                        level,
                        place in apart,
                        place in changed,
                    )
                )
                half = "" if low is None or high is None else f" ± {format_value(trend, (high - low) / 2)}"
                shown.append(
                    (
                        trend.words,
                        *_format_quantity(kind, trend),
                        str(place + 1),
                        result.occasion,
                        result.started_at[:10],
                        format_value(trend, None if mean is None else mean.mean) + half,
                        format_value(trend, level),
                        "outlier" if place in apart else "here" if place in changed else "",
                    )
                )
        yield Table(
            name=_named(kind, "occasions"),
            title=f"{_title(kind)}, result by result",
            columns=(
                *(() if kind == RUN else QUANTITY_COLUMNS),
                "point",
                "number",
                "occasion",
                "started_at",
                f"result{unit}",
                f"ci_low{unit}",
                f"ci_high{unit}",
                "set_ups",
                f"level{unit}",
                "outlier",
                "changed",
            ),
            rows=tuple(rows),
            headings=(
                "design point",
                *(() if kind == RUN else ("quantity",)),
                "no.",
                "occasion",
                "date",
                f"result{_units(kind)[1]}",
                f"level{_units(kind)[1]}",
                "change",
            ),
            shown=tuple(shown),
        )


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
    names = ("rate_bps", "ci_low_bps", "ci_high_bps") if of_runs else ("value", "ci_low", "ci_high")
    results = []
    for result in trend.results:
        values = (None if result.mean is None else result.mean.mean, *result.interval)
        entry = {"occasion": result.occasion, **dict(zip(names, values, strict=True))}
        results.append({**entry, "set_ups": 0 if result.mean is None else result.mean.set_ups})
    return {
        **({} if of_runs else dict(zip(QUANTITY_COLUMNS, _build_quantity_cells(trend.kind, trend), strict=True))),
        "point": trend.words,
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
