"""Sending test traffic: prepare, start, wait, stop, close, and the packets sent."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.facts import MAX_CPUS
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Count, Most, Name, Rule, Sentence, between, lines, whole
from labconsole.wire.stream_spec import StreamSpec

MAX_STREAMS = 256
MAX_RAW = 65_536
"""Most characters of a generator's own report; pktgen's file is a page."""


class PreparedStream(Message):
    """How the agent will send a stream."""

    stream: Name
    generator: Name
    version: Optional[Name]
    interface: Name
    burst_packets: Optional[Count]
    cpus: Optional[Annotated[List[Count], Most(MAX_CPUS)]]


class PreparedStreams(Message):
    """How the agent will send the streams."""

    streams: Annotated[List[PreparedStream], Most(MAX_STREAMS)]


class PrepareGenerator(Request[PreparedStreams], op="generator.prepare"):
    """Configure the generator for these streams."""

    streams: Annotated[List[StreamSpec], Most(MAX_STREAMS)]


class StartGenerator(Request[Done], op="generator.start"):
    """Replies when the armed processes have been signalled to start; ``generator`` events and one ``generator.done``
    follow.
    """

    at_monotonic_ns: Optional[Annotated[int, Rule(whole(-(2**63), 2**63 - 1))]] = None
    progress_interval_s: Optional[Annotated[float, Rule(between(0.01, 3600))]] = None


class SentStream(Message):
    """Packets a stream sent; None is unknown. ``raw``: the generator's own report."""

    stream: Name
    generator: Name
    version: Optional[Name]
    interface: Name
    sent_packets: Optional[Count]
    errors: Optional[Count]
    error_text: Optional[Sentence]
    started_monotonic_ns: Optional[Count]
    stopped_monotonic_ns: Optional[Count]
    started_wall_ns: Optional[Count]
    elapsed_ns: Optional[Count]
    idle_ns: Optional[Count]
    delay_ns: Count
    burst_packets: Optional[Count]
    requested_count: Optional[Count]
    stopped_by: Name
    raw: Optional[Annotated[str, Rule(lines(MAX_RAW))]]


SentStreams = Annotated[List[SentStream], Most(MAX_STREAMS)]


class Sent(Message):
    """Packets the streams sent."""

    streams: SentStreams


class WaitForGenerator(Request[Sent], op="generator.wait"):
    """Replies when the last stream has ended."""


class StopGenerator(Request[Done], op="generator.stop"):
    """End early; ``generator.done`` still follows."""


class CloseGenerator(Request[Sent], op="generator.close"):
    """End and clean up; the reply has no streams if the generator was not started."""


class StreamProgress(Message):
    """Progress of a stream. ``monotonic_ns``: when it was counted, or None if nothing was sent yet."""

    stream: Name
    sent_packets: Optional[Count]
    errors: Optional[Count]
    monotonic_ns: Optional[Count]


class GeneratorProgress(AgentEvent, kind="generator"):
    """Progress of the streams."""

    monotonic_ns: Count
    streams: Annotated[List[StreamProgress], Most(MAX_STREAMS)]


class GeneratorFailure(Message):
    """Why there are no results."""

    code: Name
    message: Sentence


class GeneratorDone(AgentEvent, kind="generator.done"):
    """The last stream has ended. If the generator failed, ``error`` is set and there are no streams."""

    streams: SentStreams
    error: Optional[GeneratorFailure] = None
