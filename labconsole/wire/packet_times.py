"""Arrival times of each stream's packets at the sink, counted in its kernel: histograms of every packet, not of a
sample.

A histogram is a list of (bucket, packets). Buckets are those of HdrHistogram for values from 1 to 2^36 - 1 ns and two
significant digits: the upper eight bits of a value, and how often it was halved to get them. So the width of a bucket
is at most 1/128 of its values, and one nanosecond below 256.
"""

from __future__ import annotations

from typing import Annotated, Any, List, Optional

from labconsole.wire.foreign import MAX_STREAMS, MAX_TAPS
from labconsole.wire.message import Message, Request
from labconsole.wire.rules import S64, Count, Most, Name, Port, Rule, Word, bad, rising_pairs, whole

BUCKET_BITS = 7
"""Binary logarithm of the number of buckets per power of two."""

HIGHEST_BITS = 36
"""Values from 2^36 ns on, 68 s, count in the last bucket."""

BUCKETS = (HIGHEST_BITS - BUCKET_BITS + 1) << BUCKET_BITS

MAX_FEATURES = 1000
"""Most features of a port and the ports below it."""

LINK_S = 7.0
"""How long the links of a node's ports may take in total to come back when native programs are attached or detached."""

Buckets = Annotated[List[Any], Rule(rising_pairs(BUCKETS))]
Nanoseconds = Annotated[int, Rule(whole(-S64, S64 - 1))]


class StreamToTime(Message):
    """The fields that identify a stream's frames. ``interval_ns``: the intended time between frames; 0: as fast as
    possible, so no frame is due at a given time.
    """

    source_ip: Word
    sink_ip: Word
    udp_sink_port: Port
    interval_ns: Count


SOCKET_FILTER, GENERIC_XDP, NATIVE_XDP = PLACES = ("socket filter", "generic XDP", "native XDP")
"""Where in the kernel a packet is counted: next to a capture's own socket, before that, and in the NIC's driver."""


def _place(value: Any, where: str) -> str:
    if value not in PLACES:
        raise bad(where, "is not one of %s" % ", ".join(PLACES))
    return str(value)


class TimedPort(Message):
    """An interface of the node, and the streams to time there."""

    interface: Word
    streams: Annotated[List[StreamToTime], Most(MAX_STREAMS)]


class PacketTimesStarted(Message):
    """``instructions``: of the longest program. ``memory_bytes``: memory that all of it takes on the node."""

    instructions: Count
    memory_bytes: Optional[Count] = None


class StartPacketTimes(Request[PacketTimesStarted], op="packet_times.start"):
    """Start to count and time in the kernel every packet of these streams that comes in by these interfaces. No packet
    is kept. Refused with not_supported, no_permission or locked_down. ``by``: as a socket filter, which changes nothing
    at a port, or as an XDP program, generic or native, which changes features of the port and resets its link (undone
    at the stop). Error busy: the port has another XDP program. Error no_carrier: a native program is not tried at a
    port without a link.
    """

    ports: Annotated[List[TimedPort], Most(MAX_TAPS)]
    by: Annotated[str, Rule(_place)] = SOCKET_FILTER


class StreamTimes(Message):
    """One stream. Times of arrival are of the node's CLOCK_MONOTONIC.

    ``bytes``: without the frame check sequence. ``processors``: how many of them handled its packets; with more than
    one, ``late_packets`` and ``skipped_packets`` are estimates. ``overlapping_packets``: one processor handled them
    while another handled the previous packet, so the time between is not known. ``skipped_packets``: missing sequence
    numbers up to the highest that arrived. ``late_packets``: arrived after a higher number, or twice.
    ``negative_packets``: arrived before they were sent, by the two clocks, and are in no histogram of delay.
    ``delay_…``: from the sender's time stamp by its CLOCK_REALTIME to the arrival by this node's. Times are None
    without packets; a sum is also None if it exceeds 64 bits. ``delay``, ``spacing`` (between neighbours) and
    ``variation`` (absolute difference of neighbours' delays): histograms in ns.

    ``due``: for the packets in ``delay``, from when a packet was due to its arrival. The first was due when it was
    sent; one sent earlier than due, as far as known by then, was due when it was sent. Empty without an interval.
    """

    packets: Count
    bytes: Count
    first_ns: Optional[Count]
    last_ns: Optional[Count]
    processors: Count
    overlapping_packets: Count
    late_packets: Count
    skipped_packets: Count
    negative_packets: Count
    delay_sum_ns: Optional[Nanoseconds]
    delay_min_ns: Optional[Nanoseconds]
    delay_max_ns: Optional[Nanoseconds]
    due_max_ns: Optional[Count]
    delay: Buckets
    due: Buckets
    spacing: Buckets
    variation: Buckets

    def check_fields(self) -> None:
        """Refuse counts that contradict each other."""
        names = ("delay", "due", "spacing", "variation")
        sums = {name: sum(count for _, count in getattr(self, name)) for name in names}
        if sums["delay"] + self.negative_packets != self.packets:
            raise bad("delay", "holds %d delays of %d packets" % (sums["delay"], self.packets))
        if sums["due"] not in (0, sums["delay"]) or (self.due_max_ns is None) != (sums["due"] == 0):
            raise bad("due", "holds %(due)d packets, and delay %(delay)d" % sums)
        most = max(0, self.packets - 1 - self.overlapping_packets)
        if sums["spacing"] > most or sums["variation"] != sums["spacing"]:
            raise bad("spacing", "holds %(spacing)d, and variation %(variation)d" % sums)
        ends = [(self.first_ns, self.last_ns), (self.delay_min_ns, self.delay_max_ns)]
        for low, high in ends:
            if (low is None) != (self.packets == 0) or (high is None) != (low is None):
                raise bad("first_ns", "or a delay is given without packets, or not given with them")
            if low is not None and high is not None and low > high:
                raise bad("last_ns", "or delay_max_ns is before the first")
        if self.delay_sum_ns is not None and not self.packets:
            raise bad("delay_sum_ns", "is given without packets")


class XdpChanges(Message):
    """Changes that an XDP program made at a port. ``features``: those that differed while it was attached, by name and
    earlier state ("rx-gro-hw off"), prefixed with the interface's name if it is one below the port. ``left_features``:
    those of them that could not be restored. ``link_changes``: how often the port's link went down or came up, or None
    if not known. ``link_is_back``: whether the link was up again in time after a native program was detached, or None
    if not known or not awaited.
    """

    features: Annotated[List[Name], Most(MAX_FEATURES)]
    left_features: Annotated[List[Name], Most(MAX_FEATURES)]
    link_changes: Optional[Count]
    link_is_back: Optional[bool] = None


class PortTimes(Message):
    """``streams`` in the order of the request. ``xdp``: the changes by an XDP program, if one was used."""

    interface: Name
    streams: Annotated[List[StreamTimes], Most(MAX_STREAMS)]
    xdp: Optional[XdpChanges] = None


class TimedPackets(Message):
    """``clock_moved_ns``: how far CLOCK_REALTIME was set against CLOCK_MONOTONIC meanwhile."""

    ports: Annotated[List[PortTimes], Most(MAX_TAPS)]
    clock_moved_ns: Nanoseconds


class PacketCountStarted(Message):
    """Counting has begun."""


class StartPacketCount(Request[PacketCountStarted], op="packet_count.start"):
    """Start to count every packet of these streams that comes in by these interfaces, and record nothing else: for a
    node whose kernel cannot time them. Needs only the right to open a raw socket.
    """

    ports: Annotated[List[TimedPort], Most(MAX_TAPS)]


class PortCount(Message):
    """``packets`` of each stream, in the order of the request."""

    interface: Name
    packets: Annotated[List[Count], Most(MAX_STREAMS)]


class CountedPackets(Message):
    """Counts port by port."""

    ports: Annotated[List[PortCount], Most(MAX_TAPS)]


class StopPacketCount(Request[CountedPackets], op="packet_count.stop"):
    """Stop counting and return the counts."""


class DelaysSoFar(Message):
    """Delays of one stream that is still being counted: its packets are not all read at one instant."""

    negative_packets: Count
    delay: Buckets


class PortDelays(Message):
    """``streams`` in the order of the request."""

    interface: Name
    streams: Annotated[List[DelaysSoFar], Most(MAX_STREAMS)]


class DelaysRead(Message):
    """``clock_moved_ns``: how far CLOCK_REALTIME was set against CLOCK_MONOTONIC so far."""

    ports: Annotated[List[PortDelays], Most(MAX_TAPS)]
    clock_moved_ns: Nanoseconds


class ReadPacketTimes(Request[DelaysRead], op="packet_times.read"):
    """Request the delays counted so far; counting goes on."""


class StopPacketTimes(Request[TimedPackets], op="packet_times.stop"):
    """Stop counting and return the counts."""
