"""Every derived number of a run record, computed again from the raw counts in the same record. Pure.

Raw are: what was requested, the generator's count and time, the capture's count and its completeness, the counters and
the packets at each hop. Everything else follows from them, so a record that says otherwise was damaged or changed. The
formulas are stated here a second time on purpose: a check that calls the code it checks finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from labconsole.model.record import Background, RunRecord, StreamRecord

Number = int | float | str | None

RELATIVE_ERROR = 1e-9
"""Rates are floats: the order of two multiplications may move the last bits."""

BACKGROUND_FRAME_BYTES = 64
"""Frames of a second guest's own stream."""

DERIVED = (
    "offered_pps",
    "offered_bps",
    "measured_packets",
    "measured_pps",
    "measured_bps",
    "loss_packets",
    "loss_ratio",
)
"""What a stream and the totals both have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One number that does not follow from its raw counts. ``where``: a path into the record."""

    where: str
    stored: Number
    recomputed: Number


def recompute(record: RunRecord) -> list[Discrepancy]:
    """Every derived number that differs from what the raw counts of the record give; empty when all follow."""
    return [
        Discrepancy(where=where, stored=stored, recomputed=again)
        for where, stored, again in _pairs(record)
        if not _same(stored, again)
    ]


def _same(stored: Number, again: Number) -> bool:
    if isinstance(stored, float) or isinstance(again, float):
        if not isinstance(stored, int | float) or not isinstance(again, int | float):
            return False
        return math.isclose(stored, again, rel_tol=RELATIVE_ERROR, abs_tol=0.0)
    return stored == again


def _pairs(record: RunRecord) -> Iterator[tuple[str, Number, Number]]:
    asked = record.requested
    size = asked.frame_size_bytes or 0  # a mix of sizes has none, and an extension says what follows from it
    delay_ns = 0 if asked.target_bps == "max" else _delay_ns(_wire_bits(record, size), asked.target_bps)
    for place, stream in enumerate(record.streams if size else ()):
        for name, stored, again in _stream(record, stream, size, delay_ns):
            yield f"streams[{place}].{name}", stored, again
    for name, stored, again in _total(record):
        yield f"total.{name}", stored, again
    if record.background is not None:
        for name, stored, again in _background(record, record.background):
            yield f"background.{name}", stored, again
    beside = record.background.streams if record.background is not None else ()
    lost = [record.total.loss_packets, *(stream.loss_packets for stream in beside)]
    if min((packets for packets in lost if packets is not None), default=0) < 0:
        yield "verdict.status", record.verdict.status, "invalid"


def _background(record: RunRecord, load: Background) -> Iterator[tuple[str, Number, Number]]:
    """The second guest's own streams, and that its rate is the share of the reference that was asked for."""
    offered_pps = load.requested.get("offered_pps")
    if load.reference is not None:
        share, maximum_pps = load.reference.get("share_ratio"), load.reference.get("measured_pps")
        known = isinstance(share, int | float) and isinstance(maximum_pps, int | float)
        yield "requested.offered_pps", offered_pps, share * maximum_pps if known else None  # type: ignore[operator]
    if not load.streams:
        return
    bits = _wire_bits(record, BACKGROUND_FRAME_BYTES)
    delay_ns = _delay_ns(bits, round(offered_pps * bits)) if offered_pps else 0
    for place, stream in enumerate(load.streams):
        for name, stored, again in _stream(record, stream, BACKGROUND_FRAME_BYTES, delay_ns):
            yield f"streams[{place}].{name}", stored, again
    for name in ("offered_pps", "measured_pps"):
        yield f"achieved.{name}", load.achieved.get(name), _sum(load.streams, name)


def _wire_bits(record: RunRecord, frame_size_bytes: int) -> int:
    return 8 * (frame_size_bytes + (20 if record.requested.frame_size_includes_fcs else 24))


def _delay_ns(bits: int, target_bps: int) -> int:
    return round(Fraction(bits * 10**9, target_bps)) if target_bps else 0


def _rate(packets: int | None, duration_s: float | None) -> float | None:
    return packets / duration_s if packets is not None and duration_s else None


def _minus(a: int | None, b: int | None) -> int | None:
    return a - b if a is not None and b is not None else None


def _share(lost: int | None, offered: int | None) -> float | None:
    return lost / offered if lost is not None and offered else None


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


def _measured(stream: StreamRecord) -> tuple[int | None, str | None]:
    if stream.capture is not None and stream.capture.complete:
        return stream.capture.captured_packets, "capture"
    received = stream.counters.get("sink_rx_packets")
    return received, None if received is None else "counters"


def _stream(
    record: RunRecord, stream: StreamRecord, frame_size_bytes: int, delay_ns: int
) -> Iterator[tuple[str, Number, Number]]:
    asked, bits = record.requested, _wire_bits(record, frame_size_bytes)
    yield "delay_ns", stream.delay_ns, delay_ns
    yield "intended_pps", stream.intended_pps, 1e9 / delay_ns if delay_ns else None
    yield "intended_packets", stream.intended_packets, round(asked.duration_s * 1e9 / delay_ns) if delay_ns else None
    measured, witness = _measured(stream)
    yield "measured_from", stream.measured_from, witness
    offered, duration_s = stream.offered_packets, stream.offered_duration_s
    lost = _minus(offered, measured)
    again = (
        _rate(offered, duration_s),
        _times(_rate(offered, duration_s), bits),
        measured,
        _rate(measured, duration_s),
        _times(_rate(measured, duration_s), bits),
        lost,
        _share(lost, offered),
    )
    for name, number in zip(DERIVED, again, strict=True):
        yield name, getattr(stream, name), number
    yield from _ledger(stream, measured)


def _ledger(stream: StreamRecord, measured: int | None) -> Iterator[tuple[str, Number, Number]]:
    before: int | None = None
    for place, hop in enumerate(stream.ledger):
        yield f"ledger[{place}].lost_packets", hop.lost_packets, _minus(before, hop.packets)
        before = before if hop.packets is None else hop.packets
    yield "unplaced_packets", stream.unplaced_packets, _minus(before, measured)


def _sum(streams: tuple[StreamRecord, ...], name: str) -> int | float | None:
    values = [getattr(stream, name) for stream in streams]
    return None if not values or None in values else sum(values)


def _total(record: RunRecord) -> Iterator[tuple[str, Number, Number]]:
    total = record.total
    yield "offered_packets", total.offered_packets, _sum(record.streams, "offered_packets")
    for name in ("offered_pps", "offered_bps", "measured_packets", "measured_pps", "measured_bps"):
        yield name, getattr(total, name), _sum(record.streams, name)
    lost = _minus(total.offered_packets, total.measured_packets)
    yield "loss_packets", total.loss_packets, lost
    yield "loss_ratio", total.loss_ratio, _share(lost, total.offered_packets)
