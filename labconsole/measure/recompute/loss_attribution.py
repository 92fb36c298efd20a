"""A second statement of what format 2 adds: offered packets, the sides of a loss, the forwarding rate. Pure.

RFC 2285, section 3.5.2: the offered load is what an external observer sees, so the source's NIC counts and not only the
generator; section 3.6.1: the forwarding rate is over the time in which frames arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from labconsole.measure.recompute.discrepancy import Number, minus, share, summed
from labconsole.model.record.run import Arrivals, RunRecord, StreamRecord

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
