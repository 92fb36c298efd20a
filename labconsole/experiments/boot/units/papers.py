"""What papers print and conclude on guests' start-up and memory, next to one's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from labconsole.contracts.report import Experiments, ReportUnit, Table
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.summary import BootLines, BootPointResult, MemoryComparison, compare_memory
from labconsole.experiments.boot.units.starts import MIB, PAPER, build_summary
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.effects import SIGNIFICANCE
from labconsole.measure.statistics.regression import LineInBlocks, slope_p
from labconsole.report.formatting import format_interval, format_line_part
from labconsole.report.material import Material
from labconsole.report.paper_abstracts import (
    ONE_FAMILY,
    PaperConclusion,
    ToolPair,
    build_abstract_unit,
    collect_p_values,
    format_kernels,
    format_one_platform,
    judge_all_different,
)
from labconsole.report.reference import NO_ROW, UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import (
    PaperRow,
    TableColumn,
    build_table,
    column,
    mean_column,
    number_column,
    paper_columns,
)

# -- printed numbers ---------------------------------------------------------------------------------------------------
# Printed start-up times and memory of guests in Quétier, Neri and Cappello, next to one's own findings.


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
        "Start-up times compared with the paper's",
        columns,
        rows,
        f"{paper.cited('figure 2')} Times of different numbers of guests are not comparable: of each platform, "
        "the most guests that were started here are shown next to the paper's. "
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
        "Memory of guests compared with the paper's",
        columns,
        rows,
        f"{paper.cited()} {describe_matching((each.key.platform for each in summary.lines), names, UNMATCHED_NOTE)}",
        beside_paper=True,
    )


def _format_each(line: LineInBlocks | None) -> str:
    """The memory of each guest."""
    return format_line_part(None if line is None else line.slope, 1, MIB)


# -- conclusions of an abstract ----------------------------------------------------------------------------------------
# Conclusions on guests' memory in the abstract of Quétier, Neri and Cappello, compared with one's own findings.

OCCUPATION = "the tools behave differently in resource occupation"


def _conclude(material: Material) -> Iterator[PaperConclusion]:
    """Conclude for each start that was measured on several platforms."""
    summary = build_summary(material)
    compared = compare_memory(each for each in material.of("boot") if isinstance(each, BootRecord))
    tested = [_p(each) for each in compared]
    found = adjusted(tested, material.evaluation.claims.p_values)
    groups: dict[tuple[str, str], list[ToolPair]] = {}
    for each, plain, p in zip(compared, tested, found, strict=True):
        about = f"memory of each guest, {each.key.start} start"
        about += "".join(f", {mib} MiB given" for mib in each.key.crew)
        if len(summary.testbeds) > 1:
            about += f", on {summary.testbeds[each.key.testbed_fingerprint]}"
        about += format_kernels({point.key.kernel for point in summary.points}, each.key, each.than)
        apart = True if p is not None and p <= SIGNIFICANCE else None
        said = (
            f"{summary.names[each.key]} against {summary.names[each.than]}: {each.absent or _format_slope(each.line)}"
        )
        pair = ToolPair(each.key.platform, each.than.platform, said, apart, p=plain)
        groups.setdefault((each.key.testbed_fingerprint, about), []).append(pair)
    if summary.points and not groups:
        yield PaperConclusion(OCCUPATION, "memory of each guest", format_one_platform("the same start"), "not decided")
    for (_, about), pairs in groups.items():
        said = "; ".join(pair.said for pair in pairs)
        yield PaperConclusion(OCCUPATION, about, said, judge_all_different(pairs), collect_p_values(pairs))


def _claimed(experiments: Experiments, names: Mapping[str, str]) -> list[float]:
    """Return the p values of the lines of every two platforms."""
    compared = compare_memory(each for each in experiments.get("boot", ()) if isinstance(each, BootRecord))
    return [p for each in compared if (p := _p(each)) is not None]


def _p(compared: MemoryComparison) -> float | None:
    return None if compared.line is None or compared.absent else slope_p(compared.line)


def _format_slope(line: LineInBlocks | None) -> str:
    """``+41.2 MiB (35.0 to 47.4)``."""
    if line is None:
        return "no block has both"
    if line.slope.low is None or line.slope.high is None:
        return str(line.absent)
    mean, low, high = (each / MIB for each in (line.slope.mean, line.slope.low, line.slope.high))
    return f"{'+' if mean > 0 else ''}{format_interval(mean, low, high, 1)} MiB"


UNITS = (
    ReportUnit(name="quetier-2-beside", place=160, paper=(PAPER, "figure 2"), make=build_startup_table),
    ReportUnit(name="quetier-memory-beside", place=161, paper=(PAPER, "section 5.1.2"), make=build_memory_table),
    build_abstract_unit(
        "quetier",
        "quetier-abstract-memory",
        168,
        _conclude,
        "Of every two platforms: by how much more memory each guest of the one takes, by what the machine has left (as "
        "its hypervisor reports, else its kernel), as lines over the number of guests. Confirmed where every two are "
        "shown to differ; that none do, this does not show. Guests have the memory that their platform gives them. "
        "Nothing is decided where no start is valid, or some were left out because of their results. Differences are "
        f"taken in pairs of blocks. {ONE_FAMILY}",
        _claimed,
    ),
)
