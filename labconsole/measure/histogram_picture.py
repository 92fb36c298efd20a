"""A text picture of the times of every packet: a histogram on a logarithmic axis. Pure."""

from __future__ import annotations

from bisect import bisect_right

from labconsole.measure.ledger_picture import MIN_BAR, Row, bar, cut
from labconsole.measure.time_histogram import TimeHistogram, lowest_ns
from labconsole.units import format_count

EDGES_NS = [0, *(step * 10**decade for decade in range(12) for step in (1, 2, 5))]
"""0, 1, 2, 5, 10, … ns, beyond the last bucket. A bucket, at most 1/128 of its value wide, counts where it begins."""

_UNITS = ((10**9, "s"), (10**6, "ms"), (1000, "µs"))


def format_span(value_ns: int) -> str:
    """``500 ns``, ``2 µs``."""
    for size, unit in _UNITS:
        if value_ns >= size:
            return f"{value_ns // size} {unit}"
    return f"{value_ns} ns"


def histogram_rows(histogram: TimeHistogram, width: int) -> list[Row]:
    """A bar for every step of 1, 2, 5 between the shortest and the longest, with its packets and their share."""
    counts: dict[int, int] = {}
    for bucket, packets in histogram.packets.items():
        step = max(0, bisect_right(EDGES_NS, lowest_ns(bucket)) - 1)
        counts[step] = counts.get(step, 0) + packets
    if not counts:
        return []
    total, most = histogram.total, max(counts.values())
    figures = max(len(format_count(packets)) for packets in counts.values())
    rows: list[Row] = []
    for step in range(min(counts), max(counts) + 1):
        packets = counts.get(step, 0)
        label = f"{format_span(EDGES_NS[step]):>6} – {format_span(EDGES_NS[step + 1]):<6}"
        figures_text = f"{format_count(packets):>{figures}}  {100 * packets / total:>8.4f} %  "
        row: Row = [(f"{label}  ", "muted"), (figures_text, "")]
        room = width - sum(len(text) for text, _ in row)
        if packets and room >= MIN_BAR:
            row.append((bar(packets / most, room), "good"))
        rows.append(cut(row, width))
    return rows
