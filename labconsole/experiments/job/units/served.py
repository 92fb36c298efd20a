"""Files served by guests: one request from outside to one guest, two to another at once (Quétier et al., figure 1)."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.points import PointKey, PointTimes
from labconsole.experiments.job.report_data import (
    build_summary,
    format_panel_title,
    guests_column,
    seconds_mark,
    sort_platforms,
)
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.jobs import JOBS
from labconsole.report.captions import build_caption
from labconsole.report.material import Material
from labconsole.report.reference import describe_matching
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    environment_columns,
    mean_columns,
    number_column,
    printed_column,
)

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


class RequestRow(NamedTuple):
    """One of the three requests: its time, and the paper's seconds for it if known."""

    key: PointKey
    request: str
    seconds: SetUpMean
    paper_s: float | None


def _protocol(key: PointKey) -> str:
    return key.job.removeprefix("serve-")


def times(material: Material) -> Table | None:
    """Build the table of the same times, next to those of the paper if it is available."""
    summary, paper, points = build_summary(material), material.paper, _served(material)
    printed: dict[tuple[str, str, str, str], float] = {}
    source = ""
    if paper is not None and paper.name == PAPER:
        for row in paper.tables["http"]:
            printed[row["protocol"], row["platform"], row["guest"], row["request"]] = float(row["seconds"])
        own = (each.key.platform for each in points)
        matched = describe_matching(own, material.paper_names, "the paper has no seconds to compare with")
        source = f" {paper.cited('figure 1', how='files of 600 MB')} {matched}"
    rows = [
        RequestRow(
            each.key,
            name,
            mean,
            printed.get((_protocol(each.key), material.paper_names.get(each.key.platform, ""), *theirs)),
        )
        for each in points
        for name, mean, theirs in zip(NAMES, each.apart, THEIRS, strict=True)
    ]
    if not rows:
        return None
    columns: list[TableColumn[RequestRow]] = [
        column("platform", "platform", lambda row: row.key.platform),
        csv_column("job", lambda row: row.key.job),
        csv_column("size", lambda row: row.key.size),
        printed_column("file", lambda row: f"{_protocol(row.key)} ({row.key.size} MiB)"),
        guests_column(summary, lambda row: row.key),
        column("request", "request", lambda row: row.request),
        mean_columns("seconds", "s", lambda row: row.seconds, places=3, bounds=("ci_low_s", "ci_high_s")),
        csv_column("set_ups", lambda row: row.seconds.set_ups),
        number_column("paper_s", "paper's s", lambda row: row.paper_s, 0),
        environment_columns(lambda row: row.key, summary.testbeds),
    ]
    return build_table(
        "quetier-1-times",
        "Seconds of each request to guests that serve files",
        columns,
        rows,
        f"{CLOCK}; mean ± half the 95 % interval over set-ups. Only valid trials enter.{source}",
    )


UNITS = (
    ReportUnit(name="quetier-1", place=112, paper=(PAPER, "figure 1"), make=bars),
    ReportUnit(name="quetier-1-times", place=113, paper=(PAPER, "figure 1"), make=times),
)
