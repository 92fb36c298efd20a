"""What the sink's kernel tells of every packet of a stream: an extension of the stream's record. Pure.

``extensions["packet_times"]`` of a stream: where packets were to be timed (``packet_times``). It says why they were
not where the kernel could not.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from labconsole.model.strict_model import StrictModel

EXTENSION = "packet_times"
VERSION: Final = 1


Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Time = Annotated[int, Field(strict=True, ge=0, le=2**63)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Times(StrictModel):
    """Of every packet, in ns: nearest rank, the highest value of its bucket, so up to 1/128 too long.

    ``packets``: how many there are in it. ``histogram``: all, from 1 to 2^36 - 1 ns with two significant digits, in
    HdrHistogram's own encoding (version 2, compressed, base64). A quantile is None where it would take more packets.
    """

    packets: Count
    p50: Time
    p90: Time | None
    p99: Time | None
    p999: Time | None
    p9999: Time | None
    max: Time
    histogram: Annotated[str, Field(max_length=2**20)]


class DelayTimes(Times):
    """From the sender's time stamp to the arrival. ``min``, ``mean`` and ``max`` are exact; no quantile is longer."""

    min: Time
    mean: Annotated[float, Field(ge=0, le=2.0**63, allow_inf_nan=False)]


class TimingRefusal(StrictModel):
    """Why packets were not timed: a word and a sentence."""

    code: str
    message: str


class PortChanges(StrictModel):
    """What an XDP program changed at the sink's port. ``features``: those that were other than before while it was
    there, by name and what they were then ("rx-gro-hw off"), after the interface's name where it is one below the port;
    ``left_features``: those of them that could not be put back. ``link_changes``: how often the link went down or came
    up; None: not known. ``link_is_back``: whether it was up again in time once a native program had gone; None: not
    known, or nobody waited for it.
    """

    features: tuple[str, ...]
    left_features: tuple[str, ...]
    link_changes: Count | None
    link_is_back: bool | None = None


class PacketTimes(StrictModel):
    """Every packet of one stream that came to its sink's port, counted and timed by the kernel there.

    ``bytes``: without the frame check sequence. ``window_s``: from the first to the last, None below two.
    ``processors``: how many of them took the packets; with more than one ``late_packets`` and ``skipped_packets`` are
    estimates. ``overlapping_packets``: two processors took them and their neighbour at the same instant, so that they
    have no spacing and no variation. ``skipped_packets``: numbers that were passed
    over, up to the highest that came; ``late_packets``: came after a higher one, or twice. ``negative_packets``: by the
    two clocks they came before they were sent. ``clock_moved_ns``: by how much the sink's wall clock was set meanwhile.

    ``due_ns``: the same from when a packet was due, by the interval in which they were to be sent: what a stall of the
    sender withheld from the network is in it (coordinated omission). Due as far as the sender's time stamps show: no
    packet is due later than it was stamped. ``max`` is exact. None without ``delay_ns``, where nothing was due (target
    max), and in records from before it was counted.

    ``by``: a filter of a socket, where a capture's own is, or an XDP program, before that. ``port``: what this one
    changed at the port; left out beside a socket filter, which changes nothing. ``memory_bytes``: what counting took of
    the sink's memory, for all streams together; None: not told.

    ``spacing_ns``: between neighbours. ``variation_ns``: absolute difference of neighbours' delays (RFC 3393).
    ``delay_ns``: None where the clocks are not shown to agree well enough, and ``reason`` then says why;
    ``clock_bound_ns``: how far the two time stamps may be off against each other, None if nobody knows.
    """

    version: Literal[1] = VERSION
    by: Literal["socket filter", "generic XDP", "native XDP"] = "socket filter"
    packets: Count
    bytes: Count
    window_s: Seconds | None
    processors: Count
    overlapping_packets: Count
    late_packets: Count
    skipped_packets: Count
    negative_packets: Count
    clock_moved_ns: Annotated[int, Field(strict=True, gt=-(2**63), lt=2**63)]
    clock_bound_ns: Count | None
    reason: str | None
    delay_ns: DelayTimes | None
    due_ns: Times | None = None
    spacing_ns: Times | None
    variation_ns: Times | None
    memory_bytes: Count | None = None
    port: PortChanges | None = None


class PacketTimesRefused(StrictModel):
    """In place of them. ``counted_packets``: by a filter that takes no program; None: not counted either."""

    version: Literal[1] = VERSION
    refused: TimingRefusal
    counted_packets: Count | None = None
