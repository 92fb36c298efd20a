"""Builds a run's record from the trial's observations. Pure: counts are subtracted here, nothing is read."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError

from labconsole.measure.counts import (
    build_capture_arrivals,
    build_counter_arrivals,
    choose_measured,
    forwarding_pps,
    loss_packets,
    loss_ratio,
    lost_by_side,
    offered_packets,
    rate_pps,
    total,
)
from labconsole.measure.ledger import HopCount, build_ledger, frozen, mask_counts
from labconsole.measure.packet_times import build_packet_times
from labconsole.measure.timing import (
    SECOND_NS,
    add_nic_clock_bound,
    agreement,
    build_delay,
    build_spacing,
    is_stated,
    nic_stamps,
)
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.extensions import CAPTURE_STAMPS as STAMPS
from labconsole.model.record.extensions import (
    CLOCKS,
    PACKET_TIMES,
    TELEMETRY,
    CaptureStamps,
    PacketTimes,
    PacketTimesRefused,
    PortChanges,
    TimingRefusal,
    WorkRecord,
    WorkRefusal,
    WorkRefused,
)
from labconsole.model.record.run import (
    Arrivals,
    Background,
    CaptureCounts,
    Delay,
    Environment,
    Figures,
    InForce,
    PlanRef,
    Requested,
    Role,
    RunRecord,
    Sequence,
    SetUp,
    StreamRecord,
    Total,
    read_conditions,
)
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.calibration_check import doubted, instrument_reasons
from labconsole.verdict.changes import add_settings, clock_moved_ns
from labconsole.verdict.hops import capture_complete, growth, hop_counts, moved
from labconsole.verdict.influences import influences
from labconsole.verdict.kernel_drops import extensions
from labconsole.verdict.observations import (
    StreamObservations,
    TimedStream,
    TrialObservations,
    UntimedStream,
    WorkWitness,
    counting_points,
)
from labconsole.verdict.verdict import judge
from labconsole.wire.capture import CapturedStream
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.version import __version__

# -- telemetry ---------------------------------------------------------------------------------------------------------
# The part of a run's record on the unit under test's processor activity during traffic.


def telemetry_extension(work: WorkWitness | None) -> dict[str, Figures]:
    """The record's extension; empty if the trial was no telemetry trial, or the node reported nothing."""
    if work is None:
        return {}
    code, message = work.refused or ("failed", "the node did not report it")
    if work.done is not None:
        try:
            recorded = WorkRecord.model_validate({"node": work.node, **work.done.to_wire()})
        except ValidationError as exc:
            code, message = "failed", f"the values that the node reported are invalid: {exc.errors()[0]['msg']}"
        else:
            return {TELEMETRY: recorded.model_dump(mode="json")}
    refused = WorkRefused(node=work.node, refused=WorkRefusal(code=code, message=message[:400]))
    return {TELEMETRY: refused.model_dump(mode="json")}


# -- timing ------------------------------------------------------------------------------------------------------------
# Adds timing from time stamps to a stream's record, where frames and clocks are assigned to streams.


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
        extensions[PACKET_TIMES] = derived.model_dump(mode="json", exclude=unsaid)
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


# -- record ------------------------------------------------------------------------------------------------------------


def build_record(
    seen: TrialObservations,
    *,
    inventory: Inventory,
    request: DesignPoint,
    operator: str,
    plan: PlanRef | None,
    environment: Environment,
    finished_at: str,
    tolerances: Tolerances,
    envelope: Envelope | None = None,
    role: Role = "measured",
    set_up: SetUp | None = None,
    in_force: InForce | None = None,
) -> RunRecord:
    """The record of one trial, with its verdict. ``envelope``: the calibration that the run is compared with."""
    counts = [hop_counts(seen, raw, inventory.uut) for raw in seen.flows]
    still = [frozen(moved(hops, raw)) for hops, raw in zip(counts, seen.flows, strict=True)]
    requests = [*(request for _ in seen.streams), *(seen.second_request or request for _ in seen.second_streams)]
    flows = tuple(
        add_timing(
            _stream_record(seen, raw, mask_counts(hops, frozen_at), inventory, stream_request),
            raw,
            environment,
            clock_moved_ns(seen, raw.stream.source.node) or 0,
        )
        for raw, hops, frozen_at, stream_request in zip(seen.flows, counts, still, requests, strict=True)
    )
    streams, second_streams = flows[: len(seen.streams)], flows[len(seen.streams) :]
    frozen_hops = {
        raw.stream.name: [hops[place].hop for place in frozen_at]
        for raw, hops, frozen_at in zip(seen.flows, counts, still, strict=True)
    }
    seen = replace(seen, background=_background(seen, second_streams, request))
    environment = {**environment, "platform": seen.attestation}
    if "nodes" in environment:
        environment["nodes"] = add_settings(environment["nodes"], seen.settings(), inventory)
    return RunRecord(
        run_id=seen.run_id,
        started_at=seen.started_at,
        finished_at=finished_at,
        testbed=inventory.testbed,
        testbed_fingerprint=inventory.fingerprint(),
        emulated=inventory.emulated,
        operator=operator,
        labconsole_version=__version__,
        plan=plan,
        requested=Requested(**request.columns()),
        streams=streams,
        total=_total(streams),
        background=seen.background,
        verdict=doubted(
            judge(seen, flows, request, tolerances, inventory=inventory, frozen_hops=frozen_hops),
            instrument_reasons(envelope, request, streams),
        ),
        influences=tuple(influences(seen, flows, inventory.uut)),
        environment=environment,
        timeline=dict(seen.timeline),
        failure=seen.failure,
        role=role,
        set_up=set_up,
        conditions=read_conditions(environment, inventory.uut),
        in_force=in_force,
        extensions=extensions(seen, [counting_points(raw, inventory.uut) for raw in seen.flows], inventory.uut)
        | telemetry_extension(seen.work),
    )


def _background(
    seen: TrialObservations, second_streams: tuple[StreamRecord, ...], request: DesignPoint
) -> Background | None:
    """The load with the second guest's own streams. A load that was requested but is missing has only its kind."""
    if seen.background is None:
        return None if request.background == "none" else Background(kind=request.background)
    if not second_streams:
        return seen.background
    rates = {
        name: total(getattr(stream, name) for stream in second_streams) for name in ("offered_pps", "measured_pps")
    }
    return seen.background.model_copy(
        update={"streams": second_streams, "achieved": {**seen.background.achieved, **rates}}
    )


def _stream_record(
    seen: TrialObservations, raw: StreamObservations, counts: list[HopCount], inventory: Inventory, request: DesignPoint
) -> StreamRecord:
    stream = raw.stream
    generated, sender = raw.generated, raw.generated or raw.prepared
    generator = generated.sent_packets if generated is not None else None
    elapsed_ns = generated.elapsed_ns if generated is not None else None
    duration_s = elapsed_ns / 1e9 if elapsed_ns else None
    at = {count.hop: count.packets for count in counts}
    offered = offered_packets(generator, at["source_nic"])
    capture = _capture(raw)
    measured, witness = choose_measured(capture, at["sink_nic"])
    uut_out = _count_at_port(seen, at, "uut_out", inventory.uut, stream.uut_out, "tx_packets", measured)
    sides = lost_by_side(generator, at["source_nic"], uut_out, measured)
    arrivals = _arrivals(seen, raw, measured, witness, duration_s)
    forwarded = forwarding_pps(arrivals, duration_s)
    lost = loss_packets(offered, measured)
    offered_pps, measured_pps = rate_pps(offered, duration_s), rate_pps(measured, duration_s)
    ledger, unplaced = build_ledger(counts, measured)

    def on_wire(rate: float | None) -> float | None:
        if rate is None:
            return None
        return request.frame.rate_bps(rate)

    return StreamRecord(
        name=stream.name,
        generator=sender.generator if sender is not None else request.generator,
        generator_version=next((said.version for said in (generated, raw.prepared) if said and said.version), None),
        delay_ns=request.delay_ns,
        burst_packets=generated.burst_packets if generated is not None else None,
        intended_packets=request.intended_packets,
        intended_pps=request.intended_pps,
        offered_packets=offered,
        offered_duration_s=duration_s,
        offered_pps=offered_pps,
        offered_bps=on_wire(offered_pps),
        measured_packets=measured,
        measured_pps=measured_pps,
        measured_bps=on_wire(measured_pps),
        measured_from=witness,
        loss_packets=lost,
        loss_ratio=loss_ratio(offered, lost),
        capture=capture,
        counters={
            "source_tx_packets": at["source_nic"],
            "uut_in_rx_packets": _count_at_port(
                seen, at, "uut_in", inventory.uut, stream.uut_in, "rx_packets", measured
            ),
            "uut_out_tx_packets": uut_out,
            "sink_rx_packets": at["sink_nic"],
        },
        sequence=_sequence(raw),
        ledger=ledger,
        unplaced_packets=unplaced,
        generator_packets=generator,
        source_lost_packets=sides.source_packets,
        uut_lost_packets=sides.uut_packets,
        sink_lost_packets=sides.sink_packets,
        lost_together=sides.together,
        arrivals=arrivals,
        forwarding_pps=forwarded,
        forwarding_bps=on_wire(forwarded),
    )


def _count_at_port(
    seen: TrialObservations,
    at: dict[str, int | None],
    hop: str,
    node: str,
    interface: str,
    statistic: str,
    measured: int | None,
) -> int | None:
    """The count at a port of the UUT, from the ledger if it is a hop; None for a counter that should have moved."""
    if hop in at:
        return at[hop]
    grown = growth(seen, node, "", interface, statistic)
    return None if grown == 0 and measured else grown


def _arrivals(
    seen: TrialObservations, raw: StreamObservations, measured: int | None, witness: str | None, sending_s: float | None
) -> Arrivals | None:
    """The arrival times of the measured packets, from the witness that measured them."""
    if measured is None:
        return None
    if witness == "capture" and raw.capture is not None:
        return build_capture_arrivals(_counted(raw), measured)
    node, key = raw.stream.sink.node, ("", raw.stream.sink.interface)
    ends = [seen.before.get(node, {}).get(key), seen.after.get(node, {}).get(key)]
    first, last = ((each.monotonic_ns, each.values[RX_PACKETS]) if each is not None else None for each in ends)
    if first is None or last is None:
        return None
    between = [each for each in raw.sink_samples if first[0] < each[0] < last[0]]
    return build_counter_arrivals([first, *between, last], measured, sending_s, _counted(raw))


def _counted(raw: StreamObservations) -> list[CapturedStream]:
    """The streams in the capture."""
    return [] if raw.capture is None else raw.capture.analysis.streams


def _capture(raw: StreamObservations) -> CaptureCounts | None:
    """tcpdump's summary and our count of its file. It is complete only if nothing was dropped and both agree."""
    if raw.capture is None:
        return None
    dropped = raw.capture.dropped_kernel_packets
    by_interface = raw.capture.dropped_interface_packets or 0
    return CaptureCounts(
        captured_packets=raw.capture.analysis.packets,
        dropped_packets=None if dropped is None else dropped + by_interface,
        complete=capture_complete(raw.capture),
        sha256=raw.capture.sha256,
    )


def _sequence(raw: StreamObservations) -> Sequence | None:
    """The sequence findings for the stream's frames in its capture, or None if the capture contains other streams."""
    if raw.capture is None:
        return None
    streams = raw.capture.analysis.streams
    if len(streams) != 1 or streams[0].sequence is None:
        return None
    found = streams[0].sequence
    return Sequence(
        lost_runs={str(length): count for length, count in found.lost_runs.items()},
        reordered_packets=found.reordered_packets,
        duplicate_packets=found.duplicate_packets,
    )


RX_PACKETS = STAT_NAMES.index("rx_packets")


def _total(streams: tuple[StreamRecord, ...]) -> Total:
    offered = total(s.offered_packets for s in streams)
    measured = total(s.measured_packets for s in streams)
    lost = loss_packets(offered, measured)
    lost_at_uut = total(s.uut_lost_packets for s in streams)
    return Total(
        offered_packets=offered,
        offered_pps=total(s.offered_pps for s in streams),
        offered_bps=total(s.offered_bps for s in streams),
        measured_packets=measured,
        measured_pps=total(s.measured_pps for s in streams),
        measured_bps=total(s.measured_bps for s in streams),
        loss_packets=lost,
        loss_ratio=loss_ratio(offered, lost),
        generator_packets=total(s.generator_packets for s in streams),
        source_lost_packets=total(s.source_lost_packets for s in streams),
        uut_lost_packets=lost_at_uut,
        sink_lost_packets=total(s.sink_lost_packets for s in streams),
        uut_loss_ratio=loss_ratio(offered, lost_at_uut),
        late_packets=total(s.arrivals.late_packets if s.arrivals is not None else None for s in streams),
        queued_packets=total(s.arrivals.queued_packets if s.arrivals is not None else None for s in streams),
        forwarding_pps=total(_forwarded(s, "pps") for s in streams),
        forwarding_bps=total(_forwarded(s, "bps") for s in streams),
    )


def _forwarded(stream: StreamRecord, unit: str) -> float | None:
    """A stream's part of the total rate; with too few arrivals for a window, the arrivals over the sending time.

    Otherwise a platform that starves a stream would have no rate, and would be missing from every mean.
    """
    few = stream.measured_packets is not None and stream.measured_packets < 2
    rate: float | None = getattr(stream, f"{'measured' if few else 'forwarding'}_{unit}")
    return rate
