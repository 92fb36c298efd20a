"""Checks whether a run was within the calibrated range of the instrument: from envelope and run to doubts. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.record.envelope import Bounds, Envelope, EnvelopePoint, NodeVersions, StreamEnvelope
from labconsole.model.record.run import Environment, Figures, Reason, StreamRecord, Verdict
from labconsole.verdict.reasons import weighed

CODE = "instrument_limited"
UNKNOWN = "not_calibrated"
MARGIN_RATIO = 0.01
"""A rate less than this beyond a bound is not beyond it: bounds are only as repeatable as short trials."""

Doubt = tuple[str, str, Figures]
"""(code, readable description, evidence)."""


def instrument_reasons(
    envelope: Envelope | None, request: DesignPoint, streams: Sequence[StreamRecord]
) -> tuple[Reason, ...]:
    """One reason per stream whose request exceeds the calibration of its generator, its sink or its capture.

    Without an envelope there are no reasons. At target max a generator sends what it can, which is no fault of the run:
    there the most that it offered during calibration is compared with the bounds of the sink. Runs beyond the bounds
    enter no mean. Therefore request and calibration alone decide, which all repetitions share: deciding by a run's
    offered load, loss or arrivals would select repetitions by their outcome.
    """
    if envelope is None:
        return ()
    point = envelope.point_for(request.frame.pkt_size_bytes, request.sources)
    if point is None:
        sizes = sorted({p.frame.pkt_size_bytes for p in envelope.points})
        counts = sorted({p.sources for p in envelope.points})
        detail = (
            f"frames of {request.frame.pkt_size_bytes} B (without FCS) from {request.sources} sources "
            f"were not calibrated: {', '.join(map(str, sizes))} B from up to {counts[-1] if counts else 0} sources were"
        )
        evidence = {"calibration": envelope.calibration_id, "pkt_size_bytes": sizes, "sources": counts}
        return (Reason(code=UNKNOWN, detail=detail, evidence=evidence),)
    known = {each.stream: each for each in point.streams}
    return tuple(
        Reason(code=code, detail=detail, evidence={"calibration": envelope.calibration_id, **evidence})
        for stream in streams
        for code, detail, evidence in _doubts(stream, known.get(stream.name), point, request)
    )


def _doubts(
    stream: StreamRecord, known: StreamEnvelope | None, point: EnvelopePoint, request: DesignPoint
) -> Iterator[Doubt]:
    if known is None or known.generator != stream.generator:
        what = "was not calibrated" if known is None else f"was calibrated with {known.generator}"
        yield (
            UNKNOWN,
            f"{stream.name}: {what}, but the run used {stream.generator}",
            {"stream": stream.name, "generator": stream.generator, "calibrated": known.generator if known else None},
        )
        return
    yield from rate_doubts(known, point, request, stream.intended_pps)


def rate_doubts(
    known: StreamEnvelope, point: EnvelopePoint, request: DesignPoint, intended_pps: float | None
) -> Iterator[Doubt]:
    """The parts of a stream that are beyond its envelope, or unknown, at this rate.

    ``intended_pps`` None: target max.
    """
    bounds = _sink_bounds(known)
    if intended_pps is None:
        yield from _doubts_flat_out(known, point, request, bounds)
        return
    if known.maximum_pps is not None:
        bounds = {f"the generator of {known.source}": known.maximum_pps, **bounds}
    yield from _beyond(known, point, intended_pps, "requested", bounds)


def _sink_bounds(known: StreamEnvelope) -> dict[str, float]:
    """The highest rate without misses of each part of a sink that has a bound, by description."""
    found = {
        f"the counters of {known.sink}": sink_bound_pps(known.counters),
        f"the capture at {known.sink}": sink_bound_pps(known.capture),
    }
    return {what: bound_pps for what, bound_pps in found.items() if bound_pps is not None}


def _doubts_flat_out(
    known: StreamEnvelope, point: EnvelopePoint, request: DesignPoint, bounds: Mapping[str, float]
) -> Iterator[Doubt]:
    """Compare the generator's calibrated maximum with the sink's bounds, for target max.

    A larger frame, and more simultaneous sources, offer fewer packets. A point that covers the request without
    equalling it can therefore show that the sink is too slow, but not that it is fast enough.
    """
    most_pps = point.most_offered_pps(known.stream)
    beyond = []
    if most_pps is not None:
        beyond = list(_beyond(known, point, most_pps, "at target max its generator offers up to", bounds))
    yield from beyond
    exact = (point.frame.pkt_size_bytes, point.sources) == (request.frame.pkt_size_bytes, request.sources)
    if bounds and not beyond and (most_pps is None or not exact):
        size = _size(request.frame.pkt_size_bytes, request.sources)
        yield (
            UNKNOWN,
            f"{known.stream}: it was not calibrated how much its generator offers at target max ({size}), and "
            f"{' and '.join(bounds)} missed packets while calibrated",
            {"stream": known.stream, "pkt_size_bytes": request.frame.pkt_size_bytes, "sources": request.sources},
        )


def _beyond(
    known: StreamEnvelope, point: EnvelopePoint, rate_pps: float, says: str, bounds: Mapping[str, float]
) -> Iterator[Doubt]:
    size = _size(point.frame.pkt_size_bytes, point.sources)
    for what, bound_pps in bounds.items():
        if rate_pps > bound_pps * (1 + MARGIN_RATIO):
            yield (
                CODE,
                f"{known.stream}: {says} {rate_pps:.0f} packets/s, {what} is calibrated up to {bound_pps:.0f} ({size})",
                {
                    "stream": known.stream,
                    "part": what,
                    "rate_pps": rate_pps,
                    "calibrated_pps": bound_pps,
                    "pkt_size_bytes": point.frame.pkt_size_bytes,
                    "sources": point.sources,
                },
            )


def _size(pkt_size_bytes: int, sources: int) -> str:
    return f"{pkt_size_bytes} B and {sources} source{'s' if sources > 1 else ''} at once"


def sink_bound_pps(found: Bounds) -> float | None:
    """The highest rate at which a sink's counters or capture missed nothing, 0 if there is none.

    None if no trial made them miss any.
    """
    if found.lossy_pps is None:
        return None
    return 0.0 if found.clean_pps is None else found.clean_pps


def doubted(verdict: Verdict, reasons: Sequence[Reason]) -> Verdict:
    """The verdict with further reasons that make a run suspect."""
    return weighed((*verdict.reasons, *reasons)) if reasons else verdict


def select_envelope(
    envelope: Envelope | None, inventory: Inventory, versions: Mapping[str, NodeVersions], now: datetime
) -> tuple[Envelope | None, Environment]:
    """The envelope to compare a run with, or None if no valid one exists, and the entries for the run's record.

    ``versions``: kernels and drivers of the nodes at both ends of the run's streams.
    """
    void = None
    if envelope is not None:
        void = envelope.void_reason(inventory.fingerprint(), versions, inventory.defaults.capture_buffer_kib)
    said = calibration_facts(envelope, void, now)
    return (envelope if void is None else None), said


def calibration_facts(envelope: Envelope | None, void: str | None, now: datetime) -> Environment:
    """The entries of a record's environment: the calibration that the run was compared with, or why there is none."""
    if envelope is None or void is not None:
        return {"calibration": None, "calibration_void": void}
    age_s = (now - datetime.fromisoformat(envelope.finished_at)).total_seconds()
    return {
        "calibration": {"id": envelope.calibration_id, "finished_at": envelope.finished_at, "age_s": round(age_s)},
        "calibration_void": None,
    }
