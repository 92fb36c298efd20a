"""Why the unit under test dropped packets according to its kernel, with the meaning and where to look."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.measure.drop_causes import DropCause, cause_of
from labconsole.report.kernel_drops import DropCount
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column
from labconsole.report.telemetry_trials import clean_name

SHOWN = 30
"""The number of rows on the page; the file has all."""


class DropCauseRow(NamedTuple):
    """The packets that were dropped on a platform for one reason: between two counters, or off the path."""

    platform: str
    place: str
    label: str
    dropped: DropCount

    @property
    def cause(self) -> DropCause | None:
        return cause_of(self.label)


def make(material: Material) -> Table | None:
    """Build the table: a row per platform, interface and cause, the most packets first, or None without any cause."""
    dropped = material.digest.dropped
    rows = [DropCauseRow(*key, count) for key, count in dropped.found.items()]
    rows += [
        DropCauseRow(platform, f"off the path, at {place}", label, count)
        for (platform, place, label), count in dropped.off_path.items()
    ]
    if not rows:
        return None
    columns: list[TableColumn[DropCauseRow]] = [
        column("platform", "platform", lambda row: row.platform),
        column("interface", "before", lambda row: clean_name(row.place)),
        column("reason", "the kernel's word", lambda row: clean_name(row.label)),
        column("packets", "packets", lambda row: row.dropped.packets, _format_packets),
        column("runs", "runs", lambda row: len(row.dropped.run_ids)),
        csv_column("partly_counted_runs", lambda row: row.dropped.partly_counted_runs),
        column("meaning", "what happened", lambda row: row.cause.happened if row.cause else None),
        column("look", "where to look", lambda row: row.cause.look if row.cause else None),
    ]
    more = len(rows) - SHOWN
    return build_table(
        "drop-causes",
        "Why packets were dropped",
        columns,
        sorted(rows, key=lambda row: (platform_order(row.platform), -row.dropped.packets, row.place, row.label)),
        "By the unit under test's kernel, of test packets, in runs that enter a mean and in trials for telemetry. "
        "Before: the interface of the ledger that they did not come to; off every stream's path: the interface at "
        "which they were dropped. At least: in some of the runs asking ended when its budget was spent "
        "(drop_reasons: auto), or missed packets. What no kernel named (drivers, NICs, runs in which it was not "
        "asked) is in no row." + (f" {more} more rows are in the file." if more > 0 else ""),
        most_printed=SHOWN,
    )


def _format_packets(row: DropCauseRow) -> str:
    """The number of packets, a lower bound if a run may have more."""
    return f"{'at least ' if row.dropped.partly_counted_runs else ''}{row.dropped.packets}"


UNITS = (ReportUnit(name="drop-causes", place=54, make=make),)
