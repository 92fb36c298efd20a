"""The highest load that meets a loss goal, for every goal of every search."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.search.report_data import LIMITS, factor_columns, select_searches
from labconsole.model.record.search import GoalRecord, SearchRecord
from labconsole.report.captions import MEGA
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column, printed_column

PER_SOURCE = "Loads are per source; bandwidth is on the wire."
IS_NO_LIMIT = "An upper bound set by generator or instrument says nothing about the platform beyond its lower bound."


class GoalRow(NamedTuple):
    """A search and one of its goals."""

    record: SearchRecord
    found: GoalRecord

    def bps(self, pps: float | None) -> float | None:
        """A load in bits per second on the wire."""
        return None if pps is None else self.record.requested.frame.rate_bps(pps)


def make(material: Material) -> Table:
    """Build the table of every goal with its bounds, and what set the upper one."""
    searches = select_searches(material.searches)
    rows = [GoalRow(record, found) for record in searches for found in record.goals]
    columns: list[TableColumn[GoalRow]] = [
        factor_columns(lambda row: row.record),
        column("goal", "goal", lambda row: row.found.goal),
        csv_column("goal_loss_ratio", lambda row: row.found.loss_ratio),
        number_column("lower_bound_pps", "lower bound (pps)", lambda row: row.found.lower_bound_pps, 0),
        number_column("upper_bound_pps", "upper bound (pps)", lambda row: row.found.upper_bound_pps, 0),
        csv_column("conditional_throughput_pps", lambda row: row.found.conditional_throughput_pps),
        number_column(
            "lower_bound_bps", "lower bound (Mbit/s)", lambda row: row.bps(row.found.lower_bound_pps), unit=MEGA
        ),
        csv_column("upper_bound_bps", lambda row: row.bps(row.found.upper_bound_pps)),
        csv_column("conditional_throughput_bps", lambda row: row.bps(row.found.conditional_throughput_pps)),
        printed_column(
            "conditional throughput (pps)", lambda row: format_number(row.found.conditional_throughput_pps, 0)
        ),
        column("limited_by", "limited by", lambda row: row.found.limited_by, _format_limit),
        csv_column("complete", lambda row: row.found.complete),
        csv_column("repetition", lambda row: row.record.plan.repetition),
        csv_column("trials", lambda row: len(row.record.trials)),
        csv_column("search_id", lambda row: row.record.search_id),
    ]
    trials = sum(len(record.trials) for record in searches)
    early = any(not row.found.complete for row in rows)
    return build_table(
        "throughput",
        "Highest load that meets a loss goal (NDR, PDR, RFC 2544 throughput)",
        columns,
        rows,
        f"{PER_SOURCE} {IS_NO_LIMIT} The {trials} trials of the searches enter no mean of another table."
        + (" †: the search ended before the bounds were as close as the goal asks." if early else ""),
    )


def _format_limit(row: GoalRow) -> str:
    """What set the upper bound, with a mark if the search ended early."""
    return LIMITS[row.found.limited_by] + ("" if row.found.complete else " †")


UNITS = (ReportUnit(name="throughput", place=100, make=make),)
