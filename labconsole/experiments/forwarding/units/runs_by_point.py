"""Planned, stored and included runs."""

from __future__ import annotations

from labconsole.contracts.report import ReportUnit, Table
from labconsole.report.material import Material
from labconsole.report.point_columns import design_columns
from labconsole.report.sample import Coverage
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column


def make(material: Material) -> Table:
    """Build the table point by point."""
    columns: list[TableColumn[Coverage]] = [
        column("plan", "plan", lambda each: each.plan),
        csv_column("plan_hash", lambda each: each.plan_hash),
        csv_column("testbed_fingerprint", lambda each: each.fingerprint),
        column("point", "point", lambda each: each.point),
        design_columns(lambda each: each),
        column("planned", "planned", lambda each: each.planned),
        column("taken", "taken", lambda each: each.taken),
        column("retaken", "retaken", lambda each: each.retaken),
        column("entered", "entered", lambda each: each.entered),
        column("missing", "missing", lambda each: each.missing),
    ]
    bare = any(each.planned is None for each in material.coverage)
    return build_table(
        "runs-by-point",
        "Planned, taken and entered, point by point",
        columns,
        material.coverage,
        "Planned: set-ups times repetitions, as the plan's file says, else its newest record. Taken: stored "
        "trials; retaken: those beyond one a place (an invalid one taken again, a set-up that broke off taken "
        "again). Points of a plan without any run are listed where the plan's file was given (--plan FILE)."
        + (" Records of format 1 do not say what was planned." if bare else ""),
    )


UNITS = (ReportUnit(name="runs-by-point", place=140, make=make),)
