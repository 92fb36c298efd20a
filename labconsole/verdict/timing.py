"""Adds to a stream's record what its time stamps tell: here it is known which frames are whose, and whose clocks."""

from __future__ import annotations

from labconsole.measure.packet_times import build_packet_times
from labconsole.measure.timing import build_delay, build_spacing, clock_bound_ns
from labconsole.model.record.packet_times import EXTENSION, PacketTimes, PacketTimesRefused, PortChanges, WhyNotTimed
from labconsole.model.record.run import Environment, Figures, StreamRecord
from labconsole.verdict.observed import StreamObservations, TimedStream, UntimedStream


def with_timing(
    record: StreamRecord, raw: StreamObservations, environment: Environment, source_moved_ns: int
) -> StreamRecord:
    """The record with ``delay`` and ``spacing``, which stay None where the capture does not hold just this stream, and
    with what the sink's kernel told of every packet. ``source_moved_ns``: by how much the source's wall clock was set
    meanwhile, as far as that is known.
    """
    nodes = environment.get("nodes", {})
    source, sink = nodes.get(raw.stream.source.node), nodes.get(raw.stream.sink.node)
    clocks_ns = clock_bound_ns(source, sink) if source is not None and sink is not None else None
    # pktgen builds and stamps a frame, then waits for its turn; ours fills a burst when all of it is due.
    stamp_lead_ns = record.delay_ns if record.generator == "pktgen" else 0
    found: Figures = {}
    counted = raw.capture.analysis.streams if raw.capture is not None else []
    if len(counted) == 1:
        found["delay"] = build_delay(counted[0].delay, clocks_ns=clocks_ns, stamp_lead_ns=stamp_lead_ns)
        found["spacing"] = build_spacing(counted[0].spacing, counted[0].pps)
    if raw.times is not None:
        told = _told(raw.times, clocks_ns, stamp_lead_ns, source_moved_ns)
        unsaid = {"port"} if getattr(told, "port", None) is None else None
        found["extensions"] = {**record.extensions, EXTENSION: told.model_dump(mode="json", exclude=unsaid)}
    return record.model_copy(update=found)


def _told(
    times: TimedStream | UntimedStream, clocks_ns: int | None, stamp_lead_ns: int, source_moved_ns: int
) -> PacketTimes | PacketTimesRefused:
    if isinstance(times, UntimedStream):
        refused = WhyNotTimed(code=times.code, message=times.message)
        return PacketTimesRefused(refused=refused, counted_packets=times.counted_packets)
    told = build_packet_times(
        times.counted,
        clock_moved_ns=times.clock_moved_ns,
        source_moved_ns=source_moved_ns,
        clocks_ns=clocks_ns,
        stamp_lead_ns=stamp_lead_ns,
    )
    port = None if times.xdp is None else PortChanges.model_validate(times.xdp.to_wire())
    return told.model_copy(update={"memory_bytes": times.memory_bytes, "by": times.by, "port": port})
