"""The verdict: valid, suspect or invalid, with every reason as a code and a sentence. Pure; no I/O, no clock.

invalid: the numbers cannot be stood behind and enter no mean. suspect: they stand, with a doubt that is named.
docs/data-format.md lists the codes.
"""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.engine.observations import StreamSeen, TrialSeen
from labconsole.errors import CounterInconsistency
from labconsole.measure.rates import sample_difference
from labconsole.model.record import Reason, StreamRecord, Verdict
from labconsole.model.request import TrialRequest
from labconsole.model.tolerances import Tolerances

INVALID = {
    "aborted",
    "link_lost",
    "failed",
    "no_packets",
    "not_measured",
    "negative_loss",
    "counter_decreased",
    "generator_failed",
    "witnesses_disagree",
}
"""Codes that make a run invalid; every other reason makes it suspect."""


def judge(seen: TrialSeen, streams: tuple[StreamRecord, ...], request: TrialRequest, limits: Tolerances) -> Verdict:
    """The verdict on one trial from what was seen and what was derived from it."""
    reasons = [Reason(code=code, detail=detail) for code, detail in _reasons(seen, streams, request, limits)]
    if any(reason.code in INVALID for reason in reasons):
        return Verdict(status="invalid", reasons=tuple(reasons))
    return Verdict(status="suspect" if reasons else "valid", reasons=tuple(reasons))


def _reasons(
    seen: TrialSeen, streams: tuple[StreamRecord, ...], request: TrialRequest, limits: Tolerances
) -> Iterator[tuple[str, str]]:
    if seen.aborted:
        yield "aborted", "the operator stopped the run"
    elif seen.failure is not None:
        yield ("link_lost" if seen.failure.failure == "node_lost" else "failed"), seen.failure.message
    if seen.start_skew_s is not None and seen.start_skew_s > limits.start_skew_s:
        yield "sources_apart", f"the sources started {seen.start_skew_s * 1e3:.1f} ms apart"
    if seen.drained is False:
        yield "not_drained", "counters at the UUT or a sink still moved when the wait for them ended"
    due = seen.samples + seen.missed_samples
    if due and seen.missed_samples / due > limits.missed_samples_ratio:
        yield "samples_missed", f"{seen.missed_samples} of {due} counter samples were not taken or not delivered"
    yield from _decreased(seen)
    for raw, record in zip(seen.streams, streams, strict=True):
        if not seen.aborted:
            yield from _generator_reasons(raw, record, request, limits)
        yield from _witness_reasons(raw, record, limits)


def _decreased(seen: TrialSeen) -> Iterator[tuple[str, str]]:
    for node, before in seen.before.items():
        for (namespace, interface), first in before.items():
            last = seen.after.get(node, {}).get((namespace, interface))
            if last is None:
                continue
            try:
                sample_difference(first, last)
            except CounterInconsistency as exc:
                yield "counter_decreased", f"{node}/{namespace + '/' if namespace else ''}{interface}: {exc}"


def _generator_reasons(
    raw: StreamSeen, record: StreamRecord, request: TrialRequest, limits: Tolerances
) -> Iterator[tuple[str, str]]:
    name = record.name
    if raw.generated is None or record.offered_packets is None:
        yield "not_measured", f"{name}: the generator gave no report"
        return
    if record.offered_packets == 0:
        yield "no_packets", f"{name}: the generator sent nothing"
        return
    if raw.generated.get("error_text"):
        yield "generator_failed", f"{name}: {raw.generated['error_text']}"
    errors = raw.generated.get("errors") or 0
    if errors and record.generator == "pktgen":
        yield "generator_errors", f"{name}: pktgen reports {errors} errors"
    if record.intended_packets is not None:
        short = (record.intended_packets - record.offered_packets) / record.intended_packets
        if abs(short) > limits.offered_ratio:
            word = "short of" if short > 0 else "above"
            yield (
                "offered_short" if short > 0 else "offered_over",
                f"{name}: {record.offered_packets} packets offered, {abs(short):.2%} {word} the intended "
                f"{record.intended_packets}",
            )
    if record.offered_duration_s is not None:
        stretch = record.offered_duration_s / request.duration_s - 1
        if abs(stretch) > limits.duration_ratio:
            yield (
                "duration_stretched" if stretch > 0 else "duration_cut",
                f"{name}: sent for {record.offered_duration_s:.3f} s instead of {request.duration_s:g} s",
            )


def _witness_reasons(raw: StreamSeen, record: StreamRecord, limits: Tolerances) -> Iterator[tuple[str, str]]:
    name = record.name
    if record.measured_packets is None:
        yield "not_measured", f"{name}: neither the capture nor the sink's counters could be read"
        return
    if record.loss_packets is not None and record.loss_packets < 0:
        yield "negative_loss", f"{name}: {-record.loss_packets} packets more were measured than offered"
    if record.capture is None:
        yield "capture_missing", f"{name}: there is no capture; the sink's counters stand alone"
    elif not record.capture.complete:
        lost = "an unknown number of" if record.capture.dropped_packets is None else record.capture.dropped_packets
        yield "capture_incomplete", f"{name}: tcpdump missed {lost} packets; measured comes from the sink's counters"
    sink_rx = record.counters.get("sink_rx_packets")
    if record.capture is not None and record.capture.complete and sink_rx is not None:
        difference = sink_rx - record.capture.captured_packets
        if difference < 0:
            yield "witnesses_disagree", f"{name}: {-difference} packets more captured than the sink's NIC counted"
        elif difference > limits.foreign_packets:
            yield "foreign_frames", f"{name}: the sink's NIC received {difference} packets that are not the stream's"
    sent_by_nic = record.counters.get("source_tx_packets")
    if sent_by_nic is not None and record.offered_packets is not None and sent_by_nic < record.offered_packets:
        yield (
            "witnesses_disagree",
            f"{name}: the generator reports {record.offered_packets} packets, the source's NIC sent {sent_by_nic}",
        )
    if record.sequence is not None and record.sequence.duplicate_packets:
        yield "duplicates", f"{name}: {record.sequence.duplicate_packets} packets arrived more than once"
