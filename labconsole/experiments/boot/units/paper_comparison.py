"""Printed start-up times and memory of guests in Quétier, Neri and Cappello, next to one's own findings."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.boot.units.starts import PAPER, build_summary, format_line, format_set_up_mean
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.reference import NO_ROW, UNMATCHED_NOTE, describe_matching, format_printed_value


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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    summary = build_summary(material)
    most: dict[object, int] = {}
    for each in summary.points:
        most[each.key] = max(each.guests, most.get(each.key, 0))
    for each in summary.points:
        theirs = printed.get((names.get(each.key.platform, ""), each.key.start))
        if theirs is None or each.startup_s is None or each.guests != most[each.key]:
            continue
        guests, seconds = theirs
        rows.append((each.key.platform, each.key.start, each.guests, each.startup_s.mean, guests, seconds))
        own = format_set_up_mean(each.startup_s, 1.0, 3)
        shown.append(
            (summary.names[each.key], each.key.start, str(each.guests), own, str(guests), format_number(seconds, 0))
        )
    return Table(
        name="quetier-2-beside",
        title="Start-up times compared with the paper's",
        columns=("platform", "start", "guests", "startup_s", "paper_guests", "paper_s"),
        rows=tuple(rows),
        headings=("platform", "start", "guests", "s", "paper's guests", "paper's s"),
        shown=tuple(shown),
        note=f"{paper.cited('figure 2')} Times of different numbers of guests are not comparable: of each platform, "
        "the most guests that were started here are shown next to the paper's. "
        f"{describe_matching((each.key.platform for each in summary.points), names, NO_ROW)}",
        beside_paper=True,
    )


def build_memory_table(material: Material) -> Table | None:
    """Build the table of the memory in the paper's text, for all its platforms."""
    paper = material.paper
    if paper is None or paper.name != PAPER:
        return None
    names = material.paper_names
    summary, rows = build_summary(material), list[tuple[str, ...]]()
    for each in summary.lines:
        if each.used_bytes is None:
            continue
        own, _ = format_line(each.used_bytes)
        theirs = names.get(each.key.platform, "")
        for row in paper.tables["numbers"]:
            if row["topic"] == "memory" and (theirs in row["platform"] or theirs not in paper.platforms):
                cells = (
                    summary.names[each.key],
                    each.key.start,
                    own,
                    row["platform"],
                    format_printed_value(row),
                    row["where"],
                )
                rows.append(cells)
    if not rows:
        return None
    return Table(
        name="quetier-memory-beside",
        title="Memory of guests compared with the paper's",
        columns=("platform", "start", "mib_each", "paper_platform", "paper", "where"),
        rows=tuple(rows),
        headings=("platform", "start", "MiB a guest, available", "the paper's", "the paper", "where"),
        shown=tuple(rows),
        note=f"{paper.cited()} "
        f"{describe_matching((each.key.platform for each in summary.lines), names, UNMATCHED_NOTE)}",
        beside_paper=True,
    )


UNITS = (
    ReportUnit(name="quetier-2-beside", place=160, paper=(PAPER, "figure 2"), make=build_startup_table),
    ReportUnit(name="quetier-memory-beside", place=161, paper=(PAPER, "section 5.1.2"), make=build_memory_table),
)
