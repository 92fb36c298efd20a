"""RFC 2544's longest bursts, with RFC 9004's corrected buffer time where there is one."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.search.shown import FACTORS, HEADINGS, LIMITS, chosen, factors, factors_shown
from labconsole.report.material import Material
from labconsole.report.words import UNKNOWN, number


def make(material: Material) -> Table:
    """RFC 2544's longest bursts, with RFC 9004's corrected buffer time where there is one."""
    records = chosen(material.searches)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        found = record.back_to_back
        if found is None:
            continue
        limits = list(dict.fromkeys(burst.limited_by for burst in found.bursts))
        rows.append(
            (
                *factors(record), len(found.bursts), found.mean_packets, found.least_packets, found.most_packets,
                found.sd_packets, found.reached_ratio, found.buffer_s, " ".join(limits), record.search_id,
            )
        )  # fmt: skip
        reached = UNKNOWN if found.reached_ratio is None else number(100 * found.reached_ratio)
        buffered = UNKNOWN if found.buffer_s is None else number(found.buffer_s * 1e3, 3)
        shown.append(
            (
                *factors_shown(record), str(len(found.bursts)), number(found.mean_packets),
                number(found.least_packets, 0), number(found.most_packets, 0), number(found.sd_packets), reached,
                buffered, ", ".join(LIMITS[limit] for limit in limits),
            )
        )  # fmt: skip
    return Table(
        name="back-to-back",
        title="Back-to-back frames (RFC 2544, section 26.4)",
        columns=(
            *FACTORS, "repetitions", "mean_packets", "least_packets", "most_packets", "sd_packets", "reached_ratio",
            "buffer_s", "limited_by", "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS, "n", "mean (packets)", "least", "most", "sd", "sent at (% of line rate)", "buffer (ms)",
            "limited by",
        ),
        shown=tuple(shown),
        note="Packets per source. Buffer: corrected by what is forwarded meanwhile (RFC 9004).",
    )  # fmt: skip


UNITS = (ReportUnit(name="back-to-back", place=120, make=make),)
