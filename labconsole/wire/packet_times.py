"""When each of a stream's packets came to the sink, counted in its kernel: histograms of every packet, not of a sample.

A histogram is a list of (bucket, packets), buckets as HdrHistogram has them for values from 1 to 2^36 - 1 ns and two
significant digits: the upper eight bits of a value, and how often it was halved to get them. So a bucket is at most
1/128 of its values wide, and one nanosecond below 256.
"""

from __future__ import annotations

from typing import Annotated, Any, List, Optional

from labconsole.wire.foreign import MAX_STREAMS, MAX_TAPS
from labconsole.wire.message import Message, Request
from labconsole.wire.rules import S64, Count, Most, Name, Port, Rule, Word, bad, rising_pairs, whole

BUCKET_BITS = 7
"""A power of two has so many buckets, as a power of two."""

HIGHEST_BITS = 36
"""Values from 2^36 ns on, 68 s, count in the last bucket."""

BUCKETS = (HIGHEST_BITS - BUCKET_BITS + 1) << BUCKET_BITS

MAX_FEATURES = 1000
"""Of a port and those below it."""

LINK_S = 7.0
"""How long the links of a node's ports may take, all together, to come back when native programs come or go."""

Buckets = Annotated[List[Any], Rule(rising_pairs(BUCKETS))]
Nanoseconds = Annotated[int, Rule(whole(-S64, S64 - 1))]


class StreamToTime(Message):
    """What identifies a stream's frames. ``interval_ns``: how far apart they are to be sent; 0: as fast as can be, and
    none is due at any time.
    """

    source_ip: Word
    sink_ip: Word
    udp_sink_port: Port
    interval_ns: Count


SOCKET_FILTER, GENERIC_XDP, NATIVE_XDP = PLACES = ("socket filter", "generic XDP", "native XDP")
"""Where in the kernel a packet is counted: beside a capture's own socket, before that, and in the NIC's driver."""


def _place(value: Any, where: str) -> str:
    if value not in PLACES:
        raise bad(where, "is not one of %s" % ", ".join(PLACES))
    return str(value)


class TimedPort(Message):
    """Of this interface of the node, these streams."""

    interface: Word
    streams: Annotated[List[StreamToTime], Most(MAX_STREAMS)]


class PacketTimesStarted(Message):
    """``instructions``: of the longest program. ``memory_bytes``: what all of it takes of the node's memory."""

    instructions: Count
    memory_bytes: Optional[Count] = None


class StartPacketTimes(Request[PacketTimesStarted], op="packet_times.start"):
    """From now on count and time in the kernel every packet of these streams that comes in by these interfaces. Nothing
    of them is kept. Refused with not_supported, no_permission or locked_down. ``by``: as a socket filter, which changes
    nothing at a port, or as an XDP program, generic or native, with which come features of the port and resets of its
    link (undone when it stops); busy: the port has another XDP program; no_carrier: a native one is not tried at a port
    without a link.
    """

    ports: Annotated[List[TimedPort], Most(MAX_TAPS)]
    by: Annotated[str, Rule(_place)] = SOCKET_FILTER


class StreamTimes(Message):
    """One stream. Times of arrival are of the node's CLOCK_MONOTONIC.

    ``bytes``: without the frame check sequence. ``processors``: how many of them took its packets; with more than one,
    ``late_packets`` and ``skipped_packets`` are estimates. ``overlapping_packets``: one processor took them while
    another took the packet before, so that nothing is known of what lies between. ``skipped_packets``: numbers that
    were passed over, up to the highest that came; ``late_packets``: came after a higher one, or twice.
    ``negative_packets``: came before they were sent, by the two clocks, and are in no histogram of delay. ``delay_…``:
    from the sender's time stamp by its CLOCK_REALTIME to the arrival by this node's. Times are None without packets, a
    sum also where it does not fit into 64 bits. ``delay``, ``spacing`` (between neighbours) and ``variation``
    (absolute difference of neighbours' delays): histograms in ns.

    ``due``: of those in ``delay``, from when a packet was due to its arrival: the first was due when it was sent, and
    one that was sent earlier than due, as far as is known by then, at its sending. Empty without an interval.
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
        """Counts that cannot all be true."""
        names = ("delay", "due", "spacing", "variation")
        held = {name: sum(count for _, count in getattr(self, name)) for name in names}
        if held["delay"] + self.negative_packets != self.packets:
            raise bad("delay", "holds %d delays of %d packets" % (held["delay"], self.packets))
        if held["due"] not in (0, held["delay"]) or (self.due_max_ns is None) != (held["due"] == 0):
            raise bad("due", "holds %(due)d packets, and delay %(delay)d" % held)
        most = max(0, self.packets - 1 - self.overlapping_packets)
        if held["spacing"] > most or held["variation"] != held["spacing"]:
            raise bad("spacing", "holds %(spacing)d, and variation %(variation)d" % held)
        ends = [(self.first_ns, self.last_ns), (self.delay_min_ns, self.delay_max_ns)]
        for low, high in ends:
            if (low is None) != (self.packets == 0) or (high is None) != (low is None):
                raise bad("first_ns", "or a delay is given without packets, or not given with them")
            if low is not None and high is not None and low > high:
                raise bad("last_ns", "or delay_max_ns is before the first")
        if self.delay_sum_ns is not None and not self.packets:
            raise bad("delay_sum_ns", "is of no packets")


class XdpChanges(Message):
    """What an XDP program changed at a port. ``features``: those that were other than before while it was there, by
    name and what they were then ("rx-gro-hw off"), after the interface's name where it is one below the port;
    ``left_features``: those of them that could not be put back. ``link_changes``: how often the port's link went down
    or came up; None: not known. ``link_is_back``: whether it was up again in time once a native program had gone; None:
    not known, or nobody waited for it.
    """

    features: Annotated[List[Name], Most(MAX_FEATURES)]
    left_features: Annotated[List[Name], Most(MAX_FEATURES)]
    link_changes: Optional[Count]
    link_is_back: Optional[bool] = None


class PortTimes(Message):
    """``streams`` in the order in which they were asked for. ``xdp``: what was changed, where they were timed so."""

    interface: Name
    streams: Annotated[List[StreamTimes], Most(MAX_STREAMS)]
    xdp: Optional[XdpChanges] = None


class TimedPackets(Message):
    """``clock_moved_ns``: by how much CLOCK_REALTIME was set against CLOCK_MONOTONIC meanwhile."""

    ports: Annotated[List[PortTimes], Most(MAX_TAPS)]
    clock_moved_ns: Nanoseconds


class PacketCountStarted(Message):
    """Counting has begun."""


class StartPacketCount(Request[PacketCountStarted], op="packet_count.start"):
    """From now on count every packet of these streams that comes in by these interfaces, and nothing else of them: for
    a node whose kernel times none. Takes the right to open a raw socket only.
    """

    ports: Annotated[List[TimedPort], Most(MAX_TAPS)]


class PortCount(Message):
    """``packets`` of each stream, in the order in which they were asked for."""

    interface: Name
    packets: Annotated[List[Count], Most(MAX_STREAMS)]


class CountedPackets(Message):
    """Port by port."""

    ports: Annotated[List[PortCount], Most(MAX_TAPS)]


class StopPacketCount(Request[CountedPackets], op="packet_count.stop"):
    """End the counting and take what was counted."""


class DelaysSoFar(Message):
    """Of one stream while it is counted: its packets are not all told at one instant."""

    negative_packets: Count
    delay: Buckets


class PortDelays(Message):
    """``streams`` in the order in which they were asked for."""

    interface: Name
    streams: Annotated[List[DelaysSoFar], Most(MAX_STREAMS)]


class DelaysRead(Message):
    """``clock_moved_ns``: by how much CLOCK_REALTIME was set against CLOCK_MONOTONIC so far."""

    ports: Annotated[List[PortDelays], Most(MAX_TAPS)]
    clock_moved_ns: Nanoseconds


class ReadPacketTimes(Request[DelaysRead], op="packet_times.read"):
    """Tell the delays counted so far; the counting goes on."""


class StopPacketTimes(Request[TimedPackets], op="packet_times.stop"):
    """End the counting and take what was counted."""
