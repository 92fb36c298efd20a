"""Every derived number of a run record, computed again from the raw counts in the same record. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

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
from labconsole.model.record.run import Arrivals, Background, RunRecord, StreamRecord

__all__ = [
    "BACKGROUND_FRAME_BYTES",
    "DERIVED",
    "RELATIVE_ERROR",
    "SIDES",
    "Discrepancy",
    "Pair",
    "find_rate_uncertainty",
    "forwarding",
    "offered_packets",
    "recompute",
    "recompute_losses",
    "recompute_totals",
]


# -- loss attribution --------------------------------------------------------------------------------------------------
# A second statement of what format 2 adds: offered packets, the sides of a loss, the forwarding rate.
#
# RFC 2285, section 3.5.2: the offered load is what an external observer sees, so the source's NIC counts and not only
# the generator; section 3.6.1: the forwarding rate is over the time in which frames arrive.

SIDES = ("source", "uut", "sink")

Pair = tuple[str, Number, Number]
"""(name, stored, recomputed)."""


def offered_packets(stream: StreamRecord) -> int | None:
    """The smaller of the generator's count and the source NIC's sent packets."""
    said, sent = stream.generator_packets, stream.counters.get("source_tx_packets")
    if said is None or sent is None:
        return said
    return min(said, sent)


def recompute_losses(stream: StreamRecord, measured: int | None) -> Iterator[Pair]:
    """Losses by side, and as sums if a counter between two sides was not read."""
    sent = stream.counters.get("source_tx_packets")
    said = stream.generator_packets
    counts = [
        said,
        None if sent is None or said is None else min(said, sent),
        stream.counters.get("uut_out_tx_packets"),
        measured,
    ]
    for side, before, behind in zip(SIDES, counts, counts[1:], strict=False):
        yield f"{side}_lost_packets", getattr(stream, f"{side}_lost_packets"), minus(before, behind)
    again = _together(counts)
    for place in range(max(len(again), len(stream.lost_together))):
        kept = stream.lost_together[place] if place < len(stream.lost_together) else None
        one = ("+".join(kept.sides), kept.packets) if kept else (None, None)
        other = again[place] if place < len(again) else (None, None)
        yield f"lost_together[{place}].sides", one[0], other[0]
        yield f"lost_together[{place}].packets", one[1], other[1]


def _together(counts: list[int | None]) -> list[tuple[str, int]]:
    """(sides joined by +, packets) of every gap between two counts that contains an unread count."""
    known = [place for place, count in enumerate(counts) if count is not None]
    found = []
    for first, last in pairwise(known):
        before, behind = counts[first], counts[last]
        if last - first > 1 and before is not None and behind is not None:
            found.append(("+".join(SIDES[first:last]), before - behind))
    return found


def forwarding(stream: StreamRecord, bits: int | None) -> Iterator[Pair]:
    """N / max(T, W·N/(N-1)): packets that the unit under test queued do not increase its rate.

    Samples of a counter determine W only to their distance: N / T is used unless they prove a longer time.
    """
    again = _forwarding_pps(stream.arrivals, stream.offered_duration_s)
    yield "forwarding_pps", stream.forwarding_pps, again
    if bits is not None:
        yield "forwarding_bps", stream.forwarding_bps, None if again is None else again * bits


def _forwarding_pps(arrivals: Arrivals | None, sending_s: float | None) -> float | None:
    if arrivals is None or sending_s is None or arrivals.packets < 2:
        return None
    window_s = arrivals.window_s * arrivals.packets / (arrivals.packets - 1)
    longest_s = max(sending_s, window_s)
    if arrivals.window_from == "counters" and window_s - _sample_gap_s(arrivals) <= sending_s:
        longest_s = sending_s
    return arrivals.packets / longest_s if longest_s > 0 else None


def _sample_gap_s(arrivals: Arrivals) -> float:
    return arrivals.resolution_s * arrivals.packets / (arrivals.packets - 1)


def find_rate_uncertainty(stream: StreamRecord) -> float | None:
    """The possible error of a forwarding rate from counter samples, or None for other rates."""
    seen, sending_s = stream.arrivals, stream.offered_duration_s
    again = _forwarding_pps(seen, sending_s)
    if seen is None or sending_s is None or again is None or seen.window_from != "counters":
        return None
    if again == seen.packets / sending_s and seen.late_packets == 0:
        return None
    shortest_s, longest_s = (
        max(sending_s, (seen.window_s + sign * seen.resolution_s) * seen.packets / (seen.packets - 1))
        for sign in (-1, 1)
    )
    taken_s = seen.packets / again
    return max(taken_s / shortest_s - 1, 1 - taken_s / longest_s)


def recompute_totals(record: RunRecord) -> Iterator[Pair]:
    """The totals that format 1 does not have."""
    total, streams = record.total, record.streams
    for name in ("generator_packets", "source_lost_packets", "uut_lost_packets", "sink_lost_packets"):
        yield name, getattr(total, name), summed(streams, name)
    for unit in ("pps", "bps"):
        # A stream with fewer than two arrivals has no window; its rate over the sending time is its share.
        rates = [
            getattr(stream, f"forwarding_{unit}" if (stream.measured_packets or 0) > 1 else f"measured_{unit}")
            for stream in streams
        ]
        yield (
            f"forwarding_{unit}",
            getattr(total, f"forwarding_{unit}"),
            (sum(rates) if rates and None not in rates else None),
        )
    lost, sent = (summed(streams, name) for name in ("uut_lost_packets", "offered_packets"))
    yield "uut_loss_ratio", total.uut_loss_ratio, share(_whole(lost), _whole(sent))
    for name in ("late_packets", "queued_packets"):
        known = [stream.arrivals for stream in streams if stream.arrivals is not None]
        yield name, getattr(total, name), summed(known, name) if len(known) == len(streams) else None


def _whole(value: int | float | None) -> int | None:
    return None if value is None else int(value)


# -- derived -----------------------------------------------------------------------------------------------------------
# Raw are: the request, the generator's count and time, the capture's count and its completeness, the counters, the
# packets at each hop and the window of arrivals. Everything else follows from them, so a record with other values was
# damaged or changed. The formulas are stated here a second time on purpose: a check that calls the code it checks finds
# nothing. The numbers that format 2 added are in derived.py; contradictions between raw counts, in counts.py.

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
