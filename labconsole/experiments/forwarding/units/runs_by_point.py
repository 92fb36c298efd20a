"""Planned, stored and included runs."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_size_number,
    format_target_number,
    size_cells,
    target_cell,
)
from labconsole.report.material import Material


def make(material: Material) -> Table:
    """Build the table point by point."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in material.coverage:
        counts = (each.planned, each.taken, each.retaken, each.entered, each.missing)
        rows.append(
            (
                each.plan,
                each.plan_hash,
                each.fingerprint,
                each.point,
                each.platform,
                *size_cells(each.frame),
                each.sources,
                target_cell(each),
                each.background,
                *counts,
            )
        )
        shown.append(
            (
                each.plan,
                str(each.point),
                each.platform,
                format_size_number(each.frame),
                str(each.sources),
                format_target_number(each.target_bps, each.frame),
                each.background,
                *(UNKNOWN if count is None else str(count) for count in counts),
            )
        )
    bare = any(each.planned is None for each in material.coverage)
    return Table(
        name="runs-by-point",
        title="Planned, taken and entered, point by point",
        columns=(
            "plan",
            "plan_hash",
            "testbed_fingerprint",
            "point",
            "platform",
            *SIZE_COLUMNS,
            "sources",
            "target_bps",
            "background",
            "planned",
            "taken",
            "retaken",
            "entered",
            "missing",
        ),
        rows=tuple(rows),
        headings=(
            "plan",
            "point",
            "platform",
            "size, B",
            "sources",
            "target, Mbit/s",
            "background",
            "planned",
            "taken",
            "retaken",
            "entered",
            "missing",
        ),
        shown=tuple(shown),
        note=(
            "Planned: set-ups times repetitions, as the plan's file says, else its newest record. Taken: stored "
            "trials; retaken: those beyond one a place (an invalid one taken again, a set-up that broke off taken "
            "again). Points of a plan without any run are listed where the plan's file was given (--plan FILE)."
            + (" Records of format 1 do not say what was planned." if bare else "")
        ),
    )


UNITS = (ReportUnit(name="runs-by-point", place=140, make=make),)
