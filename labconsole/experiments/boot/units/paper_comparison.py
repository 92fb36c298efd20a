"""Printed start-up times and memory of guests in Quétier, Neri and Cappello, next to one's own findings."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.boot.summary import BootLines, BootPointResult
from labconsole.experiments.boot.units.starts import MIB, PAPER, build_summary
from labconsole.measure.statistics.line_in_blocks import LineInBlocks
from labconsole.report.effect_formatting import format_line_part
from labconsole.report.material import Material
from labconsole.report.paper_columns import PaperRow, paper_columns
from labconsole.report.reference import NO_ROW, UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import TableColumn, build_table, column, mean_column, number_column


class StartupRow(NamedTuple):
    """An own point, and the start-up time that the paper prints for its own number of ``guests``."""

    own: BootPointResult
    guests: int
    seconds: float


def build_startup_table(material: Material) -> Table | None:
    """Build the table of the paper's printed times (figure 2) and the points with most guests here."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != PAPER:
        return None
    printed = {
        (row["platform"], start): (int(row["guests"]), float(row[f"{start}_s"]))
        for row in paper.tables["startup"]
        for start in ("cold", "hot")
    }
    summary = build_summary(material)
    most: dict[object, int] = {}
    for each in summary.points:
        most[each.key] = max(each.guests, most.get(each.key, 0))
    rows = [
        StartupRow(each, *theirs)
        for each in summary.points
        if (theirs := printed.get((names.get(each.key.platform, ""), each.key.start))) is not None
        and each.startup_s is not None
        and each.guests == most[each.key]
    ]
    columns: list[TableColumn[StartupRow]] = [
        column("platform", "platform", lambda row: row.own.key.platform, lambda row: summary.names[row.own.key]),
        column("start", "start", lambda row: row.own.key.start),
        column("guests", "guests", lambda row: row.own.guests),
        mean_column("startup_s", "s", lambda row: row.own.startup_s, places=3),
        column("paper_guests", "paper's guests", lambda row: row.guests),
        number_column("paper_s", "paper's s", lambda row: row.seconds, 0),
    ]
    return build_table(
        "quetier-2-beside",
        "Start-up times beside the paper's",
        columns,
        rows,
        f"{paper.cited('figure 2')} Times of different numbers of guests do not compare: of each platform, "
        "the most guests that were started here stand beside the paper's. "
        f"{describe_matching((each.key.platform for each in summary.points), names, NO_ROW)}",
        beside_paper=True,
    )


def build_memory_table(material: Material) -> Table | None:
    """Build the table of the memory in the paper's text, for all its platforms."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != PAPER:
        return None
    summary = build_summary(material)
    rows = [
        PaperRow(each, row)
        for each in summary.lines
        if each.used_bytes is not None
        for row in paper.tables["numbers"]
        if row["topic"] == "memory"
        and ((theirs := names.get(each.key.platform, "")) in row["platform"] or theirs not in paper.platforms)
    ]
    if not rows:
        return None
    columns: list[TableColumn[PaperRow[BootLines]]] = [
        column("platform", "platform", lambda row: summary.names[row.own.key]),
        column("start", "start", lambda row: row.own.key.start),
        column("mib_each", "MiB a guest, available", lambda row: _format_each(row.own.used_bytes)),
        paper_columns("the paper's"),
    ]
    return build_table(
        "quetier-memory-beside",
        "Memory of guests beside the paper's",
        columns,
        rows,
        f"{paper.cited()} {describe_matching((each.key.platform for each in summary.lines), names, UNMATCHED_NOTE)}",
        beside_paper=True,
    )


def _format_each(line: LineInBlocks | None) -> str:
    """The memory of each guest."""
    return format_line_part(None if line is None else line.slope, 1, MIB)


UNITS = (
    ReportUnit(name="quetier-2-beside", place=160, paper=(PAPER, "figure 2"), make=build_startup_table),
    ReportUnit(name="quetier-memory-beside", place=161, paper=(PAPER, "section 5.1.2"), make=build_memory_table),
)
