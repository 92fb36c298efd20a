"""The highest load that meets a loss goal, for every goal of every search."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.search.report_data import (
    FACTORS,
    HEADINGS,
    LIMITS,
    factors,
    format_factors,
    select_searches,
)
from labconsole.model.record.search import GoalRecord, SearchRecord
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material

PER_SOURCE = "Loads are per source; bandwidth is on the wire."
IS_NO_LIMIT = "An upper bound set by generator or instrument says nothing about the platform beyond its lower bound."


def make(material: Material) -> Table:
    """Build the table of every goal with its bounds, and what set the upper one."""
    records = select_searches(material.searches)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        for found in record.goals:
            bounds = (found.lower_bound_pps, found.upper_bound_pps, found.conditional_throughput_pps)
            rows.append(
                (
                    *factors(record),
                    found.goal,
                    found.loss_ratio,
                    *bounds,
                    *(_bps(record, bound) for bound in bounds),
                    found.limited_by,
                    found.complete,
                    record.plan.repetition,
                    len(record.trials),
                    record.search_id,
                )
            )
            shown.append((*format_factors(record), found.goal, *_bounds(record, found)))
    trials = sum(len(record.trials) for record in records)
    early = any(not found.complete for record in records for found in record.goals)
    return Table(
        name="throughput",
        title="Highest load that meets a loss goal (NDR, PDR, RFC 2544 throughput)",
        columns=(
            *FACTORS,
            "goal",
            "goal_loss_ratio",
            "lower_bound_pps",
            "upper_bound_pps",
            "conditional_throughput_pps",
            "lower_bound_bps",
            "upper_bound_bps",
            "conditional_throughput_bps",
            "limited_by",
            "complete",
            "repetition",
            "trials",
            "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS,
            "goal",
            "lower bound (pps)",
            "upper bound (pps)",
            "lower bound (Mbit/s)",
            "conditional throughput (pps)",
            "limited by",
        ),
        shown=tuple(shown),
        note=f"{PER_SOURCE} {IS_NO_LIMIT} The {trials} trials of the searches enter no mean of another table."
        + (" †: the search ended before the bounds were as close as the goal asks." if early else ""),
    )


def _bounds(record: SearchRecord, found: GoalRecord) -> tuple[str, ...]:
    lower_bps = _bps(record, found.lower_bound_pps)
    return (
        format_number(found.lower_bound_pps, 0),
        format_number(found.upper_bound_pps, 0),
        UNKNOWN if lower_bps is None else format_number(lower_bps / 1e6),
        format_number(found.conditional_throughput_pps, 0),
        LIMITS[found.limited_by] + ("" if found.complete else " †"),
    )


def _bps(record: SearchRecord, pps: float | None) -> float | None:
    return None if pps is None else record.requested.frame.rate_bps(pps)


UNITS = (ReportUnit(name="throughput", place=100, make=make),)
