"""Counting frames on a data port that are not the streams', and keeping a sink's kernel from sending any."""

from __future__ import annotations

from typing import Annotated, Dict, List, Optional

from labconsole.wire.message import Done, Message, Request
from labconsole.wire.rules import Count, Most, Name, Port, Sentence, Word

MAX_PROTOCOLS = 100
MAX_TAPS = 64
MAX_STREAMS = 16
"""Most streams of one port: a filter's jumps reach no further."""

MAX_SINK_PORTS = 1024

Protocols = Annotated[Dict[str, Count], Most(MAX_PROTOCOLS)]


class OwnStream(Message):
    """The fields that identify a stream's frames."""

    source_ip: Word
    sink_ip: Word
    udp_sink_port: Port


class TappedPort(Message):
    """``every``: count all other frames, with one raw socket; otherwise only received control traffic."""

    interface: Word
    streams: Annotated[List[OwnStream], Most(MAX_STREAMS)]
    every: bool


class StartTaps(Request[Done], op="foreign.start"):
    """Start to count, by protocol, the frames of these ports that are not the streams'. Replaces existing taps."""

    ports: Annotated[List[TappedPort], Most(MAX_TAPS)]


class TapCounts(Message):
    """Packets by protocol. ``missed_packets``: those for which the buffer had no room, or None if not known."""

    interface: Name
    every: bool
    received: Protocols
    sent: Protocols
    missed_packets: Optional[Count]


class ForeignCounts(Message):
    """Counts of foreign frames, empty without taps."""

    ports: Annotated[List[TapCounts], Most(MAX_TAPS)]


class StopTaps(Request[ForeignCounts], op="foreign.stop"):
    """Stop counting."""


class SinkPort(Message):
    """The destination of a stream's datagrams."""

    sink_ip: Word
    udp_sink_port: Port


class SinkPortState(Message):
    """``state``: ``held``: arriving datagrams are dropped; ``not_local``: the node does not have the address, so its
    kernel answers nothing; ``in_use``: another program has the port and receives the datagrams; ``refused``:
    ``message`` gives the reason.
    """

    state: Name
    message: Optional[Sentence] = None


class SinkPortStates(Message):
    """States in the order of the request."""

    ports: Annotated[List[SinkPortState], Most(MAX_SINK_PORTS)]


class HoldSinkPorts(Request[SinkPortStates], op="sink_ports.hold"):
    """Start to drop datagrams to these ports of the node's own addresses, after captures have seen them. Otherwise the
    kernel answers with ICMP port unreachable. Changes no setting, ends with the session, replaces the ports blocked so
    far.
    """

    ports: Annotated[List[SinkPort], Most(MAX_SINK_PORTS)]

    def misfit(self, reply: SinkPortStates) -> Optional[str]:
        """Check that there is one state for each port."""
        return None if len(reply.ports) == len(self.ports) else "it does not have a state for each port"


class ReleaseSinkPorts(Request[Done], op="sink_ports.release"):
    """Stop dropping datagrams at all ports."""
