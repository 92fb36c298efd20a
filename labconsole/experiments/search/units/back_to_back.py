"""RFC 2544's longest bursts, with RFC 9004's corrected buffer time where there is one."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.search.report_data import LIMITS, factor_columns, select_searches
from labconsole.model.record.search import BackToBackRecord, SearchRecord
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column, percent_column


class BurstRow(NamedTuple):
    """A search and its bursts."""

    record: SearchRecord
    found: BackToBackRecord

    @property
    def limits(self) -> list[str]:
        """What limited the bursts, each once."""
        return list(dict.fromkeys(burst.limited_by for burst in self.found.bursts))


def make(material: Material) -> Table:
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


UNITS = (ReportUnit(name="back-to-back", place=120, make=make),)
