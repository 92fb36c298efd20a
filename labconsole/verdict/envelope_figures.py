"""Computes the figures of an envelope from the records of calibration trials. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labconsole.measure.maximum import LossTrial, loss_bounds
from labconsole.model.inventory import Stream
from labconsole.model.record.envelope import (
    PEAK_WINDOWS_MS,
    Bounds,
    CalibrationTrial,
    Gaps,
    RatePoint,
    Spacing,
    StreamEnvelope,
    TargetBps,
    TrialCounts,
)
from labconsole.model.record.run import RunRecord, StreamRecord

PACE_KEPT_PACKETS = 2
"""Two frames closer than intended may be one late frame; more than two in a row are a burst."""

PEAK_RATIO = 1.05
"""The packets of a window, relative to the intended rate and one packet, above which the pace counts as lost."""

Purpose = Literal["maximum", "rate", "search"]


@dataclass(frozen=True, slots=True)
class TakenTrial:
    """One trial of a calibration and its purpose."""

    target_bps: TargetBps
    purpose: Purpose
    record: RunRecord


def honest_pps(stream: StreamRecord) -> float | None:
    """The rate that really left the source: the lowest of generator, source NIC and arrivals at the sink.

    A generator on a virtual device may count packets that the device then refused, and one delayed by a queue counts
    packets that are still in that queue when its time ends. The sink's time stamps are affected by neither.
    """
    sent = [count for count in (stream.offered_packets, stream.counters.get("source_tx_packets")) if count is not None]
    if not sent or not stream.offered_duration_s:
        return None
    rates = [min(sent) / stream.offered_duration_s]
    if stream.spacing is not None and stream.spacing.arrival_pps is not None and stream.capture is not None:
        # A capture that dropped packets covers the same time with fewer frames.
        seen, arrived = stream.capture.captured_packets, stream.counters.get("sink_rx_packets") or 0
        rates.append(stream.spacing.arrival_pps * max(arrived, seen) / seen if seen else stream.spacing.arrival_pps)
    return min(rates)


def _confirmed(stream: StreamRecord) -> bool:
    """Whether the NICs of source and sink counted at least the generated packets; other frames may be among theirs."""
    counts = [stream.counters.get(key) for key in ("source_tx_packets", "sink_rx_packets")]
    made = stream.generator_packets
    return made is not None and all(count is not None and count >= made for count in counts)


def split_by_witness(taken: list[TakenTrial], index: int) -> tuple[list[LossTrial], list[LossTrial]]:
    """The trials of one stream, according to its sink's counters and according to its capture."""
    counters, capture = [], []
    for trial in taken:
        stream = trial.record.streams[index]
        if not stream.offered_packets or stream.offered_pps is None or trial.record.failure is not None:
            continue
        sink_rx = stream.counters.get("sink_rx_packets")
        if sink_rx is not None:
            counters.append(LossTrial(trial.target_bps, stream.offered_pps, sink_rx >= stream.offered_packets))
        if stream.capture is not None:
            whole = stream.capture.complete and stream.capture.captured_packets >= stream.offered_packets
            capture.append(LossTrial(trial.target_bps, stream.offered_pps, whole))
    return counters, capture


def stream_envelope(stream: Stream, taken: list[TakenTrial], index: int) -> StreamEnvelope:
    records = [trial.record.streams[index] for trial in taken]
    maxima = [trial.record.streams[index] for trial in taken if trial.target_bps == "max"]
    rates = [pps for pps in map(honest_pps, maxima) if pps is not None]
    counters, capture = map(loss_bounds, split_by_witness(taken, index))
    return StreamEnvelope(
        stream=stream.name,
        source=str(stream.source),
        sink=str(stream.sink),
        generator=records[0].generator,
        generator_version=records[0].generator_version,
        maximum_pps=min(rates, default=None),
        maximum_best_pps=max(rates, default=None),
        maximum_confirmed=bool(maxima) and all(map(_confirmed, maxima)),
        rates=tuple(_rate(trial.target_bps, trial.record.streams[index]) for trial in taken if trial.purpose == "rate"),
        counters=Bounds(clean_pps=counters.clean_pps, lossy_pps=counters.lossy_pps),
        capture=Bounds(clean_pps=capture.clean_pps, lossy_pps=capture.lossy_pps),
        spacing=tuple(
            found
            for trial in taken
            if trial.purpose != "search"
            for found in [_spacing(trial.target_bps, trial.record.streams[index])]
            if found is not None
        ),
    )


def _rate(target_bps: TargetBps, stream: StreamRecord) -> RatePoint:
    assert target_bps != "max" and stream.intended_pps is not None, "rates are taken at targets"
    arrival_pps = stream.spacing.arrival_pps if stream.spacing is not None else None

    def error(rate_pps: float | None) -> float | None:
        return None if rate_pps is None else rate_pps / (stream.intended_pps or 1) - 1

    return RatePoint(
        target_bps=target_bps,
        intended_pps=stream.intended_pps,
        offered_pps=stream.offered_pps,
        offered_error_ratio=error(stream.offered_pps),
        arrival_pps=arrival_pps,
        arrival_error_ratio=error(arrival_pps),
    )


def _spacing(target_bps: TargetBps, stream: StreamRecord) -> Spacing | None:
    found = stream.spacing
    if found is None:
        return None

    def even(window_ms: int) -> bool:
        packets = found.peak_packets.get(str(window_ms))
        return packets is None or packets <= (stream.intended_pps or 0) * window_ms / 1000 * PEAK_RATIO + 1

    peaks: dict[str, float | None] = {}
    for window_ms in PEAK_WINDOWS_MS:
        packets = found.peak_packets.get(str(window_ms))
        peaks[str(window_ms)] = None if packets is None else packets * 1000 / window_ms
    verdict: Literal["constant rate", "microbursts"] | None = None
    if target_bps != "max":
        kept = found.burst_packets <= PACE_KEPT_PACKETS and all(map(even, PEAK_WINDOWS_MS))
        verdict = "constant rate" if kept else "microbursts"
    return Spacing(
        target_bps=target_bps,
        intended_gap_ns=stream.delay_ns or None,
        packets=found.packets,
        gap_ns=Gaps.model_validate(found.gap_ns),
        burst_packets=found.burst_packets,
        peak_pps=peaks,
        verdict=verdict,
    )


def trial_counts(trial: TakenTrial) -> CalibrationTrial:
    record = trial.record
    return CalibrationTrial(
        target_bps=trial.target_bps,
        purpose=trial.purpose,
        streams=tuple(
            TrialCounts(
                stream=stream.name,
                offered_packets=stream.offered_packets,
                offered_pps=stream.offered_pps,
                source_tx_packets=stream.counters.get("source_tx_packets"),
                sink_rx_packets=stream.counters.get("sink_rx_packets"),
                captured_packets=stream.capture.captured_packets if stream.capture else None,
                capture_dropped_packets=stream.capture.dropped_packets if stream.capture else None,
                capture_complete=stream.capture.complete if stream.capture else None,
            )
            for stream in record.streams
        ),
        failure=record.failure.message if record.failure is not None else None,
    )


def explain_missing(record: RunRecord) -> str:
    return "; ".join(reason.detail for reason in record.verdict.reasons) or "no reason given"
