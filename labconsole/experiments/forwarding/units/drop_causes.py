"""Why the unit under test dropped packets according to its kernel, with the meaning and where to look."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.measure.drop_causes import cause_of
from labconsole.report.formatting import UNKNOWN
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.telemetry_trials import clean_name

SHOWN = 30
"""The number of rows on the page; the file has all."""


def make(material: Material) -> Table | None:
    """Build the table: a row per platform, interface and cause, the most packets first, or None without any cause."""
    dropped = material.digest.dropped
    found = [(platform, place, label, kept) for (platform, place, label), kept in dropped.found.items()]
    found += [
        (platform, f"off the path, at {place}", label, kept)
        for (platform, place, label), kept in dropped.off_path.items()
    ]
    found.sort(key=lambda each: (platform_order(each[0]), -each[3].packets, each[1:3]))
    if not found:
        return None
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[Cell, ...]] = []
    for platform, place, label, kept in found:
        cause = cause_of(label)
        meant = (None, None) if cause is None else (cause.happened, cause.look)
        runs = (len(kept.run_ids), kept.partly_counted_runs)
        rows.append((platform, clean_name(place), clean_name(label), kept.packets, *runs, *meant))
        at_least = "at least " if kept.partly_counted_runs else ""
        shown.append((platform, clean_name(place), clean_name(label), f"{at_least}{kept.packets}", runs[0], *meant))
    more = len(rows) - SHOWN
    return Table(
        name="drop-causes",
        title="Why packets were dropped",
        columns=("platform", "interface", "reason", "packets", "runs", "partly_counted_runs", "meaning", "look"),
        rows=tuple(rows),
        headings=("platform", "before", "kernel's reason", "packets", "runs", "what happened", "where to look"),
        shown=tuple(tuple(UNKNOWN if cell is None else str(cell) for cell in row) for row in shown[:SHOWN]),
        note=(
            "By the unit under test's kernel, of test packets, in runs that enter a mean and in trials for telemetry. "
            "Before: the interface of the ledger that they did not reach; off every stream's path: the interface at "
            "which they were dropped. At least: in some of the runs tracing ended when its budget was spent "
            "(drop_reasons: auto), or missed packets. Drops that no kernel explained (drivers, NICs, runs without "
            "tracing) are in no row." + (f" {more} more rows are in the file." if more > 0 else "")
        ),
    )


UNITS = (ReportUnit(name="drop-causes", place=54, make=make),)
