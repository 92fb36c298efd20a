"""RFC 2544's further tests: frame loss rate, longest bursts, and delay at the throughput that was found."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.search.report_data import LIMITS, factor_columns, select_searches
from labconsole.model.record.search import BackToBackRecord, FrameLossPoint, LatencyRecord, SearchRecord
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.points import NS_PER_US
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column, percent_column

# -- frame loss --------------------------------------------------------------------------------------------------------
# RFC 2544's frame loss rate over the load; also the data of its figure.


class LossRow(NamedTuple):
    """A search and one load of its curve."""

    record: SearchRecord
    point: FrameLossPoint


def build_frame_loss_table(material: Material) -> Table:
    """Build the table of the frame loss rate over the load."""
    searches = select_searches(material.searches)
    columns: list[TableColumn[LossRow]] = [
        factor_columns(lambda row: row.record),
        percent_column("share_ratio", "of line rate (%)", lambda row: row.point.share_ratio, 0),
        number_column("intended_per_source_pps", "intended per source (pps)", lambda row: row.point.intended_pps, 0),
        number_column("offered_pps", "offered in all (pps)", lambda row: row.point.offered_pps, 0),
        percent_column("loss_ratio", "loss (%)", lambda row: row.point.loss_ratio, 3),
        csv_column("run_id", lambda row: row.point.run_id),
    ]
    return build_table(
        "frame-loss-rate",
        "Frame loss rate (RFC 2544, section 26.3)",
        columns,
        [LossRow(record, point) for record in searches for point in record.frame_loss or ()],
        "From the line rate downwards until two trials running lose nothing. Loss is of what was offered.",
    )


# -- back to back ------------------------------------------------------------------------------------------------------
# RFC 2544's longest bursts, with RFC 9004's corrected buffer time where there is one.


class BurstRow(NamedTuple):
    """A search and its bursts."""

    record: SearchRecord
    found: BackToBackRecord

    @property
    def limits(self) -> list[str]:
        """What limited the bursts, each once."""
        return list(dict.fromkeys(burst.limited_by for burst in self.found.bursts))


def build_back_to_back_table(material: Material) -> Table:
    """Build the table of the longest bursts."""
    searches = select_searches(material.searches)
    columns: list[TableColumn[BurstRow]] = [
        factor_columns(lambda row: row.record),
        column("repetitions", "n", lambda row: len(row.found.bursts)),
        number_column("mean_packets", "mean (packets)", lambda row: row.found.mean_packets),
        number_column("least_packets", "least", lambda row: row.found.least_packets, 0),
        number_column("most_packets", "most", lambda row: row.found.most_packets, 0),
        number_column("sd_packets", "sd", lambda row: row.found.sd_packets),
        percent_column("reached_ratio", "sent at (% of line rate)", lambda row: row.found.reached_ratio),
        column("buffer_s", "buffer (ms)", lambda row: row.found.buffer_s, _format_buffer),
        column(
            "limited_by",
            "limited by",
            lambda row: " ".join(row.limits),
            lambda row: ", ".join(LIMITS[limit] for limit in row.limits),
        ),
        csv_column("search_id", lambda row: row.record.search_id),
    ]
    return build_table(
        "back-to-back",
        "Back-to-back frames (RFC 2544, section 26.4)",
        columns,
        [BurstRow(record, record.back_to_back) for record in searches if record.back_to_back is not None],
        "Packets per source. Buffer: corrected by what is forwarded meanwhile (RFC 9004).",
    )


def _format_buffer(row: BurstRow) -> str:
    return UNKNOWN if row.found.buffer_s is None else format_number(row.found.buffer_s * 1e3, 3)


# -- latency -----------------------------------------------------------------------------------------------------------
# Delay at the throughput that was found, one-way only where the clocks are shown to agree.


class LatencyRow(NamedTuple):
    """A search and its delay."""

    record: SearchRecord
    found: LatencyRecord


def build_latency_table(material: Material) -> Table:
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


UNITS = (
    ReportUnit(name="frame-loss-rate", place=110, make=build_frame_loss_table),
    ReportUnit(name="back-to-back", place=120, make=build_back_to_back_table),
    ReportUnit(name="latency", place=130, make=build_latency_table),
)
