"""What a sink's kernel would have told of a stream's packets, made up from how many took how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labconsole.measure.packet_times import build_packet_times
from labconsole.measure.time_histogram import bucket_of
from labconsole.wire.packet_times import StreamTimes


def histogram(packets: Mapping[int, int]) -> list[list[int]]:
    """From the time in ns to how many took it."""
    counts: dict[int, int] = {}
    for value_ns, count in packets.items():
        counts[bucket_of(value_ns)] = counts.get(bucket_of(value_ns), 0) + count
    return [[bucket, counts[bucket]] for bucket in sorted(counts) if counts[bucket]]


def stream_times(
    delays: Mapping[int, int], gap_ns: int = 70_400, *, due: Mapping[int, int] | None = None, **changes: Any
) -> StreamTimes:
    """Packets that came evenly; ``delays``: from the delay in ns to how many had it, ``due``: the same since due."""
    packets = sum(delays.values())
    values: dict[str, Any] = {
        "packets": packets,
        "bytes": 60 * packets,
        "first_ns": 10**9,
        "last_ns": 10**9 + gap_ns * (packets - 1),
        "processors": 1,
        "overlapping_packets": 0,
        "late_packets": 0,
        "skipped_packets": 0,
        "negative_packets": 0,
        "delay_sum_ns": sum(value_ns * count for value_ns, count in delays.items()),
        "delay_min_ns": min(delays),
        "delay_max_ns": max(delays),
        "delay": histogram(delays),
        "due_max_ns": max(due) if due else None,
        "due": histogram(due or {}),
        "spacing": histogram({gap_ns: packets - 1}),
        "variation": histogram({100: packets - 1}),
    }
    return StreamTimes(**{**values, **changes})


def told_times(delays: Mapping[int, int], clocks_ns: int | None = 0, **changes: Any) -> dict[str, Any]:
    """The extension of a stream's record. ``clocks_ns``: how far the clocks may be apart, None: not known."""
    times = build_packet_times(
        stream_times(delays, **changes), clock_moved_ns=0, source_moved_ns=0, clocks_ns=clocks_ns, stamp_lead_ns=0
    )
    return times.model_dump(mode="json")
