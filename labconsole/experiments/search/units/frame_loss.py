"""RFC 2544's frame loss rate over the load; also the data of its figure."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.search.report_data import factor_columns, select_searches
from labconsole.model.record.search import FrameLossPoint, SearchRecord
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, csv_column, number_column, percent_column


class LossRow(NamedTuple):
    """A search and one load of its curve."""

    record: SearchRecord
    point: FrameLossPoint


def make(material: Material) -> Table:
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


UNITS = (ReportUnit(name="frame-loss-rate", place=110, make=make),)
