"""Capturing at a sink, and the counts from a capture."""

from __future__ import annotations

import re
from typing import Annotated, Any, Dict, List, Optional

from labconsole.packets.flows import MAX_BINS
from labconsole.packets.sequence import MAX_RUN_LENGTHS, SEQUENCE_MODULUS
from labconsole.wire.flows import CountedFlows
from labconsole.wire.message import AgentEvent, Message, Request
from labconsole.wire.rules import (
    Amount,
    Count,
    Finite,
    Most,
    Name,
    Port,
    Rule,
    Sentence,
    Signed,
    Word,
    bad,
    count,
    mapping,
    maybe,
    run_length,
    whole,
)

MAX_ARGUMENTS = 256
MAX_CAPTURED_STREAMS = 1024
"""The most streams that an agent counts individually."""
WINDOWS_MS = frozenset({"1", "10", "100"})


def _digest(value: Any, where: str) -> str:
    if type(value) is not str or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise bad(where, "is not a SHA-256 of 64 digits")
    return value


_PEAKS = mapping(run_length, maybe(count), len(WINDOWS_MS))


def _peaks(value: Any, where: str) -> Any:
    kept = _PEAKS(value, where)
    if kept.keys() != WINDOWS_MS:
        raise bad(where, "must have windows of 1, 10 and 100 ms")
    return kept


Number = Annotated[int, Rule(whole(0, SEQUENCE_MODULUS - 1))]


class CountedSequence(Message):
    """What a stream's sequence numbers show; ``lost_runs``: runs of consecutive losses by length."""

    first: Number
    last: Number
    expected_packets: Count
    lost_packets: Count
    lost_runs: Annotated[Dict[str, Count], Most(MAX_RUN_LENGTHS, run_length)]
    reordered_packets: Count
    duplicate_packets: Count


class CountedGaps(Message):
    """Times between arrivals."""

    min: Count
    mean: Amount
    p50: Count
    p99: Count
    max: Count


class CountedRawDelay(Message):
    """Arrival minus the time stamp in the frame. The two come from different clocks, so it may be negative."""

    min: Signed
    mean: Finite
    p50: Signed
    p99: Signed
    p999: Signed
    max: Signed


class CountedVariation(Message):
    """Delay variation against the smallest delay (RFC 5481, PDV)."""

    p50: Count
    p99: Count
    p999: Count
    max: Count


class CountedPairVariation(Message):
    """Delay variation between neighbours (RFC 5481, IPDV)."""

    mean: Amount
    p50: Count
    p99: Count
    p999: Count
    max: Count


class CountedDelay(Message):
    """Delays of a sample of frames: one pair of every ``pair_every_packets``."""

    packets: Count
    pair_every_packets: Count
    raw_ns: CountedRawDelay
    pdv_ns: CountedVariation
    ipdv_ns: Optional[CountedPairVariation]


class CountedSpacing(Message):
    """Bursts. ``peak_packets``: the most packets in any window, keyed by the window's length in milliseconds."""

    packets: Count
    gap_ns: CountedGaps
    burst_packets: Count
    peak_packets: Annotated[Dict[str, Optional[int]], Rule(_peaks)]


class CapturedStream(Message):
    """One stream in a capture. ``spacing``, ``late_packets`` and ``queued_packets`` only if requested."""

    source_ip: Name
    sink_ip: Name
    udp_source_port: Port
    udp_sink_port: Port
    packets: Count
    bytes: Count
    first_at_ns: Optional[Count]
    last_at_ns: Optional[Count]
    sequence: Optional[CountedSequence]
    sequence_error: Optional[Sentence]
    gap_ns: Optional[CountedGaps]
    gaps_exact: bool
    backward_steps: Count
    delay: Optional[CountedDelay]
    delay_error: Optional[Sentence]
    spacing: Optional[CountedSpacing] = None
    late_packets: Optional[Count] = None
    queued_packets: Optional[Count] = None
    pps: Optional[Amount]
    frame_bps: Optional[Amount]

    def check_fields(self) -> None:
        """Check that queued packets are among the late ones, and late ones among the captured."""
        if not (self.queued_packets or 0) <= (self.late_packets or 0) <= self.packets:
            raise bad("late_packets", "is not from queued_packets to packets")


class AnalyzedCapture(Message):
    """The output of ``labconsole analyze --json``; None is unknown."""

    format: Name
    link_type: Optional[Sentence]
    packets: Count
    bytes: Count
    first_at_ns: Optional[Count]
    last_at_ns: Optional[Count]
    duration_ns: Optional[Count]
    truncated: bool
    corrupt_at_byte: Optional[Count]
    corrupt_reason: Optional[Sentence]
    read_bytes: Count
    other_packets: Count
    unlisted_stream_packets: Count
    untimed_packets: Count
    pps: Optional[Amount]
    frame_bps: Optional[Amount]
    streams: Annotated[List[CapturedStream], Most(MAX_CAPTURED_STREAMS)]


class CaptureStarted(Message):
    """``path``: a name under /proc that works for the same user. ``argv``: tcpdump's."""

    path: Sentence
    argv: Annotated[List[Sentence], Most(MAX_ARGUMENTS)]
    tcpdump: Optional[Name]


FlowBin = Annotated[int, Rule(whole(1_000_000, 3600 * 10**9))]


class StartCapture(Request[CaptureStarted], op="capture.start"):
    """Replies when tcpdump says "listening".

    ``spacing_gap_ns``: also measure spacing, relative to this gap; 0 means the median gap. ``sampling_seed``: chooses
    the frames whose delay is measured; the default is 0. ``directory`` defaults to the node's $TMPDIR or /var/tmp.
    ``nic_stamps``: frames keep the time stamps of the port's NIC, by the NIC's own clock. ``flow_bin_ns``: count flows
    instead of streams, in at most ``flow_bins`` bins of that length.
    """

    capture: Word
    interface: Word
    filter: Word
    snap_bytes: Annotated[int, Rule(whole(16, 262144))]
    buffer_kib: Annotated[int, Rule(whole(64, 1048576))]
    directory: Optional[Word] = None
    expected_packets: Optional[Count] = None
    namespace: Optional[Word] = None
    immediate: Optional[bool] = None
    spacing_gap_ns: Optional[Count] = None
    sampling_seed: Optional[Signed] = None
    flow_bin_ns: Optional[FlowBin] = None
    flow_bins: Optional[Annotated[int, Rule(whole(1, MAX_BINS))]] = None
    nic_stamps: Optional[bool] = None


class CountedSoFar(Message):
    """Packets in the file so far."""

    packets: Count


SendingTime = Annotated[int, Rule(whole(0, (1 << 62) - 1))]


class DrainCapture(Request[CountedSoFar], op="capture.drain"):
    """Count the packets in the file so far. Sent while draining, so that closing is quick.

    ``sending_ns``: how long the stream was sent. If given before counting begins, the analysis also has, per stream,
    ``late_packets`` (arrived more than that after the first one) and ``queued_packets`` (more than 0.01 s later still).
    """

    capture: Word
    sending_ns: Optional[SendingTime] = None


class CaptureResult(Message):
    """Fields are None if tcpdump did not report them. ``sha256``: of the file as counted, or None if it was not fully
    readable.

    ``flows`` if requested; ``analysis`` then does not separate streams.
    """

    captured_packets: Optional[Count]
    received_by_filter_packets: Optional[Count]
    dropped_kernel_packets: Optional[Count]
    dropped_interface_packets: Optional[Count]
    file_bytes: Count
    analysis: AnalyzedCapture
    sha256: Optional[Annotated[str, Rule(_digest)]]
    flows: Optional[CountedFlows] = None


class StopCapture(Request[CaptureResult], op="capture.stop"):
    """End tcpdump once it has read all packets that the kernel buffers for it, and count."""

    capture: Word
    sending_ns: Optional[SendingTime] = None


class CaptureDied(AgentEvent, kind="capture.died"):
    """A capture ended by itself."""

    capture: Name
    message: Sentence
