"""Times of every packet of a stream from the sink's kernel: an extension of the stream's record. Pure.

``extensions["packet_times"]`` of a stream whose packets were to be timed (``packet_times``). It gives the reason if the
kernel could not.
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
    """A distribution over every packet, in ns: nearest rank, the highest value of its bucket, so up to 1/128 too long.

    ``packets``: their number. ``histogram``: all, from 1 to 2^36 - 1 ns with two significant digits, in HdrHistogram's
    own encoding (version 2, compressed, base64). A quantile is None if it would take more packets.
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
    """Why packets were not timed: a code and a sentence."""

    code: str
    message: str


class PortChanges(StrictModel):
    """An XDP program's changes to the sink's port. ``features``: those that differed from before while it was loaded,
    by name and their value then ("rx-gro-hw off"), after the interface's name if it is one below the port;
    ``left_features``: those of them that could not be restored. ``link_changes``: how often the link went down or up,
    or None if unknown. ``link_is_back``: whether it was up again in time after a native program was removed, or None if
    unknown or not awaited.
    """

    features: tuple[str, ...]
    left_features: tuple[str, ...]
    link_changes: Count | None
    link_is_back: bool | None = None


class PacketTimes(StrictModel):
    """Every packet of one stream at its sink's port, counted and timed by the kernel there.

    ``bytes``: without the frame check sequence. ``window_s``: from the first to the last, or None below two packets.
    ``processors``: number of processors that took the packets; with more than one ``late_packets`` and
    ``skipped_packets`` are estimates. ``overlapping_packets``: two processors took them and their neighbour at the same
    instant, so that they have no spacing and no variation. ``skipped_packets``: missing numbers up to the highest that
    arrived; ``late_packets``: arrived after a higher one, or twice. ``negative_packets``: arrived before they were
    sent, by the two clocks. ``clock_moved_ns``: adjustment of the sink's wall clock meanwhile.

    ``due_ns``: the same from when a packet was due, by the intended interval: it includes packets that a stall of the
    sender withheld from the network (coordinated omission). The due time follows the sender's time stamps: no packet is
    due later than its stamp. ``max`` is exact. None without ``delay_ns``, without due times (target max), and in
    records older than this field.

    ``by``: a filter of a socket, at the place of a capture's own, or an XDP program, before that. ``port``: changes by
    the XDP program; absent for a socket filter, which changes nothing. ``memory_bytes``: memory of the sink used for
    counting, for all streams together, or None if not reported.

    ``spacing_ns``: between neighbours. ``variation_ns``: absolute difference of neighbours' delays (RFC 3393).
    ``delay_ns``: None if the clocks are not shown to agree well enough, and ``reason`` then says why;
    ``clock_bound_ns``: maximum difference of the two time stamps, or None if unknown.
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
    """In place of packet times. ``counted_packets``: by a filter without a program, or None if not counted either."""

    version: Literal[1] = VERSION
    refused: TimingRefusal
    counted_packets: Count | None = None
