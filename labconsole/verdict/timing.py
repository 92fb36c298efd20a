"""Adds timing from time stamps to a stream's record, where frames and clocks are assigned to streams."""

from __future__ import annotations

from labconsole.measure.capture_stamps import SECOND_NS, add_nic_clock_bound, nic_stamps
from labconsole.measure.clocks import agreement, is_stated
from labconsole.measure.packet_times import build_packet_times
from labconsole.measure.timing import build_delay, build_spacing
from labconsole.model.record.capture_stamps import EXTENSION as STAMPS
from labconsole.model.record.capture_stamps import CaptureStamps
from labconsole.model.record.clocks import EXTENSION as CLOCKS
from labconsole.model.record.environment import Environment
from labconsole.model.record.packet_times import EXTENSION, PacketTimes, PacketTimesRefused, PortChanges, TimingRefusal
from labconsole.model.record.run import Figures, StreamRecord
from labconsole.model.record.timing import Delay
from labconsole.verdict.observations import StreamObservations, TimedStream, UntimedStream
from labconsole.wire.capture import CapturedStream


def add_timing(
    record: StreamRecord, raw: StreamObservations, environment: Environment, source_moved_ns: int
) -> StreamRecord:
    """The record with ``delay`` and ``spacing``, the sink kernel's report on every packet, and the clock agreement.

    ``delay`` and ``spacing`` stay None if the capture contains other streams. The agreement is added if anything is
    stated on the clocks. ``source_moved_ns``: by how much the source's wall clock was set meanwhile, as far as that is
    known.
    """
    nodes = environment.get("nodes", {})
    ends = raw.stream.source.node, raw.stream.sink.node
    source, sink = nodes.get(ends[0]), nodes.get(ends[1])
    clocks = agreement(ends, source, sink)
    clocks_ns = clocks.bound_ns
    # pktgen builds and stamps a frame, then waits for its turn; our generator fills a burst when all of it is due.
    stamp_lead_ns = record.delay_ns if record.generator == "pktgen" else 0
    found: Figures = {}
    extensions = dict(record.extensions)
    if is_stated(source, sink):
        extensions[CLOCKS] = clocks.model_dump(mode="json")
    counted = raw.capture.analysis.streams if raw.capture is not None else []
    stamps = None
    if raw.nic_clock is not None and raw.capture is not None:
        capture = raw.capture.analysis
        ends_ns = capture.first_at_ns, capture.last_at_ns
        stamps = nic_stamps(raw.nic_clock.readings, raw.nic_clock.refused, ends_ns)
        extensions[STAMPS] = stamps.model_dump(mode="json")
    if len(counted) == 1:
        found["delay"] = _delay(counted[0], stamps, clocks_ns, stamp_lead_ns)
        found["spacing"] = build_spacing(counted[0].spacing, counted[0].pps)
    if raw.times is not None:
        derived = _build_times(raw.times, clocks_ns, stamp_lead_ns, source_moved_ns)
        unsaid = {"port"} if getattr(derived, "port", None) is None else None
        extensions[EXTENSION] = derived.model_dump(mode="json", exclude=unsaid)
    return record.model_copy(update={**found, "extensions": extensions})


def _delay(
    counted: CapturedStream, stamps: CaptureStamps | None, clocks_ns: int | None, stamp_lead_ns: int
) -> Delay | None:
    delay = build_delay(
        counted.delay,
        clocks_ns=add_nic_clock_bound(clocks_ns, stamps),
        stamp_lead_ns=stamp_lead_ns,
        ahead_ns=0 if stamps is None else (stamps.seconds_ahead or 0) * SECOND_NS,
    )
    if delay is None or stamps is None or stamps.reason is None:
        return delay
    return delay.model_copy(update={"reason": f"the sink's NIC stamped what was captured: {stamps.reason}"})


def _build_times(
    times: TimedStream | UntimedStream, clocks_ns: int | None, stamp_lead_ns: int, source_moved_ns: int
) -> PacketTimes | PacketTimesRefused:
    if isinstance(times, UntimedStream):
        refused = TimingRefusal(code=times.code, message=times.message)
        return PacketTimesRefused(refused=refused, counted_packets=times.counted_packets)
    derived = build_packet_times(
        times.counted,
        clock_moved_ns=times.clock_moved_ns,
        source_moved_ns=source_moved_ns,
        clocks_ns=clocks_ns,
        stamp_lead_ns=stamp_lead_ns,
    )
    port = None if times.xdp is None else PortChanges.model_validate(times.xdp.to_wire())
    return derived.model_copy(update={"memory_bytes": times.memory_bytes, "by": times.by, "port": port})
