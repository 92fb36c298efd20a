"""Which frames pass a data port that are not the streams'."""

from __future__ import annotations

from typing import Annotated, Dict, List, Optional

from labconsole.wire.message import Done, Message, Request
from labconsole.wire.rules import Count, Most, Name, Port, Word

MAX_PROTOCOLS = 100
MAX_TAPS = 64
MAX_STREAMS = 16
"""Of one port: a filter's jumps reach no further."""

Protocols = Annotated[Dict[str, Count], Most(MAX_PROTOCOLS)]


class OwnStream(Message):
    """What identifies a stream's frames."""

    source_ip: Word
    sink_ip: Word
    udp_sink_port: Port


class TappedPort(Message):
    """``every``: all other frames are counted, by one raw socket; else received control traffic only."""

    interface: Word
    streams: Annotated[List[OwnStream], Most(MAX_STREAMS)]
    every: bool


class StartTaps(Request[Done], op="foreign.start"):
    """From now on count, by protocol, the frames of these ports that are not the streams'. Replaces existing taps."""

    ports: Annotated[List[TappedPort], Most(MAX_TAPS)]


class TapCounts(Message):
    """Packets by protocol; ``missed_packets``: those for which the buffer had no room, None if not known."""

    interface: Name
    every: bool
    received: Protocols
    sent: Protocols
    missed_packets: Optional[Count]


class ForeignCounts(Message):
    """Empty without taps."""

    ports: Annotated[List[TapCounts], Most(MAX_TAPS)]


class StopTaps(Request[ForeignCounts], op="foreign.stop"):
    """End counting."""
