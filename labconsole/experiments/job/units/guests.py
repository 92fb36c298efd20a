"""A program while more and more guests run, and in more and more guests at once (Quétier et al., 3.1.1 and 3.1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from labconsole.contracts.report import Cell, Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.report_data import (
    CLOCK,
    RESOURCES,
    build_summary,
    describe_settings,
    format_job,
    format_panel_title,
    resource_of,
    seconds_mark,
    sort_platforms,
)
from labconsole.experiments.job.summary import GuestsCurve, JobsSummary
from labconsole.measure.statistics.line_in_blocks import OverBlocks
from labconsole.report.captions import build_caption
from labconsole.report.effect_formatting import format_line_part
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material

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


def table(material: Material) -> Table | None:
    """Build the table of the lines: how a time grows with the number of guests."""
    summary = build_summary(material)
    curves = [("one works", each) for each in summary.one_works] + [("all work", each) for each in summary.all_work]
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for working, curve in curves:
        fit, key = curve.fit, curve.key
        sd = curve.points[-1].between_guests_sd_s
        rows.append(
            (
                key.platform,
                key.job,
                key.size,
                key.cpu,
                working,
                *_figures(None if fit is None else fit.slope),
                *_figures(None if fit is None else fit.constant),
                curve.alone_s,
                *_figures(None if fit is None else fit.bend),
                sd,
                curve.points[-1].jain,
                len(curve.points),
                0 if fit is None else fit.blocks,
                curve.word,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        shown.append(
            (
                key.platform,
                format_job(key),
                f"{working}, {describe_settings(summary, key)}",
                format_line_part(None if fit is None else fit.slope, 4),
                format_line_part(None if fit is None else fit.constant, 3),
                UNKNOWN if curve.alone_s is None else format_number(curve.alone_s, 3),
                format_line_part(None if fit is None else fit.bend, 4),
                UNKNOWN if sd is None else format_number(sd, 3),
                UNKNOWN if curve.points[-1].jain is None else format_number(curve.points[-1].jain, 3),
                f"{0 if fit is None else fit.blocks} at {len(curve.points)}",
                curve.word or UNKNOWN,
            )
        )
    if not rows:
        return None
    return Table(
        name="job-guests",
        title="How a program's time grows with the number of guests",
        columns=(
            "platform",
            "job",
            "size",
            "cpu",
            "working",
            "slope_s_per_guest",
            "slope_ci_low_s",
            "slope_ci_high_s",
            "intercept_s",
            "intercept_ci_low_s",
            "intercept_ci_high_s",
            "bare_seconds",
            "bend_s_per_guest_squared",
            "bend_ci_low_s",
            "bend_ci_high_s",
            "between_guests_sd_s",
            "jain",
            "numbers_of_guests",
            "blocks",
            "word",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "job",
            "guests",
            "s per guest",
            "s at none",
            "bare host s",
            "bend s per guest²",
            "sd between guests s",
            "Jain",
            "blocks",
            "finding",
        ),
        shown=tuple(shown),
        note="Least squares within each block that has all numbers of guests; means over blocks, with 95 % intervals "
        "(Student's t over blocks); where all work, of the slowest guest. Flat: the slope's interval lies within ± 5 % "
        "of the time alone per 100 guests; grows: it excludes zero; faster than linear: so does that of the bend, the "
        "quadratic term. No interval, and no claim, of fewer than three blocks or numbers of guests. Adjusted for "
        "nothing: of twenty rows without growth one may grow by chance. "
        "Deviation between guests and Jain's index of one over their times are those of the most guests.",
    )


def _figures(part: OverBlocks | None) -> tuple[Cell, Cell, Cell]:
    return (None, None, None) if part is None else (part.mean, part.low, part.high)


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
    ReportUnit(name="job-guests", place=130, make=table),
)
