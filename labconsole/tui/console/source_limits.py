"""The highest rates that sources reached, to warn of a target beyond them while it is typed. Pure.

They come from the calibration, if it covers the frame size and the number of sources, or else from past runs that fell
short of their target. Either is an observation, no promise: the machine may have been busy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labconsole.model.design_point import DesignPoint
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.summary import RunSummary
from labconsole.text.cells import format_rounded

SHORT_RATIO = 0.97
"""A run that offered less than this share of its target had a source at its limit."""


@dataclass(frozen=True, slots=True)
class SourceLimit:
    """``name``: the source, or "a source" if runs give only the sum of all."""

    name: str
    pps: float
    origin: str

    def wordings(self, intended_pps: float | None) -> tuple[str, ...]:
        """Warnings for a higher target, longest first. Empty if the target is not higher."""
        if intended_pps is None or intended_pps <= self.pps:
            return ()
        rate = format_rounded(float(f"{self.pps:.2g}"))
        return (
            f"{self.name} tops out near {rate} packets/s ({self.origin}); this asks for {format_rounded(intended_pps)}",
            f"{self.name} tops out near {rate} pps ({self.origin})",
            f"{self.name}: about {rate} pps",
            f"at most {rate} pps",
        )


def find_source_limit(
    request: DesignPoint, envelope: Envelope | None, past: Iterable[RunSummary]
) -> SourceLimit | None:
    """The limit of the weakest source, or None if neither a calibration nor a run covers such frames."""
    calibrated = _find_calibrated_limit(request, envelope)
    return calibrated if calibrated is not None else _find_observed_limit(request, past)


def _find_calibrated_limit(request: DesignPoint, envelope: Envelope | None) -> SourceLimit | None:
    point = envelope.point_for(request.frame.pkt_size_bytes, request.sources) if envelope is not None else None
    if point is None:
        return None
    reached = [
        (most, stream.source.partition("/")[0])
        for stream in point.streams[: request.sources]
        if (most := point.most_offered_pps(stream.stream)) is not None
    ]
    if not reached:
        return None
    pps, name = min(reached)
    return SourceLimit(name, pps, "calibration")


def _find_observed_limit(request: DesignPoint, past: Iterable[RunSummary]) -> SourceLimit | None:
    """The highest rate that runs with these frames and sources offered per source, if one of them fell short."""
    most, short = 0.0, False
    for run in past:
        same = (run.frame, run.sources) == (request.frame, request.sources)
        if not same or run.offered_pps is None or run.verdict == "invalid":
            continue
        if request.generator not in ("auto", run.generator):
            continue
        each_pps = run.offered_pps / run.sources
        most = max(most, each_pps)
        if run.target_bps in (None, "max"):
            short = True
        else:
            short = short or each_pps < SHORT_RATIO * request.frame.rate_pps(float(run.target_bps))
    return SourceLimit("a source", most, "past runs") if short and most else None
