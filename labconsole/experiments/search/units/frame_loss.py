"""RFC 2544's frame loss rate over the load; also the data of its figure."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.search.report_data import FACTORS, HEADINGS, factors, format_factors, select_searches
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material


def make(material: Material) -> Table:
    """Build the table of the frame loss rate over the load."""
    records = select_searches(material.searches)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        for point in record.frame_loss or ():
            rows.append(
                (
                    *factors(record),
                    point.share_ratio,
                    point.intended_pps,
                    point.offered_pps,
                    point.loss_ratio,
                    point.run_id,
                )
            )
            loss = UNKNOWN if point.loss_ratio is None else format_number(100 * point.loss_ratio, 3)
            shown.append(
                (
                    *format_factors(record),
                    format_number(100 * point.share_ratio, 0),
                    format_number(point.intended_pps, 0),
                    format_number(point.offered_pps, 0),
                    loss,
                )
            )
    return Table(
        name="frame-loss-rate",
        title="Frame loss rate (RFC 2544, section 26.3)",
        columns=(*FACTORS, "share_ratio", "intended_per_source_pps", "offered_pps", "loss_ratio", "run_id"),
        rows=tuple(rows),
        headings=(*HEADINGS, "of line rate (%)", "intended per source (pps)", "offered in all (pps)", "loss (%)"),
        shown=tuple(shown),
        note="From the line rate downwards until two trials running lose nothing. Loss is of what was offered.",
    )


UNITS = (ReportUnit(name="frame-loss-rate", place=110, make=make),)
