"""Delay at the throughput that was found, one-way only where the clocks are shown to agree."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.search.report_data import FACTORS, HEADINGS, factors, format_factors, select_searches
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material


def make(material: Material) -> Table:
    """Build the table of the delay at the throughput."""
    names = ("min", "mean", "p50", "p99", "p999", "max")
    varied = ("p50", "p99", "p999", "max")
    records = select_searches(material.searches)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        found = record.latency
        if found is None:
            continue
        one_way, pdv = found.one_way_mean_ns or {}, found.pdv_mean_ns or {}
        rows.append(
            (
                *factors(record),
                found.goal,
                found.load_pps,
                *(one_way.get(name) for name in names),
                *(pdv.get(name) for name in varied),
                found.reason,
                record.search_id,
            )
        )
        values = [one_way.get(name) for name in names] + [pdv.get(name) for name in varied]
        shown.append(
            (
                *format_factors(record),
                found.goal,
                format_number(found.load_pps, 0),
                *(UNKNOWN if value is None else format_number(value / 1e3) for value in values),
            )
        )
    reasons = dict.fromkeys(r.latency.reason for r in records if r.latency is not None and r.latency.reason)
    return Table(
        name="latency",
        title="Delay at the throughput that was found (RFC 2544, section 26.2)",
        columns=(
            *FACTORS,
            "goal",
            "load_pps",
            *(f"one_way_{name}_ns" for name in names),
            *(f"pdv_{name}_ns" for name in varied),
            "no_one_way_because",
            "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS,
            "goal",
            "load (pps)",
            *(f"{name} (µs)" for name in names),
            *(f"variation {name} (µs)" for name in varied),
        ),
        shown=tuple(shown),
        note="Means over streams and trials; variation is over the shortest delay of a trial."
        + "".join(f" No one-way delay: {reason}." for reason in reasons),
    )


UNITS = (ReportUnit(name="latency", place=130, make=make),)
