"""Delay at the throughput that was found, one-way only where the clocks are shown to agree."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.search.report_data import factor_columns, select_searches
from labconsole.model.record.search import LatencyRecord, SearchRecord
from labconsole.report.delays import NS_PER_US
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column


class LatencyRow(NamedTuple):
    """A search and its delay."""

    record: SearchRecord
    found: LatencyRecord


def make(material: Material) -> Table:
    """Build the table of the delay at the throughput."""
    searches = select_searches(material.searches)
    rows = [LatencyRow(record, record.latency) for record in searches if record.latency is not None]
    columns: list[TableColumn[LatencyRow]] = [
        factor_columns(lambda row: row.record),
        column("goal", "goal", lambda row: row.found.goal),
        number_column("load_pps", "load (pps)", lambda row: row.found.load_pps, 0),
        *map(_one_way_column, ("min", "mean", "p50", "p99", "p999", "max")),
        *map(_variation_column, ("p50", "p99", "p999", "max")),
        csv_column("no_one_way_because", lambda row: row.found.reason),
        csv_column("search_id", lambda row: row.record.search_id),
    ]
    reasons = dict.fromkeys(row.found.reason for row in rows if row.found.reason)
    return build_table(
        "latency",
        "Delay at the throughput that was found (RFC 2544, section 26.2)",
        columns,
        rows,
        "Means over streams and trials; variation is over the shortest delay of a trial."
        + "".join(f" No one-way delay: {reason}." for reason in reasons),
    )


def _one_way_column(name: str) -> TableColumn[LatencyRow]:
    """``name``: of the quantile, or of the mean."""
    return number_column(
        f"one_way_{name}_ns", f"{name} (µs)", lambda row: (row.found.one_way_mean_ns or {}).get(name), unit=NS_PER_US
    )


def _variation_column(name: str) -> TableColumn[LatencyRow]:
    """``name``: of the quantile."""
    return number_column(
        f"pdv_{name}_ns", f"variation {name} (µs)", lambda row: (row.found.pdv_mean_ns or {}).get(name), unit=NS_PER_US
    )


UNITS = (ReportUnit(name="latency", place=130, make=make),)
