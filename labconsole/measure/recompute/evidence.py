"""Compares the figures of a verdict's reasons with the record and the tolerances. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from labconsole.measure.packet_times import third_count
from labconsole.measure.recompute.discrepancy import RELATIVE_ERROR
from labconsole.measure.recompute.loss_attribution import find_rate_uncertainty
from labconsole.model.record.run import LedgerHop, Reason, RunRecord, StreamRecord

CALIBRATED = 1.01
"""A rate up to this many times a calibrated bound is not beyond it."""


def limit_of(record: RunRecord, name: str) -> float | None:
    """A tolerance that was in force, or None if it is not recorded."""
    return None if record.in_force is None else record.in_force.tolerances.get(name)


def number(value: Any) -> float:
    """A number from a node's data; 0 for anything else, which then decides nothing."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def hop_of(stream: StreamRecord, name: str) -> LedgerHop | None:
    """A point of a stream's path."""
    return next((hop for hop in stream.ledger if hop.hop == name), None)


def lost_at_sink(stream: StreamRecord) -> int:
    """The loss between the two NICs, so that foreign packets on the same cable are on both sides of the difference."""
    hop = hop_of(stream, "sink_nic")
    return hop.lost_packets or 0 if hop is not None and stream.sink_lost_packets is not None else 0


def wrong_figures(record: RunRecord, reason: Reason, by_name: Mapping[str, StreamRecord]) -> Iterator[str]:
    """Sentences on figures of a reason that differ from the record, or that are within their tolerance."""
    evidence = reason.evidence or {}
    places = evidence.get("places")
    for place in places if isinstance(places, list) else [evidence]:
        if not isinstance(place, dict):
            yield "one of its places is not a set of figures"
            continue
        stream = by_name.get(str(place.get("stream")))
        if "stream" in place and stream is None:
            yield f"there is no stream {str(place['stream'])[:80]!r}"
        if stream is not None:
            for name, recorded in _repeated_figures(reason.code, stream).items():
                if name in place and not _same(place[name], recorded):
                    yield f"says {name} {str(place[name])[:80]}, and the record holds {recorded}"
        yield from _within(record, reason.code, place)


def _same(said: Any, recorded: Any) -> bool:
    if isinstance(said, float) and isinstance(recorded, float):
        return math.isclose(said, recorded, rel_tol=RELATIVE_ERROR)
    return bool(said == recorded)


def _repeated_figures(code: str, stream: StreamRecord) -> dict[str, Any]:
    """The record's values for figures of a reason, by figure."""
    capture, arrivals = stream.capture, stream.arrivals
    found: dict[str, Any] = {
        name: getattr(stream, name)
        for name in ("generator_packets", "offered_packets", "intended_packets", "offered_duration_s")
    }
    found |= {name: stream.counters.get(name) for name in ("source_tx_packets", "sink_rx_packets")}
    found["captured_packets"] = None if capture is None else capture.captured_packets
    counted = third_count(stream)
    found["timed_packets"] = counted
    if code == "negative_loss":
        found["packets"] = None if stream.loss_packets is None else -stream.loss_packets
    elif code == "duplicates":
        found["packets"] = stream.sequence.duplicate_packets if stream.sequence is not None else None
    elif code == "untimed_packets" and counted is not None:
        found["packets"] = (stream.measured_packets or 0) - counted
    elif code == "capture_incomplete":
        found["dropped_packets"] = None if capture is None else capture.dropped_packets
    elif code == "lost_at_source":
        found["lost_packets"] = stream.source_lost_packets
    elif code == "lost_at_sink":
        found["lost_packets"] = lost_at_sink(stream)
    elif code == "buffered" and arrivals is not None:
        found |= {"late_packets": arrivals.late_packets, "packets": arrivals.packets}
    elif code == "rate_uncertain" and arrivals is not None:
        found |= {"resolution_s": arrivals.resolution_s, "rate_error_ratio": find_rate_uncertainty(stream)}
    elif code == "instrument_limited" and stream.intended_pps is not None:
        found["rate_pps"] = stream.intended_pps  # at target max it is the calibration's, which records do not contain
    return found


MEASURED_BY = {
    "sources_apart": ("start_skew_s", "start_skew_s", 1.0),
    "clock_stepped": ("moved_ns", "clock_step_s", 1e-9),
    "other_cpu": ("cpu_ratio", "other_cpu_ratio", 1.0),
    "cpu_stolen": ("steal_ratio", "steal_ratio", 1.0),
}
"""By code: the figure, the tolerance that it must exceed, and the figure's unit in the tolerance's."""


def _within(record: RunRecord, code: str, evidence: Mapping[str, Any]) -> Iterator[str]:
    if code in MEASURED_BY:
        figure, tolerance, unit = MEASURED_BY[code]
        value, limit = evidence.get(figure), limit_of(record, tolerance)
        if value is not None and limit is not None and abs(number(value)) * unit <= limit:
            yield f"{figure} {value} is within the tolerance, {limit:g}"
    if code == "instrument_limited":
        rate_pps, bound_pps = (evidence.get(name) for name in ("rate_pps", "calibrated_pps"))
        if bound_pps is not None and number(rate_pps) <= number(bound_pps) * CALIBRATED:
            yield f"rate_pps {rate_pps} is not more than 1 % beyond calibrated_pps {bound_pps}"
    if code == "samples_missed":
        missed, due = (number(evidence.get(name)) for name in ("missed_samples", "due_samples"))
        limit = limit_of(record, "missed_samples_ratio")
        if limit is not None and due and missed / due <= limit:
            yield f"{missed:g} of {due:g} samples are within the tolerance, {limit:g}"
        if missed > due:
            yield f"{missed:g} of {due:g} samples are reported missing"
