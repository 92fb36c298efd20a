"""From what a sink's kernel counted of every packet to what a record tells of it, and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from labconsole.measure.time_histogram import TimeHistogram
from labconsole.measure.timing import one_way_doubt
from labconsole.model.record.extension import read_extension
from labconsole.model.record.packet_times import (
    EXTENSION,
    DelayTimes,
    PacketTimes,
    PacketTimesRefused,
    Times,
)
from labconsole.model.record.run import StreamRecord
from labconsole.units import format_count
from labconsole.wire.packet_times import GENERIC_XDP, LINK_S, NATIVE_XDP, SOCKET_FILTER, StreamTimes

CLOCK_SET_NS = 1000
"""A wall clock that moved so far against the monotonic one was set, and delays are by none."""

STAMPED = {GENERIC_XDP: "0.5 µs later than", NATIVE_XDP: "0.2 µs earlier than"}
STAMPED_ON = "veth and virtio"
"""How its arrivals differ from those that tcpdump tells of the same packets, and on which NICs that was measured."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
"""Those that are told, as people write them; a field's name leaves out the dot."""


TIMES_OF_RUNS = ("delay", "spacing")
"""Those that tables with a row per run have."""


def build_packet_times(
    counted: StreamTimes, *, clock_moved_ns: int, source_moved_ns: int, clocks_ns: int | None, stamp_lead_ns: int
) -> PacketTimes:
    """``clocks_ns``: how far sender's and sink's clock may be apart (0: one clock; None: not known), besides by how
    much either was set meanwhile, ``source_moved_ns`` and ``clock_moved_ns``. ``stamp_lead_ns``: how long before it is
    sent a packet may have been stamped.
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
        reason = f"by the two clocks {counted.negative_packets} packets came before they were sent"
    first_ns, last_ns = counted.first_ns, counted.last_ns
    least_ns, most_ns, sum_ns = counted.delay_min_ns, counted.delay_max_ns, counted.delay_sum_ns
    times = due = None
    if reason is None and (least_ns is None or most_ns is None or sum_ns is None):
        reason = "the sum of the delays is longer than the node can count"
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
    """What is told of a histogram. ``longest_ns``: where it is known exactly. Raises ValueError without packets."""
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
    """Those of QUANTILES, none longer than the longest; None where it would take more packets."""
    told = {name: histogram.supported_quantile_ns(ratio) for name, ratio in QUANTILES.items()}
    return {name: None if ns is None else min(ns, longest_ns) for name, ns in told.items()}


def quantiles_of(times: Times) -> dict[str, int | None]:
    """What a record tells of them, and the longest."""
    return {**{name: getattr(times, name.replace(".", "")) for name in QUANTILES}, "max": times.max}


def times_of_run(streams: Sequence[StreamRecord]) -> dict[str, int] | None:
    """Packets, quantiles and longest of delay and of spacing over all packets of these streams, by ``delay_p50_ns`` and
    so on; what is not known of each of them is left out. None: they were not timed.
    """
    told = [packet_times(stream) for stream in streams]
    known = [each for each in told if each is not None]
    if not known or len(known) < len(told):
        return None
    found = {"timed_packets": sum(each.packets for each in known)}
    for name in TIMES_OF_RUNS:
        parts: list[Times] = [part for each in known if (part := getattr(each, f"{name}_ns")) is not None]
        histograms = [histogram for part in parts if (histogram := decode_histogram(part)) is not None]
        if len(histograms) < len(known):
            continue
        longest_ns = max(part.max for part in parts)
        told_ns = find_supported_quantiles(reduce(TimeHistogram.added, histograms), longest_ns)
        found |= {column_of(name, quantile): ns for quantile, ns in told_ns.items() if ns is not None}
        found[column_of(name, "max")] = longest_ns
    return found


def column_of(name: str, quantile: str) -> str:
    """Of a table with a row per run."""
    return f"{name}_{quantile.replace('.', '')}_ns"


def times_by_word(times: PacketTimes) -> dict[str, Times | None]:
    """What is told of a stream's packets, by the word for it. Since due: left out where nobody knows when they were."""
    due = {} if times.due_ns is None else {"since due": times.due_ns}
    return {"delay": times.delay_ns, **due, "spacing": times.spacing_ns, "variation": times.variation_ns}


def format_timed_by(times: PacketTimes) -> str:
    """Where in the kernel they were timed, if not as usual."""
    return "" if times.by == SOCKET_FILTER else f" by {times.by}"


def describe_xdp(times: PacketTimes) -> str | None:
    """What timing by XDP makes different: arrivals, and the port; None: it was not by XDP."""
    if times.by == SOCKET_FILTER:
        return None
    words = [f"arrivals are about {STAMPED[times.by]} tcpdump's time stamps, as measured on {STAMPED_ON}"]
    port = times.port
    if port is None:
        return f"{words[0]}; what it changed at the port is not known"
    if port.features:
        words.append(f"the port had {', '.join(port.features)} meanwhile")
        left = ", ".join(port.left_features)
        words.append(f"it still has {left}, which could not be put back" if left else "it was put back")
    if port.link_changes is None:
        words.append("whether its link went down is not known")
    elif port.link_changes:
        words.append(f"its link went down or came up {port.link_changes} times by it")
    elif not port.features:
        words.append("nothing changed at the port")
    if port.link_is_back is False:
        words.append(f"{LINK_S:g} s after the program had gone its link was not up again")
    return "; ".join(words)


def describe_sequence(times: PacketTimes) -> str:
    """What the sequence numbers say."""
    words = f"{format_count(times.skipped_packets)} numbers passed over, {format_count(times.late_packets)} late"
    return words if times.processors < 2 else f"{words} (estimated: {times.processors} processors took them)"


def decode_histogram(times: Times) -> TimeHistogram | None:
    """None: what a record from elsewhere calls one is none."""
    try:
        return TimeHistogram.decoded(times.histogram)
    except ValueError:
        return None


def packet_times(stream: StreamRecord) -> PacketTimes | None:
    """What the record tells of every packet of a stream; None: nothing that this version understands."""
    return read_extension(stream.extensions, EXTENSION, PacketTimes)


def third_count(stream: StreamRecord) -> int | None:
    """What the sink's kernel counted of a stream, whether it timed it or not; None: it did not."""
    told = packet_times(stream)
    if told is not None:
        return told.packets
    refused = read_extension(stream.extensions, EXTENSION, PacketTimesRefused)
    return None if refused is None else refused.counted_packets


def timed_all(stream: StreamRecord) -> bool:
    """Whether the sink's kernel counted each packet that its NIC counted, and none of them twice as far as is known:
    nothing then rests on what a capture missed. Where several processors took them late numbers are an estimate, and
    where they were not timed there are none.
    """
    told, packets = packet_times(stream), third_count(stream)
    return (
        packets is not None
        and (told is None or told.processors > 1 or told.late_packets == 0)
        and stream.measured_from == "counters"
        and packets == stream.measured_packets == stream.counters.get("sink_rx_packets")
    )


def numbers_doubt(stream: StreamRecord) -> str:
    """What is said beside that all packets were timed, where numbers do not show that none came twice."""
    told = packet_times(stream)
    if told is None:
        return " (it timed none: whether any came twice is not known)"
    if told.processors < 2:
        return ""
    return (
        f" (on {told.processors} processors, so that how many came late or twice, {told.late_packets}, is an estimate)"
    )


def refusal(stream: StreamRecord) -> str | None:
    """Why packets were not timed though they were to be; None: they were, or were not to be."""
    told = read_extension(stream.extensions, EXTENSION, PacketTimesRefused)
    if told is None:
        return None
    also = "" if told.counted_packets is None else f"; {format_count(told.counted_packets)} were counted there"
    return " ".join(told.refused.message.split()) + also
