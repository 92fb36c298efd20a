"""Flows counted in a capture, over time."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.packets.flows import MAX_BINS, MAX_CELLS, MAX_FLOWS
from labconsole.wire.message import Message
from labconsole.wire.rules import Count, Most, Name, Port, Rule, bad, whole

BinNumber = Annotated[int, Rule(whole(0, MAX_BINS - 1))]


class CountedFlow(Message):
    """Packets that one sender sent from one port. ``bins``, ``bin_packets`` and ``bin_bytes`` belong together and omit
    empty bins; ``outside_packets`` are in no bin.
    """

    mac: Name
    udp_source_port: Port
    udp_sink_port: Port
    packets: Count
    bytes: Count
    first_at_ns: Optional[Count]
    last_at_ns: Optional[Count]
    outside_packets: Count
    bins: Annotated[List[BinNumber], Most(MAX_BINS)]
    bin_packets: Annotated[List[Count], Most(MAX_BINS)]
    bin_bytes: Annotated[List[Count], Most(MAX_BINS)]

    def check_fields(self) -> None:
        """Check that the bins are in order, and that their sums match the totals."""
        if not len(self.bins) == len(self.bin_packets) == len(self.bin_bytes):
            raise bad("bins", "must have as many items as bin_packets and bin_bytes")
        if any(later <= earlier for earlier, later in zip(self.bins, self.bins[1:])):
            raise bad("bins", "is not in ascending order")
        if sum(self.bin_packets) + self.outside_packets != self.packets:
            raise bad("bin_packets", "does not add up to packets")
        if sum(self.bin_bytes) > self.bytes or (not self.outside_packets and sum(self.bin_bytes) != self.bytes):
            raise bad("bin_bytes", "does not add up to bytes")


class CountedFlows(Message):
    """Every packet of the capture belongs to a listed flow, to a flow beyond the limit (``unlisted_packets``), or to no
    flow. Of the last, ``fragments`` are parts of IPv4 datagrams and ``control_packets`` are ARP, IPv6 discovery, LLDP
    or spanning tree.

    Bin k begins k times ``bin_ns`` after ``origin_ns``, the time stamp of the first packet of a flow.
    """

    bin_ns: Count
    origin_ns: Optional[Count]
    packets: Count
    other_packets: Count
    fragments: Count
    unlisted_packets: Count
    flows: Annotated[List[CountedFlow], Most(MAX_FLOWS)]
    control_packets: Optional[Count] = None

    def check_fields(self) -> None:
        """Check that the counts add up."""
        flows = sum(flow.packets for flow in self.flows)
        if flows + self.other_packets + self.unlisted_packets != self.packets:
            raise bad("flows", "does not add up to packets with the others")
        if self.fragments > self.other_packets:
            raise bad("fragments", "is more than other_packets")
        if (self.control_packets or 0) + self.fragments > self.other_packets:
            raise bad("control_packets", "is more than other_packets without fragments")
        if sum(len(flow.bins) for flow in self.flows) > MAX_CELLS:
            raise bad("flows", "has more than %d bins" % MAX_CELLS)
