"""Derives a record's times of every packet from the sink kernel's counts, and reads them back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from labconsole.measure.time_histogram import TimeHistogram
from labconsole.measure.timing import one_way_doubt
from labconsole.model.record.extensions import (
    PACKET_TIMES,
    DelayTimes,
    PacketTimes,
    PacketTimesRefused,
    Times,
    read_extension,
)
from labconsole.model.record.run import StreamRecord
from labconsole.units import format_count
from labconsole.wire.packet_times import GENERIC_XDP, LINK_S, NATIVE_XDP, SOCKET_FILTER, StreamTimes

CLOCK_SET_NS = 1000
"""A wall clock that moved by this much against the monotonic one was set, which makes delays unusable."""

STAMPED = {GENERIC_XDP: "0.5 µs later than", NATIVE_XDP: "0.2 µs earlier than"}
STAMPED_ON = "veth and virtio"
"""The difference of its arrivals from tcpdump's for the same packets, and the NICs on which that was measured."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
"""The reported quantiles, by their display name; a field's name omits the dot."""


TIMES_OF_RUNS = ("delay", "spacing")
"""The times that tables with one row per run contain."""


def build_packet_times(
    counted: StreamTimes, *, clock_moved_ns: int, source_moved_ns: int, clocks_ns: int | None, stamp_lead_ns: int
) -> PacketTimes:
    """Derive a record's times of packets.

    ``clocks_ns``: the bound between sender's and sink's clock, 0 for one clock or None if unknown. It excludes the
    amounts by which either was set meanwhile, ``source_moved_ns`` and ``clock_moved_ns``. ``stamp_lead_ns``: how long
    before its sending a packet may have been stamped.
    """
    apart_ns = clocks_ns + abs(source_moved_ns) if clocks_ns else clocks_ns
    delays = TimeHistogram.of(counted.delay)
    bound_ns: int | None = None
    reason: str | None = "no packet came"
    if counted.packets:
        median_ns = min(delays.quantile_ns(0.5), counted.delay_max_ns or 0) if counted.delay else 0
        bound_ns, reason = one_way_doubt(apart_ns, stamp_lead_ns, median_ns)
    if abs(clock_moved_ns) > CLOCK_SET_NS:
        reason = f"the sink's clock was set by {clock_moved_ns} ns meanwhile"
    elif counted.negative_packets:
        reason = f"by the two clocks {counted.negative_packets} packets arrived before they were sent"
    first_ns, last_ns = counted.first_ns, counted.last_ns
    least_ns, most_ns, sum_ns = counted.delay_min_ns, counted.delay_max_ns, counted.delay_sum_ns
    times = due = None
    if reason is None and (least_ns is None or most_ns is None or sum_ns is None):
        reason = "the sum of the delays exceeds the range of the node's counter"
    elif reason is None and least_ns is not None and most_ns is not None and sum_ns is not None:
        exact = {"min": least_ns, "mean": sum_ns / counted.packets, "max": most_ns}
        times = DelayTimes(**{**build_times(delays, most_ns).model_dump(), **exact})
        due = build_times(TimeHistogram.of(counted.due), counted.due_max_ns) if counted.due else None
    known = counted.packets > 1 and first_ns is not None and last_ns is not None
    return PacketTimes(
        packets=counted.packets,
        bytes=counted.bytes,
        window_s=((last_ns or 0) - (first_ns or 0)) / 1e9 if known else None,
        processors=counted.processors,
        overlapping_packets=counted.overlapping_packets,
        late_packets=counted.late_packets,
        skipped_packets=counted.skipped_packets,
        negative_packets=counted.negative_packets,
        clock_moved_ns=clock_moved_ns,
        clock_bound_ns=bound_ns,
        reason=reason,
        delay_ns=times,
        due_ns=due,
        spacing_ns=build_times(TimeHistogram.of(counted.spacing)) if counted.spacing else None,
        variation_ns=build_times(TimeHistogram.of(counted.variation)) if counted.variation else None,
    )


def build_times(histogram: TimeHistogram, longest_ns: int | None = None) -> Times:
    """The summary of a histogram.

    ``longest_ns``: the longest time if known exactly. Raises ValueError without packets.
    """
    most_ns = histogram.quantile_ns(1) if longest_ns is None else longest_ns
    found = find_supported_quantiles(histogram, most_ns)
    return Times(
        packets=histogram.total,
        p50=min(histogram.quantile_ns(0.5), most_ns),
        p90=found["p90"],
        p99=found["p99"],
        p999=found["p99.9"],
        p9999=found["p99.99"],
        max=most_ns,
        histogram=histogram.encoded(),
    )


def find_supported_quantiles(histogram: TimeHistogram, longest_ns: int) -> dict[str, int | None]:
    """QUANTILES, limited to the longest time; None for each one that would need more packets."""
    supported = {name: histogram.supported_quantile_ns(ratio) for name, ratio in QUANTILES.items()}
    return {name: None if ns is None else min(ns, longest_ns) for name, ns in supported.items()}


def quantiles_of(times: Times) -> dict[str, int | None]:
    """The quantiles in a record, and the longest."""
    return {**{name: getattr(times, name.replace(".", "")) for name in QUANTILES}, "max": times.max}


def times_of_run(streams: Sequence[StreamRecord]) -> dict[str, int] | None:
    """Packets, quantiles and longest of delay and spacing over all packets of these streams, by ``delay_p50_ns`` etc.

    Unknown values are omitted. None if a stream was not timed.
    """
    timed = [packet_times(stream) for stream in streams]
    known = [each for each in timed if each is not None]
    if not known or len(known) < len(timed):
        return None
    found = {"timed_packets": sum(each.packets for each in known)}
    for name in TIMES_OF_RUNS:
        parts: list[Times] = [part for each in known if (part := getattr(each, f"{name}_ns")) is not None]
        histograms = [histogram for part in parts if (histogram := decode_histogram(part)) is not None]
        if len(histograms) < len(known):
            continue
        longest_ns = max(part.max for part in parts)
        quantiles_ns = find_supported_quantiles(reduce(TimeHistogram.added, histograms), longest_ns)
        found |= {column_of(name, quantile): ns for quantile, ns in quantiles_ns.items() if ns is not None}
        found[column_of(name, "max")] = longest_ns
    return found


def column_of(name: str, quantile: str) -> str:
    """The name of the column in a table with one row per run."""
    return f"{name}_{quantile.replace('.', '')}_ns"


def times_by_word(times: PacketTimes) -> dict[str, Times | None]:
    """The times of a stream's packets by display name. Since due is omitted if the due times are unknown."""
    due = {} if times.due_ns is None else {"since due": times.due_ns}
    return {"delay": times.delay_ns, **due, "spacing": times.spacing_ns, "variation": times.variation_ns}


def format_timed_by(times: PacketTimes) -> str:
    """Where in the kernel they were timed, or "" for the usual place."""
    return "" if times.by == SOCKET_FILTER else f" by {times.by}"


def describe_xdp(times: PacketTimes) -> str | None:
    """The consequences of timing by XDP, for arrivals and for the port, or None if it was not by XDP."""
    if times.by == SOCKET_FILTER:
        return None
    parts = [f"arrivals are about {STAMPED[times.by]} tcpdump's time stamps, as measured on {STAMPED_ON}"]
    port = times.port
    if port is None:
        return f"{parts[0]}; what it changed at the port is not known"
    if port.features:
        parts.append(f"the port had {', '.join(port.features)} meanwhile")
        left = ", ".join(port.left_features)
        parts.append(f"it still has {left}, which could not be restored" if left else "it was restored")
    if port.link_changes is None:
        parts.append("whether its link went down is not known")
    elif port.link_changes:
        parts.append(f"its link went down or came up {port.link_changes} times by it")
    elif not port.features:
        parts.append("nothing changed at the port")
    if port.link_is_back is False:
        parts.append(f"{LINK_S:g} s after the program had gone its link was not up again")
    return "; ".join(parts)


def describe_sequence(times: PacketTimes) -> str:
    """Description of the sequence numbers."""
    text = f"{format_count(times.skipped_packets)} numbers skipped, {format_count(times.late_packets)} late"
    return text if times.processors < 2 else f"{text} (estimated: {times.processors} processors took them)"


def decode_histogram(times: Times) -> TimeHistogram | None:
    """The decoded histogram, or None if a record from elsewhere contains an invalid one."""
    try:
        return TimeHistogram.decoded(times.histogram)
    except ValueError:
        return None


def packet_times(stream: StreamRecord) -> PacketTimes | None:
    """The record's times of every packet of a stream, or None if there are none that this version understands."""
    return read_extension(stream.extensions, PACKET_TIMES, PacketTimes)


def third_count(stream: StreamRecord) -> int | None:
    """The sink kernel's packet count of a stream, with or without times, or None if it did not count."""
    times = packet_times(stream)
    if times is not None:
        return times.packets
    refused = read_extension(stream.extensions, PACKET_TIMES, PacketTimesRefused)
    return None if refused is None else refused.counted_packets


def timed_all(stream: StreamRecord) -> bool:
    """Whether the sink's kernel counted each packet that its NIC counted, and as far as known none of them twice.

    If so, nothing depends on packets that a capture missed. If several processors received them, the number of late
    ones is an estimate; if they were not timed, there is none.
    """
    times, packets = packet_times(stream), third_count(stream)
    return (
        packets is not None
        and (times is None or times.processors > 1 or times.late_packets == 0)
        and stream.measured_from == "counters"
        and packets == stream.measured_packets == stream.counters.get("sink_rx_packets")
    )


def numbers_doubt(stream: StreamRecord) -> str:
    """A qualification of the statement that all packets were timed, if numbers do not exclude duplicates, or ""."""
    times = packet_times(stream)
    if times is None:
        return " (it timed none: it is not known whether any arrived twice)"
    if times.processors < 2:
        return ""
    late = f"how many came late or twice, {times.late_packets}, is an estimate"
    return f" (on {times.processors} processors, so that {late})"


def refusal(stream: StreamRecord) -> str | None:
    """Why packets that were to be timed were not, or None if they were, or were not to be."""
    refusal_record = read_extension(stream.extensions, PACKET_TIMES, PacketTimesRefused)
    if refusal_record is None:
        return None
    also = (
        ""
        if refusal_record.counted_packets is None
        else f"; {format_count(refusal_record.counted_packets)} were counted there"
    )
    return " ".join(refusal_record.refused.message.split()) + also
