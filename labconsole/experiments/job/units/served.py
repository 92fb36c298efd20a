"""Files served by guests: one request from outside to one guest, two to another at once (Quétier et al., figure 1)."""

from __future__ import annotations

from labconsole.contracts.report import Cell, Figure, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.points import PointTimes
from labconsole.experiments.job.report_data import (
    build_summary,
    describe_settings,
    format_panel_title,
    format_seconds,
    seconds_mark,
    sort_platforms,
)
from labconsole.model.jobs import JOBS
from labconsole.report.captions import build_caption
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.reference import describe_matching

PAPER = "quetier"
CLOCK = "Seconds of a request by the clock of who makes it, outside, less what fetching nothing takes there"
NAMES = ("the only one", "first of two", "second of two")
THEIRS = (("2", "1"), ("1", "1"), ("1", "2"))
"""The paper's guest and request for each of these; its first guest has the two requests."""


def _served(material: Material) -> list[PointTimes]:
    return [
        each
        for each in build_summary(material).points
        if each.apart and (job := JOBS.get(each.key.job)) is not None and job.requests is not None
    ]


def bars(material: Material) -> Figure | None:
    """Build the figure: a panel per protocol, a bar per platform for each of the three requests."""
    summary, points = build_summary(material), _served(material)
    panels = []
    for title in dict.fromkeys(format_panel_title(summary, each.key) for each in points):
        own = {each.key.platform: each for each in points if format_panel_title(summary, each.key) == title}
        curves = [
            PlottedCurve(name, tuple(seconds_mark(place, mean) for place, mean in enumerate(own[name].apart)))
            for name in sort_platforms(each.key for each in own.values())
        ]
        panels.append(Panel(title, tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="quetier-1",
        title="Two guests serve files: one request to the first, two to the second, all at once",
        kind="bars",
        x_label="request",
        y_label="seconds",
        panels=tuple(panels),
        caption=build_caption(CLOCK, panels),
        x_names=NAMES,
    )


def times(material: Material) -> Table | None:
    """Build the table of the same times, next to those of the paper if it is available."""
    summary, paper = build_summary(material), material.paper
    known = paper is not None and paper.name == PAPER
    printed = (
        {}
        if paper is None or not known
        else {
            (row["protocol"], row["platform"], row["guest"], row["request"]): float(row["seconds"])
            for row in paper.tables["http"]
        }
    )
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in _served(material):
        key, protocol = each.key, each.key.job.removeprefix("serve-")
        theirs = material.paper_names.get(key.platform, "")
        for name, mean, (guest, request) in zip(NAMES, each.apart, THEIRS, strict=True):
            paper_s = printed.get((protocol, theirs, guest, request))
            interval = (mean.mean, mean.ci_low, mean.ci_high, mean.set_ups)
            rows.append(
                (
                    key.platform,
                    key.job,
                    key.size,
                    key.guests,
                    name,
                    *interval,
                    paper_s,
                    *build_environment_cells(key, summary.testbeds),
                )
            )
            cells = (key.platform, f"{protocol} ({key.size} MiB)", describe_settings(summary, key, guests=True), name)
            shown.append((*cells, format_seconds(mean), UNKNOWN if paper_s is None else format_number(paper_s, 0)))
    if not rows:
        return None
    own = (each.key.platform for each in _served(material))
    matched = describe_matching(own, material.paper_names, "the paper has no seconds to compare with")
    source = "" if paper is None or not known else f" {paper.cited('figure 1', how='files of 600 MB')} {matched}"
    return Table(
        name="quetier-1-times",
        title="Seconds of each request to guests that serve files",
        columns=(
            "platform",
            "job",
            "size",
            "guests",
            "request",
            "seconds",
            "ci_low_s",
            "ci_high_s",
            "set_ups",
            "paper_s",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=("platform", "file", "guests", "request", "s", "paper's s"),
        shown=tuple(shown),
        note=f"{CLOCK}; mean ± half the 95 % interval over set-ups. Only valid trials enter.{source}",
    )


UNITS = (
    ReportUnit(name="quetier-1", place=112, paper=(PAPER, "figure 1"), make=bars),
    ReportUnit(name="quetier-1-times", place=113, paper=(PAPER, "figure 1"), make=times),
)
