"""Calibration on the Check screen, as text: its steps, its progress, its findings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from labconsole.engine.calibration.offer import CalibrationOffer
from labconsole.model.plan.plan import Plan
from labconsole.model.record.envelope import Bounds, Envelope, StreamEnvelope
from labconsole.text.cells import format_duration, format_rounded, safe

WIRED = {
    "lab": "The lab is wired around the unit under test, and back afterwards.",
    "inventory": "The testbed's own platform bypasses the unit under test.",
    "patched": "The unit under test must be bypassed by hand first, as listed under Result.",
}


def build_question(offer: CalibrationOffer, plan: Plan | None = None) -> tuple[str, str]:
    """The question before a calibration, and the effect of a yes."""
    sizes = ", ".join(str(frame.bytes) for frame in offer.wanted.frames)
    counts = " and ".join(map(str, offer.wanted.source_counts))
    why = f" (what plan {safe(plan.name, 40)} needs)" if plan is not None else ""
    does = (
        f"It measures what sources and sinks can do by themselves: frames of {sizes} B, {counts} sources at once{why}, "
        f"in about {format_duration(offer.about_s)} and more where bounds are narrowed. No run is saved."
    )
    return "Calibrate the testbed?", f"{WIRED[offer.bypass]} {does}"


def cable_lines(offer: CalibrationOffer) -> list[str]:
    """Cables that an operator has to connect before a yes."""
    return ["Before you say yes:", *offer.cables] if offer.cables else []


def format_calibration_age(envelope: Envelope | None, now_wall_s: float) -> str:
    """Format the time of the last calibration."""
    if envelope is None:
        return "not calibrated"
    ago_s = now_wall_s - datetime.fromisoformat(envelope.finished_at).timestamp()
    return f"calibrated {format_duration(ago_s)} ago"


def format_envelope(envelope: Envelope) -> Iterator[str]:
    """Yield the highest rate of each source and sink, in packets per second."""
    yield f"Calibration of {envelope.finished_at[:16].replace('T', ' ')} UTC, by {safe(envelope.operator, 60)}"
    if envelope.cut_short:
        yield "Some bounds are wider than wanted: the time limit was reached."
    for point in envelope.points:
        yield f"{point.frame.words()}, {point.sources} source{'s' if point.sources > 1 else ''} at once:"
        for stream in point.streams:
            yield f"  {_source(stream)}; {_sink(stream)}"


def _source(stream: StreamEnvelope) -> str:
    node = stream.source.partition("/")[0]
    if stream.maximum_pps is None:
        return f"{node}: its maximum is unknown"
    sure = "" if stream.maximum_confirmed else " (not confirmed by the NICs)"
    return f"{node} sends up to {format_rounded(stream.maximum_pps)} packets/s{sure}"


def _sink(stream: StreamEnvelope) -> str:
    node, bounds = stream.sink.partition("/")[0], _lower(stream.counters, stream.capture)
    if bounds.lossy_pps is None:
        return f"{node} lost nothing up to {format_rounded(bounds.clean_pps)}"
    if bounds.clean_pps is None:
        return f"{node} lost packets in every trial, from {format_rounded(bounds.lossy_pps)} up"
    clean, lossy = format_rounded(bounds.clean_pps), format_rounded(bounds.lossy_pps)
    return f"{node} loses nothing up to {clean}, something from {lossy}"


def _lower(*both: Bounds) -> Bounds:
    """The lower of counters and capture: the one that loses first."""
    return min(both, key=lambda each: float("inf") if each.lossy_pps is None else each.lossy_pps)
