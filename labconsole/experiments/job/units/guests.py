"""A program in more and more guests, and isolation of a guest from another's work (Quétier et al., 3.1.1 to 3.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.points import PointKey, PointTimes
from labconsole.experiments.job.report_data import (
    CLOCK,
    RESOURCES,
    build_summary,
    describe_settings,
    format_panel_title,
    guests_column,
    job_columns,
    resource_of,
    seconds_mark,
    sort_platforms,
)
from labconsole.experiments.job.summary import GuestsCurve, IsolationResult, JobsSummary
from labconsole.measure.statistics.effects import Effect
from labconsole.measure.statistics.regression import LineInBlocks
from labconsole.report.captions import build_caption
from labconsole.report.formatting import format_ratio, format_span
from labconsole.report.material import Material
from labconsole.report.table_builder import (
    Interval,
    TableColumn,
    build_table,
    column,
    csv_column,
    environment_columns,
    interval_columns,
    line_columns,
    number_column,
)

# -- guests ------------------------------------------------------------------------------------------------------------
# A program while more and more guests run, and in more and more guests at once (Quétier et al., 3.1.1 and 3.1.2).

OVERHEAD = dict(zip(("quetier-3", "quetier-4", "quetier-5-disk", "quetier-5-network"), RESOURCES, strict=True))
LINEARITY = dict(zip(("quetier-7", "quetier-8", "quetier-9", "quetier-10"), RESOURCES, strict=True))
NUMBERS = {"quetier-5-disk": "figure 5, left", "quetier-5-network": "figure 5, right"}

BARE = "bare host, alone"
IDEAL = "bare host × guests"


def overhead(material: Material, name: str) -> Figure | None:
    """Build the figure of one guest that works while others run; the line is the bare host's time."""
    summary = build_summary(material)
    curves = [each for each in summary.one_works if resource_of(each.key) == OVERHEAD[name]]
    groups = _group_by_title(summary, curves)
    measured = [Panel(title, tuple(_means(own))) for title, own in groups.items()]
    panels = [replace(panel, curves=(*panel.curves, *_level(groups[panel.title]))) for panel in measured]
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Time of one guest's program ({OVERHEAD[name]}) while others idle next to it",
        kind="curves",
        x_label="guests running",
        y_label="seconds",
        panels=tuple(panels),
        caption=build_caption(CLOCK, measured),
        ideal=False,
    )


def linearity(material: Material, name: str) -> Figure | None:
    """Build the figure of all guests working: mean and slowest. The line is the time of ideal processor sharing."""
    summary = build_summary(material)
    curves = [each for each in summary.all_work if resource_of(each.key) == LINEARITY[name]]
    groups = _group_by_title(summary, curves)
    measured = [Panel(title, (*_means(own, "mean"), *_slowest(own))) for title, own in groups.items()]
    panels = [replace(panel, curves=(*panel.curves, *_ideal(groups[panel.title]))) for panel in measured]
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Time of a program ({LINEARITY[name]}) in all guests at once",
        kind="curves",
        x_label="guests that work",
        y_label="seconds",
        panels=tuple(panels),
        caption=build_caption(f"{CLOCK}; mean over the guests, and the slowest of them", measured),
        ideal=False,
    )


def _group_by_title(summary: JobsSummary, curves: Sequence[GuestsCurve]) -> dict[str, list[GuestsCurve]]:
    """Group curves into a panel for each job and placement of guests."""
    found: dict[str, list[GuestsCurve]] = {}
    for each in curves:
        found.setdefault(format_panel_title(summary, each.key), []).append(each)
    return found


def _means(curves: Sequence[GuestsCurve], what: str = "") -> list[PlottedCurve]:
    found = []
    for platform in sort_platforms(each.key for each in curves):
        curve = next(each for each in curves if each.key.platform == platform)
        marks = [seconds_mark(point.key.guests, point.seconds) for point in curve.points if point.seconds is not None]
        found.append(PlottedCurve(f"{platform}, {what}" if what else platform, tuple(marks)))
    return found


def _slowest(curves: Sequence[GuestsCurve]) -> list[PlottedCurve]:
    found = []
    for platform in sort_platforms(each.key for each in curves):
        curve = next(each for each in curves if each.key.platform == platform)
        marks = [
            seconds_mark(point.key.guests, point.slowest)
            for point in curve.points
            if point.slowest is not None and point.key.guests > 1  # with one guest this is the mean
        ]
        found.append(PlottedCurve(f"{platform}, slowest", tuple(marks)))
    return found


def _level(curves: Sequence[GuestsCurve]) -> list[PlottedCurve]:
    return _line(curves, BARE, lambda alone_s, _: alone_s)


def _ideal(curves: Sequence[GuestsCurve]) -> list[PlottedCurve]:
    if any(each.key.cpu != "same" for each in curves):
        return []  # the number of processors that share the work is unknown
    return _line(curves, IDEAL, lambda alone_s, guests: alone_s * guests)


def _line(curves: Sequence[GuestsCurve], label: str, height: object) -> list[PlottedCurve]:
    assert callable(height)
    known = [each for each in curves if each.alone_s is not None]
    if not known:
        return []
    guests = sorted({point.key.guests for each in known for point in each.points})
    marks = tuple(Mark(at, height(known[0].alone_s, at), None, None, 0) for at in (guests[0], guests[-1]))
    return [PlottedCurve(label, marks)]


class GuestsCurveRow(NamedTuple):
    """A curve, and whether one guest works or all do."""

    working: str
    curve: GuestsCurve

    @property
    def key(self) -> PointKey:
        return self.curve.key

    @property
    def fit(self) -> LineInBlocks | None:
        return self.curve.fit

    @property
    def blocks(self) -> int:
        return 0 if self.fit is None else self.fit.blocks

    @property
    def most_guests(self) -> PointTimes:
        return self.curve.points[-1]


def build_guests_table(material: Material) -> Table | None:
    """Build the table of the lines: how a time grows with the number of guests."""
    summary = build_summary(material)
    rows = [GuestsCurveRow("one works", each) for each in summary.one_works]
    rows += [GuestsCurveRow("all work", each) for each in summary.all_work]
    if not rows:
        return None
    columns: list[TableColumn[GuestsCurveRow]] = [
        job_columns(lambda row: row.key),
        csv_column("cpu", lambda row: row.key.cpu),
        column(
            "working",
            "guests",
            lambda row: row.working,
            lambda row: f"{row.working}, {describe_settings(summary, row.key)}",
        ),
        line_columns(
            "slope_s_per_guest",
            "s per guest",
            lambda row: row.fit.slope if row.fit else None,
            4,
            bounds=("slope_ci_low_s", "slope_ci_high_s"),
        ),
        line_columns(
            "intercept_s",
            "s at none",
            lambda row: row.fit.constant if row.fit else None,
            3,
            bounds=("intercept_ci_low_s", "intercept_ci_high_s"),
        ),
        number_column("bare_seconds", "bare host s", lambda row: row.curve.alone_s, 3),
        line_columns(
            "bend_s_per_guest_squared",
            "bend s per guest²",
            lambda row: row.fit.bend if row.fit else None,
            4,
            bounds=("bend_ci_low_s", "bend_ci_high_s"),
        ),
        number_column("between_guests_sd_s", "sd between guests s", lambda row: row.most_guests.between_guests_sd_s, 3),
        number_column("jain", "Jain", lambda row: row.most_guests.jain, 3),
        csv_column("numbers_of_guests", lambda row: len(row.curve.points)),
        column("blocks", "blocks", lambda row: row.blocks, lambda row: f"{row.blocks} at {len(row.curve.points)}"),
        column("word", "finding", lambda row: row.curve.word),
        environment_columns(lambda row: row.key, summary.testbeds),
    ]
    return build_table(
        "job-guests",
        "How a program's time grows with the number of guests",
        columns,
        rows,
        "Least squares within each block that has all numbers of guests; means over blocks, with 95 % intervals "
        "(Student's t over blocks); where all work, of the slowest guest. Flat: the slope's interval lies within ± 5 % "
        "of the time alone per 100 guests; grows: it excludes zero; faster than linear: so does that of the bend, the "
        "quadratic term. No interval, and no claim, of fewer than three blocks or numbers of guests. Adjusted for "
        "nothing: of twenty rows without growth one may grow by chance. "
        "Deviation between guests and Jain's index of one over their times are those of the most guests.",
    )


# -- isolation ---------------------------------------------------------------------------------------------------------
# Isolation: a guest with one copy of a job next to one with two (Quétier et al., section 3.1.3).

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


def build_isolation_table(material: Material) -> Table | None:
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
            place=120 + place,
            make=partial(overhead, name=name),
            paper=("quetier", NUMBERS.get(name, f"figure {name.rpartition('-')[2]}")),
        )
        for place, name in enumerate(OVERHEAD)
    ),
    *(
        ReportUnit(
            name=name,
            place=130 + place,
            make=partial(linearity, name=name),
            paper=("quetier", f"figure {name.rpartition('-')[2]}"),
        )
        for place, name in enumerate(LINEARITY)
    ),
    ReportUnit(name="job-guests", place=130, make=build_guests_table),
    *(
        ReportUnit(
            name=name,
            place=140 + place,
            make=partial(bars, name=name),
            paper=("quetier", f"figure {name.rpartition('-')[2]}"),
        )
        for place, name in enumerate(FIGURES)
    ),
    ReportUnit(name="job-isolation", place=140, make=build_isolation_table),
)
