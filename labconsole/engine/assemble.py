"""From what a trial saw to its run record. Pure: counts are subtracted here, nothing is read."""

from __future__ import annotations

from typing import Any

from labconsole import __version__
from labconsole.agent.wire import STAT_NAMES
from labconsole.engine.observations import StreamSeen, TrialSeen
from labconsole.engine.timing import with_timing
from labconsole.engine.verdict import judge
from labconsole.errors import CounterInconsistency
from labconsole.measure.ledger import HopCount, build_ledger
from labconsole.measure.loss import choose_measured, loss_packets, loss_ratio, rate_pps, total, total_rate
from labconsole.measure.rates import counter_difference
from labconsole.model.inventory import Inventory
from labconsole.model.record import Capture, PlanRef, Requested, RunRecord, Sequence, StreamRecord, Total
from labconsole.model.request import TrialRequest
from labconsole.model.tolerances import Tolerances
from labconsole.units import pps_to_bps


def build_record(
    seen: TrialSeen,
    *,
    inventory: Inventory,
    request: TrialRequest,
    operator: str,
    plan: PlanRef | None,
    environment: dict[str, Any],
    finished_at: str,
    tolerances: Tolerances,
) -> RunRecord:
    """The record of one trial, with its verdict."""
    streams = tuple(
        with_timing(_stream_record(seen, raw, inventory, request), raw, environment) for raw in seen.streams
    )
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
        requested=Requested(
            platform=request.platform,
            frame_size_bytes=request.frame_size_bytes,
            frame_size_includes_fcs=request.frame_size_includes_fcs,
            sources=request.sources,
            target_bps=request.target_bps,
            background=request.background,
            duration_s=request.duration_s,
            generator=request.generator,
            observe=request.observe,
        ),
        streams=streams,
        total=_total(streams),
        background=None if request.background == "none" else {"kind": request.background},
        verdict=judge(seen, streams, request, tolerances),
        influences=tuple(seen.notes),
        environment={**environment, "platform": seen.attestation},
        timeline=dict(seen.timeline),
        failure=seen.failure,
    )


def _difference(seen: TrialSeen, node: str, namespace: str, interface: str, statistic: str) -> int | None:
    """How much one counter grew over the trial; None when it was not read twice or decreased."""
    index = STAT_NAMES.index(statistic)
    first = seen.before.get(node, {}).get((namespace, interface))
    last = seen.after.get(node, {}).get((namespace, interface))
    if first is None or last is None or index >= min(len(first.values), len(last.values)):
        return None
    try:
        return counter_difference(first.values[index], last.values[index], name=statistic)
    except CounterInconsistency:
        return None


def _stream_record(seen: TrialSeen, raw: StreamSeen, inventory: Inventory, request: TrialRequest) -> StreamRecord:
    stream, uut = raw.stream, inventory.uut
    generated = raw.generated or {}
    offered: int | None = generated.get("sent_packets")
    elapsed_ns: int | None = generated.get("elapsed_ns")
    duration_s = elapsed_ns / 1e9 if elapsed_ns else None
    source_tx = _difference(seen, stream.source.node, "", stream.source.interface, "tx_packets")
    sink_rx = _difference(seen, stream.sink.node, "", stream.sink.interface, "rx_packets")
    capture = _capture(raw)
    measured, witness = choose_measured(capture, sink_rx)
    lost = loss_packets(offered, measured)
    offered_pps, measured_pps = rate_pps(offered, duration_s), rate_pps(measured, duration_s)
    counts = [
        HopCount("generator", stream.source.node, stream.source.interface, offered),
        HopCount("source_nic", stream.source.node, stream.source.interface, source_tx),
        *(
            HopCount(
                point.hop,
                uut,
                f"{point.namespace}/{point.interface}" if point.namespace else point.interface,
                _difference(seen, uut, point.namespace, point.interface, point.statistic),
            )
            for point in raw.path.points
        ),
        HopCount("sink_nic", stream.sink.node, stream.sink.interface, sink_rx),
    ]
    if capture is not None and capture.complete:
        counts.append(HopCount("capture", stream.sink.node, stream.sink.interface, capture.captured_packets))
    ledger, unplaced = build_ledger(counts, measured)

    def on_wire(rate: float | None) -> float | None:
        if rate is None:
            return None
        return pps_to_bps(rate, request.frame_size_bytes, includes_fcs=request.frame_size_includes_fcs)

    return StreamRecord(
        name=stream.name,
        generator=generated.get("generator") or (raw.prepared or {}).get("generator") or request.generator,
        generator_version=generated.get("version") or (raw.prepared or {}).get("version"),
        delay_ns=request.delay_ns,
        burst_packets=generated.get("burst_packets"),
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
            "source_tx_packets": source_tx,
            "uut_in_rx_packets": _difference(seen, uut, "", stream.uut_in, "rx_packets"),
            "uut_out_tx_packets": _difference(seen, uut, "", stream.uut_out, "tx_packets"),
            "sink_rx_packets": sink_rx,
        },
        sequence=_sequence(raw),
        ledger=ledger,
        unplaced_packets=unplaced,
    )


def _capture(raw: StreamSeen) -> Capture | None:
    """tcpdump's summary and our count of its file; complete only if nothing dropped and both agree."""
    if raw.capture is None:
        return None
    analysis = raw.capture["analysis"]
    counted = analysis["packets"]
    dropped = raw.capture["dropped_kernel_packets"]
    by_interface = raw.capture["dropped_interface_packets"] or 0
    said = raw.capture["captured_packets"]
    return Capture(
        captured_packets=counted,
        dropped_packets=None if dropped is None else dropped + by_interface,
        complete=dropped == 0 and by_interface == 0 and not analysis["truncated"] and said == counted,
    )


def _sequence(raw: StreamSeen) -> Sequence | None:
    """The sequence findings of the stream's frames in its capture; None when they do not hold just this stream."""
    if raw.capture is None:
        return None
    streams = raw.capture["analysis"]["streams"]
    if len(streams) != 1 or streams[0]["sequence"] is None:
        return None
    found = streams[0]["sequence"]
    return Sequence(
        lost_runs={str(length): count for length, count in found["lost_runs"].items()},
        reordered_packets=found["reordered_packets"],
        duplicate_packets=found["duplicate_packets"],
    )


def _total(streams: tuple[StreamRecord, ...]) -> Total:
    offered = total(s.offered_packets for s in streams)
    measured = total(s.measured_packets for s in streams)
    lost = loss_packets(offered, measured)
    return Total(
        offered_packets=offered,
        offered_pps=total_rate(s.offered_pps for s in streams),
        offered_bps=total_rate(s.offered_bps for s in streams),
        measured_packets=measured,
        measured_pps=total_rate(s.measured_pps for s in streams),
        measured_bps=total_rate(s.measured_bps for s in streams),
        loss_packets=lost,
        loss_ratio=loss_ratio(offered, lost),
    )
