"""RFC 2544's longest bursts, with RFC 9004's corrected buffer time where there is one."""

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
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material


def make(material: Material) -> Table:
    """Build the table of the longest bursts."""
    records = select_searches(material.searches)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        found = record.back_to_back
        if found is None:
            continue
        limits = list(dict.fromkeys(burst.limited_by for burst in found.bursts))
        rows.append(
            (
                *factors(record),
                len(found.bursts),
                found.mean_packets,
                found.least_packets,
                found.most_packets,
                found.sd_packets,
                found.reached_ratio,
                found.buffer_s,
                " ".join(limits),
                record.search_id,
            )
        )
        reached = UNKNOWN if found.reached_ratio is None else format_number(100 * found.reached_ratio)
        buffered = UNKNOWN if found.buffer_s is None else format_number(found.buffer_s * 1e3, 3)
        shown.append(
            (
                *format_factors(record),
                str(len(found.bursts)),
                format_number(found.mean_packets),
                format_number(found.least_packets, 0),
                format_number(found.most_packets, 0),
                format_number(found.sd_packets),
                reached,
                buffered,
                ", ".join(LIMITS[limit] for limit in limits),
            )
        )
    return Table(
        name="back-to-back",
        title="Back-to-back frames (RFC 2544, section 26.4)",
        columns=(
            *FACTORS,
            "repetitions",
            "mean_packets",
            "least_packets",
            "most_packets",
            "sd_packets",
            "reached_ratio",
            "buffer_s",
            "limited_by",
            "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS,
            "n",
            "mean (packets)",
            "least",
            "most",
            "sd",
            "sent at (% of line rate)",
            "buffer (ms)",
            "limited by",
        ),
        shown=tuple(shown),
        note="Packets per source. Buffer: corrected by what is forwarded meanwhile (RFC 9004).",
    )


UNITS = (ReportUnit(name="back-to-back", place=120, make=make),)
