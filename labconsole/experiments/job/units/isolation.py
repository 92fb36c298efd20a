"""Isolation: a guest with one copy of a job next to one with two (Quétier et al., section 3.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.report_data import (
    RESOURCES,
    build_summary,
    format_panel_title,
    guests_column,
    job_columns,
    resource_of,
    sort_platforms,
)
from labconsole.experiments.job.summary import IsolationResult
from labconsole.measure.statistics.effects import Effect
from labconsole.report.effect_formatting import format_ratio
from labconsole.report.formatting import format_span
from labconsole.report.guest_columns import environment_columns
from labconsole.report.material import Material
from labconsole.report.table_builder import Interval, TableColumn, build_table, column, interval_columns

FIGURES = dict(zip(("quetier-11", "quetier-12", "quetier-13", "quetier-14"), RESOURCES, strict=True))


def bars(material: Material, name: str) -> Figure | None:
    """Build the figure of both guests' times, as multiples of one copy alone in the same crew."""
    summary = build_summary(material)
    found = [each for each in summary.isolation if resource_of(each.key) == FIGURES[name]]
    panels = []
    titles = {each.key: format_panel_title(summary, each.key, guests=True) for each in found}
    for title in dict.fromkeys(titles.values()):
        own = [each for each in found if titles[each.key] == title]
        curves = []
        for platform in sort_platforms(each.key for each in own):
            each = next(one for one in own if one.key.platform == platform)
            marks = [
                _mark(place, side) for place, side in enumerate((each.first, each.second)) if side.change is not None
            ]
            if marks:
                curves.append(PlottedCurve(platform, tuple(marks)))
        if curves:
            panels.append(Panel(title, tuple(curves)))
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Isolation: {FIGURES[name]}",
        kind="bars",
        x_label="guest",
        y_label="times as long as one copy alone",
        panels=tuple(panels),
        caption=(
            "2 and 3 times as long: guests are kept apart; 3 and 3: all copies share alike, as processes of one system "
            f"do. {_describe_bars(panels)}"
        ),
        x_names=("with one copy", "with two copies"),
    )


def _describe_bars(panels: Sequence[Panel]) -> str:
    marks = [mark for panel in panels for curve in panel.curves for mark in curve.marks]
    blocks = {mark.n for mark in marks}
    behind = f"Of {format_span(blocks)} block{'s' if max(blocks) > 1 else ''}"
    if all(mark.low is None for mark in marks):
        return f"{behind}; no error bars: an interval needs three."
    interval = "95 % confidence interval of the ratio, paired by block (Student's t on the logarithm)"
    return f"{behind}; error bars: {interval}."


def _mark(place: int, effect: Effect) -> Mark:
    assert effect.change is not None
    low = None if effect.ci_low is None else 1 + effect.ci_low
    high = None if effect.ci_high is None else 1 + effect.ci_high
    return Mark(place, 1 + effect.change, low, high, effect.blocks, effect.blocks)


def table(material: Material) -> Table | None:
    """Build the table of the same times, with the conclusion."""
    summary = build_summary(material)
    if not summary.isolation:
        return None
    columns: list[TableColumn[IsolationResult]] = [
        job_columns(lambda each: each.key),
        guests_column(summary, lambda each: each.key),
        _ratio_columns("first", "with one copy", lambda each: each.first),
        _ratio_columns("second", "with two copies", lambda each: each.second),
        column("blocks", "blocks", lambda each: each.first.blocks),
        column("word", "finding", lambda each: each.word),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "job-isolation",
        "Isolation of two guests on one processor",
        columns,
        summary.isolation,
        "Times as long as one copy alone in the same crew, with 95 % intervals. Between guests: both lie "
        "within 1.8 to 2.2 and 2.7 to 3.3; between processes: both within 2.7 to 3.3; neither: an interval lies "
        "wholly outside.",
    )


def _ratio_columns(
    name: str, heading: str, effect: Callable[[IsolationResult], Effect]
) -> TableColumn[IsolationResult]:
    """The time of a guest as a multiple of one copy's alone."""

    def multiples(each: IsolationResult) -> Interval:
        found = effect(each)
        change, low, high = (
            None if ratio is None else 1 + ratio for ratio in (found.change, found.ci_low, found.ci_high)
        )
        return change, low, high

    bounds = (f"{name}_ci_low", f"{name}_ci_high")
    return interval_columns(f"{name}_ratio", heading, multiples, lambda each: format_ratio(effect(each)), bounds)


UNITS = (
    *(
        ReportUnit(
            name=name,
            place=140 + place,
            make=partial(bars, name=name),
            paper=("quetier", f"figure {name.rpartition('-')[2]}"),
        )
        for place, name in enumerate(FIGURES)
    ),
    ReportUnit(name="job-isolation", place=140, make=table),
)
