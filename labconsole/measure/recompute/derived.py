"""Every derived number of a run record, computed again from the raw counts in the same record. Pure.

Raw are: the request, the generator's count and time, the capture's count and its completeness, the counters, the
packets at each hop and the window of arrivals. Everything else follows from them, so a record with other values was
damaged or changed. The formulas are stated here a second time on purpose: a check that calls the code it checks finds
nothing. The numbers that format 2 added are in loss_attribution.py; contradictions between raw counts, in counts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from labconsole.measure.recompute.discrepancy import (
    RELATIVE_ERROR,
    Discrepancy,
    Number,
    minus,
    per,
    same,
    share,
    summed,
)
from labconsole.measure.recompute.loss_attribution import (
    forwarding,
    offered_packets,
    recompute_losses,
    recompute_totals,
)
from labconsole.model.record.run import Background, RunRecord, StreamRecord

__all__ = ["RELATIVE_ERROR", "Discrepancy", "recompute"]

BACKGROUND_FRAME_BYTES = 64
"""The frame size of a second guest's own stream."""

DERIVED = (
    "offered_pps",
    "offered_bps",
    "measured_packets",
    "measured_pps",
    "measured_bps",
    "loss_packets",
    "loss_ratio",
)
"""Numbers that both a stream and the totals have."""


def recompute(record: RunRecord) -> list[Discrepancy]:
    """Every derived number that differs from the result of the record's raw counts; empty if all follow."""
    return [
        Discrepancy(where=where, stored=stored, recomputed=again)
        for where, stored, again in _pairs(record)
        if not same(stored, again)
    ]


def _pairs(record: RunRecord) -> Iterator[tuple[str, Number, Number]]:
    for place, stream in enumerate(record.streams):
        for name, stored, again in _stream(
            record, stream, record.requested.frame_size_bytes, record.requested.target_bps
        ):
            yield f"streams[{place}].{name}", stored, again
    for name, stored, again in _total(record):
        yield f"total.{name}", stored, again
    if record.background is not None:
        for name, stored, again in _background(record, record.background):
            yield f"background.{name}", stored, again
    second_streams = record.background.streams if record.background is not None else ()
    lost = [record.total.loss_packets, *(stream.loss_packets for stream in second_streams)]
    if min((packets for packets in lost if packets is not None), default=0) < 0:
        yield "verdict.status", record.verdict.status, "invalid"


def _background(record: RunRecord, load: Background) -> Iterator[tuple[str, Number, Number]]:
    """The second guest's own streams, and that its rate is the requested share of the reference."""
    offered_pps = load.requested.get("offered_pps")
    if load.reference is not None:
        of, maximum_pps = load.reference.get("share_ratio"), load.reference.get("measured_pps")
        known = isinstance(of, int | float) and isinstance(maximum_pps, int | float)
        yield "requested.offered_pps", offered_pps, of * maximum_pps if known else None  # type: ignore[operator]
    if not load.streams:
        return
    target_bps = round(offered_pps * _wire_bits(record, BACKGROUND_FRAME_BYTES)) if offered_pps else None
    for place, stream in enumerate(load.streams):
        for name, stored, again in _stream(record, stream, BACKGROUND_FRAME_BYTES, target_bps):
            yield f"streams[{place}].{name}", stored, again
    for name in ("offered_pps", "measured_pps"):
        yield f"achieved.{name}", load.achieved.get(name), summed(load.streams, name)


def _wire_bits(record: RunRecord, frame_size_bytes: int) -> int:
    return 8 * (frame_size_bytes + (20 if record.requested.includes_fcs else 24))


def _delay_ns(bits: int, target_bps: int) -> int:
    return round(Fraction(bits * 10**9, target_bps)) if target_bps > 0 else 0


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


def _measured(stream: StreamRecord) -> tuple[int | None, str | None]:
    if stream.capture is not None and stream.capture.complete:
        return stream.capture.captured_packets, "capture"
    received = stream.counters.get("sink_rx_packets")
    return received, None if received is None else "counters"


def _stream(
    record: RunRecord, stream: StreamRecord, frame_size_bytes: int | None, target_bps: int | str | None
) -> Iterator[tuple[str, Number, Number]]:
    """The derived numbers of a stream.

    ``frame_size_bytes`` is None for a mix of sizes; an extension then determines what follows from it.
    """
    bits = None if frame_size_bytes is None else _wire_bits(record, frame_size_bytes)
    if bits is not None:
        delay_ns = _delay_ns(bits, target_bps) if isinstance(target_bps, int) else 0
        yield from _intended(record, stream, delay_ns, paced=target_bps not in ("max", bits * 10**9))
    measured, witness = _measured(stream)
    yield "measured_from", stream.measured_from, witness
    if record.format > 1:
        yield "offered_packets", stream.offered_packets, offered_packets(stream)
        yield from recompute_losses(stream, measured)
        yield from forwarding(stream, bits)
    offered, duration_s = stream.offered_packets, stream.offered_duration_s
    lost = minus(offered, measured)
    again = (
        per(offered, duration_s),
        _times(per(offered, duration_s), bits or 0),
        measured,
        per(measured, duration_s),
        _times(per(measured, duration_s), bits or 0),
        lost,
        share(lost, offered),
    )
    for name, number in zip(DERIVED, again, strict=True):
        if bits is not None or not name.endswith("_bps"):
            yield name, getattr(stream, name), number
    yield from _ledger(stream, measured)


def _intended(
    record: RunRecord, stream: StreamRecord, delay_ns: int, *, paced: bool
) -> Iterator[tuple[str, Number, Number]]:
    packets = round(record.requested.duration_s * 1e9 / delay_ns) if delay_ns and paced else None
    yield "delay_ns", stream.delay_ns, delay_ns
    yield "intended_pps", stream.intended_pps, 1e9 / delay_ns if delay_ns and paced else None
    yield "intended_packets", stream.intended_packets, packets


def _ledger(stream: StreamRecord, measured: int | None) -> Iterator[tuple[str, Number, Number]]:
    before: int | None = None
    for place, hop in enumerate(stream.ledger):
        yield f"ledger[{place}].lost_packets", hop.lost_packets, minus(before, hop.packets)
        before = before if hop.packets is None else hop.packets
    yield "unplaced_packets", stream.unplaced_packets, minus(before, measured)


def _total(record: RunRecord) -> Iterator[tuple[str, Number, Number]]:
    total, streams = record.total, record.streams
    for name in (
        "offered_packets",
        "offered_pps",
        "offered_bps",
        "measured_packets",
        "measured_pps",
        "measured_bps",
    ):
        yield name, getattr(total, name), summed(streams, name)
    lost = minus(total.offered_packets, total.measured_packets)
    yield "loss_packets", total.loss_packets, lost
    yield "loss_ratio", total.loss_ratio, share(lost, total.offered_packets)
    if record.format > 1:
        yield from recompute_totals(record)
