"""The table of naps."""

from __future__ import annotations

from labconsole.contracts.report import ReportUnit, Table
from labconsole.report.material import Material


def make(material: Material) -> Table | None:
    """A row for each nap."""
    rows = tuple((record.requested.platform, record.longest_s) for record in material.of("nap"))
    shown = tuple(tuple(map(str, row)) for row in rows)
    heads = ("platform", "longest_s")
    return Table(name="naps", title="Naps", columns=heads, rows=rows, headings=heads, shown=shown) if rows else None


UNITS = (ReportUnit(name="naps", place=950, make=make),)
