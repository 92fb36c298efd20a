"""The verdict: valid, suspect or invalid, with reasons as code, sentence and evidence. Pure; no I/O, no clock.

This module has the reasons from the trial itself, its generators and its witnesses. changes.py has those from
differences between begin and end, influences.py those from what others did during the trial; reasons.py arranges
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.measure.ledger import format_hop
from labconsole.measure.packet_times import packet_times, third_count, timed_all
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import LedgerHop, Reason, StreamRecord, Verdict
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import changes
from labconsole.verdict.hops import capture_drops
from labconsole.verdict.influences import coarse, doubts, find_queue_drain, unobserved
from labconsole.verdict.kernel_drops import judged
from labconsole.verdict.observations import StreamObservations, TrialObservations, counting_points
from labconsole.verdict.offered_shortfall import find_shortfall_causes
from labconsole.verdict.reasons import reason, weighed

FAILURES = {"node_lost": "link_lost", "lease_taken": "lease_taken"}
"""Codes for the failures that have one of their own."""


def judge(
    seen: TrialObservations,
    streams: tuple[StreamRecord, ...],
    request: DesignPoint,
    limits: Tolerances,
    *,
    inventory: Inventory,
    frozen_hops: dict[str, list[str]],
) -> Verdict:
    """The verdict on one trial, from its observations and the values derived from them.

    ``streams``: of every flow, the second guest's own ones last. ``frozen_hops``: per stream, the hops whose counter
    did not move while packets passed.
    """
    reasons = [*_trial(seen, limits)]
    reasons += changes(seen, limits, inventory.uut)
    for place, (raw, record) in enumerate(zip(seen.flows, streams, strict=True)):
        stream_request = request if place < len(seen.streams) else seen.second_request or request
        if not seen.aborted:
            reasons += _generator(seen, raw, record, stream_request, limits)
        reasons += _witnesses(raw, record, limits)
        reasons += _buffered(record)
        for hop in frozen_hops.get(record.name, ()):
            reasons.append(
                reason(
                    "counter_froze",
                    f"{record.name}: the counter at {format_hop(hop)} did not change; packets passed before and after "
                    "it",
                    stream=record.name,
                    hop=hop,
                )
            )
    reasons += unobserved(seen)
    reasons += doubts(seen, streams, limits, inventory.uut, emulated=inventory.emulated)
    reasons += judged(seen, streams, [counting_points(raw, inventory.uut) for raw in seen.flows], request.duration_s)
    reasons += seen.doubts
    return weighed(reasons)


def _trial(seen: TrialObservations, limits: Tolerances) -> Iterator[Reason]:
    if seen.aborted:
        yield reason("aborted", "the operator stopped the run")
    elif seen.failure is not None:
        code = FAILURES.get(seen.failure.failure, "failed")
        yield reason(code, seen.failure.message, node=seen.failure.node, operation=seen.failure.operation)
    if seen.start_skew_s is not None and seen.start_skew_s > limits.start_skew_s:
        detail = f"the sources started {seen.start_skew_s * 1e3:.1f} ms apart"
        yield reason("sources_apart", detail, start_skew_s=seen.start_skew_s)
    if seen.drained is False:
        yield reason("not_drained", "counters at the UUT or a sink were still changing when the drain ended")
    due = seen.samples + seen.missed_samples
    if due and seen.missed_samples / due > limits.missed_samples_ratio:
        yield reason(
            "samples_missed",
            f"{seen.missed_samples} of {due} counter samples are missing",
            missed_samples=seen.missed_samples,
            due_samples=due,
        )


def _generator(
    seen: TrialObservations, raw: StreamObservations, record: StreamRecord, request: DesignPoint, limits: Tolerances
) -> Iterator[Reason]:
    name = record.name
    if raw.generated is not None and raw.generated.error_text:
        yield reason("generator_failed", f"{name}: {raw.generated.error_text}", stream=name)
    if raw.generated is None or record.generator_packets is None or record.offered_packets is None:
        yield reason("not_measured", f"{name}: the generator did not report", stream=name)
        return
    if record.generator_packets == 0:
        yield reason("no_packets", f"{name}: the generator sent nothing", stream=name)
        return
    errors = raw.generated.errors or 0
    if errors and record.generator == "pktgen":
        yield reason("generator_errors", f"{name}: pktgen reports {errors} errors", stream=name, errors=errors)
    if record.intended_packets is not None:
        short = (record.intended_packets - record.offered_packets) / record.intended_packets
        if abs(short) > limits.offered_ratio:
            yield _judge_off_target(seen, raw, record, request, limits, short)
    if record.offered_duration_s is not None:
        stretch = record.offered_duration_s / request.duration_s - 1
        if abs(stretch) > limits.duration_ratio:
            yield reason(
                "duration_stretched" if stretch > 0 else "duration_cut",
                f"{name}: sent for {record.offered_duration_s:.3f} s instead of {request.duration_s:g} s",
                stream=name,
                offered_duration_s=record.offered_duration_s,
                requested_s=request.duration_s,
            )


def _judge_off_target(
    seen: TrialObservations,
    raw: StreamObservations,
    record: StreamRecord,
    request: DesignPoint,
    limits: Tolerances,
    short: float,
) -> Reason:
    """Offered compared with intended packets; if they are fewer, with the known causes."""
    evidence = {
        "stream": record.name,
        "offered_packets": record.offered_packets,
        "intended_packets": record.intended_packets,
    }
    amounts = f"{record.name}: {record.offered_packets} packets offered, {abs(short):.2%} "
    if short < 0:
        return reason("offered_over", f"{amounts}above the intended {record.intended_packets}", **evidence)
    causes = list(find_shortfall_causes(seen, raw, request, limits))
    failed = raw.generated.error_text if raw.generated is not None else None
    why = "; ".join(cause.detail for cause in causes) or failed or "nothing shows what slowed the source down"
    return reason(
        "offered_short",
        f"{amounts}short of the intended {record.intended_packets}: {why}",
        **evidence,
        causes=[cause.to_json() for cause in causes],
    )


def _witnesses(raw: StreamObservations, record: StreamRecord, limits: Tolerances) -> Iterator[Reason]:
    name = record.name
    if record.measured_packets is None:
        yield reason("not_measured", f"{name}: neither the capture nor the sink's counters could be read", stream=name)
        return
    if record.loss_packets is not None and record.loss_packets < 0:
        yield reason(
            "negative_loss",
            f"{name}: {-record.loss_packets} more packets were measured than offered",
            stream=name,
            packets=-record.loss_packets,
        )
    if record.capture is None:
        detail = f"{name}: there is no capture, only the sink's counters"
        yield reason("capture_missing", detail, stream=name)
    elif not record.capture.complete and not timed_all(record):
        dropped = record.capture.dropped_packets
        lost = f"tcpdump missed {'an unknown number of' if dropped is None else dropped} packets"
        if dropped == 0:
            captured = record.capture.captured_packets
            lost = f"the capture holds only {captured} packets, although tcpdump reports none as missed"
        yield reason(
            "capture_incomplete",
            f"{name}: {lost}; measured comes from the sink's counters",
            stream=name,
            dropped_packets=record.capture.dropped_packets,
            drops=capture_drops(raw.capture) if raw.capture is not None else {},
        )
    yield from _disagreement(record)
    yield from _judge_instrument_loss(record, limits)
    if record.sequence is not None and record.sequence.duplicate_packets:
        times = record.sequence.duplicate_packets
        yield reason("duplicates", f"{name}: {times} packets arrived more than once", stream=name, packets=times)


def _disagreement(record: StreamRecord) -> Iterator[Reason]:
    """Contradictions between two counts of the same packets."""
    name, sink_rx = record.name, record.counters.get("sink_rx_packets")
    if record.capture is not None and record.capture.complete and sink_rx is not None:
        more = record.capture.captured_packets - sink_rx
        if more > 0:
            yield reason(
                "witnesses_disagree",
                f"{name}: {more} more packets were captured than the sink's NIC counted",
                stream=name,
                captured_packets=record.capture.captured_packets,
                sink_rx_packets=sink_rx,
            )
    yield from _timed_otherwise(record, sink_rx)
    source_tx, dropped = record.counters.get("source_tx_packets"), _dropped_at_source(record)
    made = record.generator_packets
    if source_tx is not None and made is not None and source_tx + dropped < made:
        yield reason(
            "witnesses_disagree",
            f"{name}: the generator reports {made} packets, the source's NIC sent {source_tx}",
            stream=name,
            generator_packets=made,
            source_tx_packets=source_tx,
            dropped_packets=dropped,
        )


def _timed_otherwise(record: StreamRecord, sink_rx: int | None) -> Iterator[Reason]:
    """A contradiction if the sink kernel's count is not between the captured packets and the NIC's count."""
    packets = third_count(record)
    if packets is None:
        return
    did = "counted" if packet_times(record) is None else "timed"
    captured = record.capture.captured_packets if record.capture is not None else 0
    figures = {"stream": record.name, "timed_packets": packets}
    if packets < captured:
        detail = f"{record.name}: {captured} packets were captured, {packets} {did} in the sink's kernel"
        yield reason("witnesses_disagree", detail, **figures, captured_packets=captured)
    if sink_rx is not None and packets > sink_rx:
        detail = f"{record.name}: {packets} packets were {did} in the sink's kernel, its NIC counted {sink_rx}"
        yield reason("witnesses_disagree", detail, **figures, sink_rx_packets=sink_rx)
    measured = record.measured_packets
    if record.measured_from == "counters" and measured is not None and measured > packets:
        more = measured - packets
        detail = f"{record.name}: measured holds {more} packets that the sink's NIC counted and its kernel never {did}"
        yield reason("untimed_packets", detail, **figures, packets=more)


def _judge_instrument_loss(record: StreamRecord, limits: Tolerances) -> Iterator[Reason]:
    """Packets beyond the tolerance that the instrument lost and not the unit under test, according to two counters."""
    for hop, lost, code, where in (
        (_hop(record, "source_nic"), record.source_lost_packets, "lost_at_source", "before they were on the wire"),
        (_hop(record, "sink_nic"), lost_at_sink(record), "lost_at_sink", "after the unit under test's port"),
    ):
        sent = record.generator_packets
        if hop is None or not lost or not sent or lost <= limits.outside_loss_ratio * sent:
            continue
        if code == "lost_at_source" and not hop.drops:
            continue  # no counter shows that it dropped them: two counts that disagree
        drop_counts = ", ".join(f"{name} {packets}" for name, packets in hop.drops.items()) or "no counter says why"
        yield reason(
            code,
            f"{record.name}: {lost} packets were lost {where} ({drop_counts}): not by the unit under test",
            stream=record.name,
            lost_packets=lost,
            drops=hop.drops,
        )


def lost_at_sink(record: StreamRecord) -> int:
    """The number of packets lost between the unit under test's port and the sink's, if both were read; otherwise 0.

    Uses both NICs' counters, so that foreign packets on the same cable are on both sides of the difference.
    """
    hop = _hop(record, "sink_nic") if record.sink_lost_packets is not None else None
    return hop.lost_packets or 0 if hop is not None else 0


def _hop(record: StreamRecord, name: str) -> LedgerHop | None:
    return next((each for each in record.ledger if each.hop == name), None)


def _buffered(record: StreamRecord) -> Iterator[Reason]:
    """Doubts if only counter samples show when packets arrived: the late ones and the rate are then uncertain."""
    late = find_queue_drain(record)
    if late is not None and late.window_from == "counters":
        yield reason("buffered", f"{record.name}: {late.sentence}", stream=record.name, **late.figures)
    error = coarse(record)
    if error is not None:
        yield reason("rate_uncertain", f"{record.name}: {error.sentence}", stream=record.name, **error.figures)


def _dropped_at_source(record: StreamRecord) -> int:
    """Packets that the source's own queue and driver report as dropped after they had accepted them."""
    hop = _hop(record, "source_nic")
    return sum(hop.drops.values()) if hop is not None else 0
