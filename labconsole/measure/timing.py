"""Derives a run's delay and spacing from the counted time stamps of a capture. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

from labconsole.model.record.timing import Delay, OneWayDelay, Quantiles, StreamSpacing, Variation
from labconsole.wire.capture import CountedDelay, CountedSpacing
from labconsole.wire.message import Message

Kept = TypeVar("Kept", bound=Quantiles)

MARGIN = 10
"""A delay is called one-way only if it is at least this many times the possible error of its two time stamps."""

STAMP_UNIT_NS = 1000
"""pktgen's header has microseconds, cut off: every delay is too long by up to this."""


def clock_bound_ns(source: dict[str, Any], sink: dict[str, Any]) -> int | None:
    """The bound between the wall clocks of two nodes, by the record's ``environment.nodes``, or None if unknown.

    0 for nodes under one kernel (the same boot), which have one clock. Else their offsets' distance plus both errors.
    """
    boots = [node.get("facts", {}).get("boot_id") for node in (source, sink)]
    if boots[0] is not None and boots[0] == boots[1]:
        return 0
    apart = clocks_apart_ns(source, sink)
    return None if apart is None else sum(apart)


def clocks_apart_ns(source: dict[str, Any], sink: dict[str, Any]) -> tuple[int, int] | None:
    """(difference of two nodes' clocks by their comparison with ours, its possible error)."""
    figures = [node.get(key) for node in (source, sink) for key in ("clock_offset_ns", "clock_error_ns")]
    if not all(isinstance(figure, int) for figure in figures):
        return None
    source_offset_ns, source_error_ns, sink_offset_ns, sink_error_ns = (int(figure or 0) for figure in figures)
    return abs(sink_offset_ns - source_offset_ns), source_error_ns + sink_error_ns


def build_delay(
    counted: CountedDelay | None, *, clocks_ns: int | None, stamp_lead_ns: int, ahead_ns: int = 0
) -> Delay | None:
    """A stream's delay from the count of its capture, or None if the frames carry no time stamps.

    ``clocks_ns``: the bound between sender's and capture's clock, 0 for one clock or None if unknown.
    ``stamp_lead_ns``: how long before its sending a frame may have been stamped. ``ahead_ns``: by how much the
    capture's stamps are ahead because they are of another time scale.
    """
    if counted is None:
        return None
    raw = {name: getattr(counted.raw_ns, name) - ahead_ns for name in OneWayDelay.model_fields}
    bound_ns, reason = one_way_doubt(clocks_ns, stamp_lead_ns, raw["p50"])
    return Delay(
        packets=counted.packets,
        pair_every_packets=counted.pair_every_packets,
        one_way=reason is None,
        reason=reason,
        clock_bound_ns=bound_ns,
        one_way_ns=None if reason is not None else OneWayDelay(**raw),
        pdv_ns=_copy_fields(Quantiles, counted.pdv_ns),
        ipdv_ns=None if counted.ipdv_ns is None else _copy_fields(Variation, counted.ipdv_ns),
        sampling="random",
    )


def one_way_doubt(clocks_ns: int | None, stamp_lead_ns: int, median_ns: int) -> tuple[int | None, str | None]:
    """(possible error of the two time stamps, why a delay with this median is not reported or None if it is)."""
    if clocks_ns is None:
        return None, "how far the clocks of source and sink agree is not known"
    bound_ns = clocks_ns + stamp_lead_ns + STAMP_UNIT_NS
    if bound_ns * MARGIN > median_ns:
        coarse = _coarsest(clocks_ns, stamp_lead_ns)
        return bound_ns, f"{coarse} to {bound_ns} ns only, too coarse for a median of {median_ns} ns"
    return bound_ns, None


def _coarsest(clocks_ns: int | None, stamp_lead_ns: int) -> str:
    if clocks_ns:
        return "the clocks of source and sink agree"
    return "the generator stamps frames, before it waits," if stamp_lead_ns else "frames are stamped"


def _copy_fields(kind: type[Kept], figures: Message) -> Kept:
    return kind(**{name: getattr(figures, name) for name in kind.model_fields})


def build_spacing(counted: CountedSpacing | None, arrival_pps: float | None) -> StreamSpacing | None:
    """The regularity of a stream's arrivals, or None if it was not analysed or at most one frame arrived."""
    if counted is None:
        return None
    return StreamSpacing(
        packets=counted.packets,
        arrival_pps=arrival_pps,
        gap_ns=counted.gap_ns.to_wire(),
        burst_packets=counted.burst_packets,
        peak_packets=counted.peak_packets,
    )
