"""Calibrations made up by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.envelope import (
    Bounds,
    CalibrationTrial,
    Envelope,
    EnvelopePoint,
    Gaps,
    NodeVersions,
    RatePoint,
    Spacing,
    StreamEnvelope,
    TrialCounts,
)
from labconsole.model.record.run import Reason
from labconsole.verdict.calibration_check import instrument_reasons
from support.store_samples import sample_record

SPACING = Spacing(
    target_bps=10**8,
    intended_gap_ns=7040,
    packets=1000,
    gap_ns=Gaps(min=2000, mean=7040.0, p50=7000, p99=9000, max=500_000),
    burst_packets=40,
    peak_pps={"1": 300_000.0, "10": 200_000.0, "100": None},
    verdict="microbursts",
)


def stream(
    name: str = "s1",
    *,
    maximum: float = 100_000.0,
    generator: str = "afpacket",
    capture: tuple[float | None, float | None] = (None, None),
    counters: tuple[float | None, float | None] = (None, None),
) -> StreamEnvelope:
    return StreamEnvelope(
        stream=name,
        source="src1/eth1",
        sink="snk1/eth1",
        generator=generator,
        generator_version="1",
        maximum_pps=maximum,
        maximum_best_pps=maximum * 1.5,
        maximum_confirmed=True,
        rates=(
            RatePoint(
                target_bps=10**8,
                intended_pps=142045.45,
                offered_pps=142045.45,
                offered_error_ratio=0.0,
                arrival_pps=142000.0,
                arrival_error_ratio=-0.00032,
            ),
        ),
        counters=Bounds(clean_pps=counters[0], lossy_pps=counters[1]),
        capture=Bounds(clean_pps=capture[0], lossy_pps=capture[1]),
        spacing=(SPACING,),
    )


def flat_out(offered_pps: float | None, failure: str | None = None) -> CalibrationTrial:
    counts: dict[str, Any] = dict.fromkeys(TrialCounts.model_fields) | {"stream": "s1", "offered_pps": offered_pps}
    return CalibrationTrial(target_bps="max", purpose="maximum", streams=(TrialCounts(**counts),), failure=failure)


def point(size: int = 64, sources: int = 1, most_pps: float | None = None, **options: Any) -> EnvelopePoint:
    """``most_pps``: what the better of two trials at target max offered."""
    taken = () if most_pps is None else (flat_out(most_pps), flat_out(0.9 * most_pps), flat_out(2 * most_pps, "failed"))
    return EnvelopePoint(
        frame_size_bytes=size,
        frame_size_includes_fcs=False,
        sources=sources,
        streams=(stream(**options),),
        trials=taken,
    )


VERSIONS = NodeVersions(kernel="6.1", os="Debian", tcpdump="4.99", cpus=2, drivers={"eth1": "ixgbe"})


def envelope(*points: EnvelopePoint) -> Envelope:
    return Envelope(
        calibration_id="20261121T024501Z-7f3a9c",
        started_at="2026-11-21T02:45:01.000Z",
        finished_at="2026-11-21T02:46:01.000Z",
        testbed="t",
        testbed_fingerprint="f",
        emulated=True,
        operator="op@console",
        labconsole_version="0.1.0",
        bypass="lab",
        proof=(),
        generator="auto",
        duration_s=0.5,
        capture_buffer_kib=65536,
        cut_short=False,
        nodes={"src1": VERSIONS},
        points=points or (point(),),
    )


REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**8, duration_s=5.0, generator="auto")


def reasons(found: Envelope | None, request: DesignPoint = REQUEST, **changes: Any) -> tuple[Reason, ...]:
    (record,) = sample_record().streams
    usual = {"generator": "afpacket", "intended_pps": request.intended_pps, "loss_packets": 5}
    record = record.model_copy(update={**usual, **changes})
    return instrument_reasons(found, request, (record,))


FLAT_OUT = replace(REQUEST, target="max")
