"""From what a sink's kernel counted of every packet to what a record tells of it, and back. Pure."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from labconsole.measure.time_histogram import TimeHistogram
from labconsole.measure.timing import one_way_doubt
from labconsole.model.record.packet_times import (
    EXTENSION,
    DelayTimes,
    PacketTimes,
    PacketTimesRefused,
    Times,
)
from labconsole.model.record.run import StreamRecord
from labconsole.wire.packet_times import StreamTimes

CLOCK_SET_NS = 1000
"""A wall clock that moved so far against the monotonic one was set, and delays are by none."""

Told = TypeVar("Told", PacketTimes, PacketTimesRefused)


def build_packet_times(
    counted: StreamTimes, *, clock_moved_ns: int, clocks_ns: int | None, stamp_lead_ns: int
) -> PacketTimes:
    """``clocks_ns``: how far sender's and sink's clock may be apart (0: one clock; None: not known). ``stamp_lead_ns``:
    how long before it is sent a packet may have been stamped.
    """
    delays = TimeHistogram.of(counted.delay)
    bound_ns: int | None = None
    reason: str | None = "no packet came"
    if counted.packets:
        median_ns = delays.quantile_ns(0.5) if delays.packets else 0
        bound_ns, reason = one_way_doubt(clocks_ns, stamp_lead_ns, median_ns)
    if abs(clock_moved_ns) > CLOCK_SET_NS:
        reason = f"the sink's clock was set by {clock_moved_ns} ns meanwhile"
    elif counted.negative_packets:
        reason = f"by the two clocks {counted.negative_packets} packets came before they were sent"
    times = None
    if reason is None:
        exact = {
            "min": counted.delay_min_ns,
            "mean": counted.delay_sum_ns / counted.packets,
            "max": counted.delay_max_ns,
        }
        times = DelayTimes(**{**times_of(delays, counted.delay_max_ns).model_dump(), **exact})
    return PacketTimes(
        packets=counted.packets,
        bytes=counted.bytes,
        window_s=(counted.last_ns - counted.first_ns) / 1e9 if counted.packets > 1 else None,
        processors=counted.processors,
        late_packets=counted.late_packets,
        skipped_packets=counted.skipped_packets,
        negative_packets=counted.negative_packets,
        clock_moved_ns=clock_moved_ns,
        clock_bound_ns=bound_ns,
        reason=reason,
        delay_ns=times,
        spacing_ns=times_of(TimeHistogram.of(counted.spacing)) if counted.spacing else None,
        variation_ns=times_of(TimeHistogram.of(counted.variation)) if counted.variation else None,
    )


def times_of(histogram: TimeHistogram, longest_ns: int | None = None) -> Times:
    """What is told of a histogram. ``longest_ns``: where it is known exactly. Raises ValueError without packets."""
    total = histogram.total
    most = histogram.quantile_ns(1.0) if longest_ns is None else longest_ns

    def quantile(ratio: float) -> int | None:
        return min(histogram.quantile_ns(ratio), most) if total * (1 - ratio) >= 1 - 1e-9 else None

    return Times(
        packets=total,
        p50=min(histogram.quantile_ns(0.5), most),
        p90=quantile(0.9),
        p99=quantile(0.99),
        p999=quantile(0.999),
        p9999=quantile(0.9999),
        max=most,
        histogram=histogram.encoded(),
    )


def quantiles_of(times: Times) -> dict[str, int | None]:
    """As people write them, in ns."""
    return {
        "p50": times.p50,
        "p90": times.p90,
        "p99": times.p99,
        "p99.9": times.p999,
        "p99.99": times.p9999,
        "max": times.max,
    }


def histogram_of(times: Times) -> TimeHistogram | None:
    """None: what a record from elsewhere calls one is none."""
    try:
        return TimeHistogram.decoded(times.histogram)
    except ValueError:
        return None


def packet_times(stream: StreamRecord) -> PacketTimes | None:
    """What the record tells of every packet of a stream; None: nothing that this version understands."""
    return _read(stream, PacketTimes)


def timed_all(stream: StreamRecord) -> bool:
    """Whether the sink's kernel timed each packet that its NIC counted: nothing then rests on what a capture missed."""
    told = packet_times(stream)
    return (
        told is not None
        and stream.measured_from == "counters"
        and told.packets == stream.measured_packets == stream.counters.get("sink_rx_packets")
    )


def refusal(stream: StreamRecord) -> str | None:
    """Why packets were not timed though they were to be; None: they were, or were not to be."""
    told = _read(stream, PacketTimesRefused)
    return None if told is None else " ".join(told.refused.message.split())


def _read(stream: StreamRecord, kind: type[Told]) -> Told | None:
    told = stream.extensions.get(EXTENSION)
    try:
        return None if told is None else kind.model_validate(told)
    except ValidationError:  # of another version, or broken: verify tells it
        return None
