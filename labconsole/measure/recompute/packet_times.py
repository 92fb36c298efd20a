"""Checks the times that a sink's kernel reported: its histograms, their figures, its counts. Pure.

Records of other versions of the extension are not judged, and unjudged reports them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.extensions import has_version, readable
from labconsole.measure.time_histogram import TimeHistogram, bucket_of, highest_ns, lowest_ns
from labconsole.model.record.packet_times import EXTENSION, VERSION, PacketTimes, PacketTimesRefused, Times
from labconsole.model.record.run import StreamRecord
from labconsole.wire.packet_times import BUCKETS, SOCKET_FILTER

ONE_WAY_FACTOR = 10
"""One-way delay is reported only if its median is this many times the possible error of the two time stamps."""

RATIOS = {"p50": (1, 2), "p90": (9, 10), "p99": (99, 100), "p999": (999, 1000), "p9999": (9999, 10_000)}
"""As whole numbers, so that rounding does not decide the rank."""

OF_EVERY_PACKET = ("delay_ns", "due_ns")
"""Times that each packet has, and whose longest is exact."""

ROUNDING_NS = 1.0

CLOCK_SET_NS = 1000
"""A wall clock that moved by this much was set, and no delay is reported."""


def known(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, VERSION)


def contradicting_times(where: str, stream: StreamRecord, least_bound_ns: int | None = None) -> Iterator[Discrepancy]:
    """Impossible values of the extension.

    ``least_bound_ns``: the possible error of the two time stamps by the clocks in the environment, or None if it is not
    there.
    """
    extension = stream.extensions.get(EXTENSION)
    if extension is None or not known(extension):
        return
    where = f"{where}.extensions.{EXTENSION}"
    times, problems = readable(where, extension, PacketTimes, PacketTimesRefused)
    yield from problems
    if times is None:
        return
    yield from _numbers(where, times, stream)
    yield from _histograms(where, times)
    yield from _delay(where, times, least_bound_ns)


def _numbers(where: str, times: PacketTimes, stream: StreamRecord) -> Iterator[Discrepancy]:
    """Sequence numbers, which one processor reads in order; and port changes, which a socket filter never makes."""
    if times.port is not None and times.by == SOCKET_FILTER:
        yield against(f"{where}.port", f"is reported as changed by a {times.by}")
    if bool(times.packets) != bool(times.processors):
        yield against(f"{where}.processors", f"{times.processors} of them took {times.packets} packets")
    if times.late_packets > times.packets:
        yield against(
            f"{where}.late_packets", f"is more than the {times.packets} packets that arrived", times.late_packets
        )
    said = stream.generator_packets
    highest = times.packets - times.late_packets + times.skipped_packets
    if times.processors == 1 and said is not None and highest > said:
        says = f"numbers up to {highest} arrived or were skipped, but the generator sent {said} packets"
        yield against(f"{where}.skipped_packets", says, times.skipped_packets)


def _histograms(where: str, times: PacketTimes) -> Iterator[Discrepancy]:
    """Each histogram contains the number of packets to count, and its figures follow from its buckets."""
    alone = max(1, times.processors)  # packets without a neighbour before them: at most one per processor
    between = [part.packets if part is not None else 0 for part in (times.spacing_ns, times.variation_ns)]
    if between[0] != between[1]:
        yield against(f"{where}.variation_ns.packets", f"is {between[1]}, and spacing_ns has {between[0]}", between[1])
    if times.spacing_ns is None and times.packets > alone + times.overlapping_packets:
        yield against(f"{where}.spacing_ns", f"is missing for {times.packets} packets")
    for name in ("spacing_ns", "variation_ns", *OF_EVERY_PACKET):
        found: Times | None = getattr(times, name)
        if found is None:
            continue
        here = f"{where}.{name}"
        try:
            histogram = TimeHistogram.decoded(found.histogram)
        except ValueError as exc:
            yield against(f"{here}.histogram", f"cannot be read: {exc}")
            continue
        of_every = name in OF_EVERY_PACKET
        most = times.packets if of_every else times.packets - 1 - times.overlapping_packets
        least = most if of_every else times.packets - alone - times.overlapping_packets
        if not least <= histogram.total <= most or histogram.total != found.packets:
            says = f"holds {histogram.total} values and says {found.packets}; {times.packets} packets were counted"
            yield against(f"{here}.packets", says, found.packets)
            continue
        yield from _quantiles(here, found, histogram, exact_most=of_every)
        lowest = sum(lowest_ns(bucket) * count for bucket, count in histogram.packets.items())
        highest: float = sum(highest_ns(bucket) * count for bucket, count in histogram.packets.items())
        if BUCKETS - 1 in histogram.packets:
            highest = math.inf  # everything longer is in this bucket, too
        window_ns = times.window_s * 1e9 if name == "spacing_ns" and times.window_s is not None else None
        together = window_ns is None or lowest - ROUNDING_NS <= window_ns <= highest + ROUNDING_NS
        if times.processors == 1 and not times.overlapping_packets and not together:
            says = f"is {times.window_s} s, and all its packets' spacings are {lowest / 1e9} to {highest / 1e9} s"
            yield against(f"{where}.window_s", says, times.window_s)
        mean = getattr(found, "mean", None)
        if mean is not None and not lowest - ROUNDING_NS <= mean * histogram.total <= highest + ROUNDING_NS:
            says = f"is {mean}, and its buckets allow {lowest / histogram.total} to {highest / histogram.total}"
            yield against(f"{here}.mean", says, mean)


def _quantiles(here: str, found: Times, histogram: TimeHistogram, *, exact_most: bool) -> Iterator[Discrepancy]:
    buckets = list(histogram.packets)
    for name, (part, whole) in RATIOS.items():
        said, due = getattr(found, name), _value_at_rank(histogram, -(-histogram.total * part // whole))
        due = min(due, found.max) if exact_most else due
        if name != "p50" and histogram.total < whole // (whole - part):
            if said is not None:
                yield against(f"{here}.{name}", f"takes more than {histogram.total} packets", said)
        elif said != due:
            yield against(f"{here}.{name}", f"is {said}, and by its histogram {due}", said)
    if not exact_most:
        if found.max != highest_ns(buckets[-1]):
            yield against(f"{here}.max", f"is {found.max}, and by its histogram {highest_ns(buckets[-1])}", found.max)
        return
    for name, bucket in (("min", buckets[0]), ("max", buckets[-1])):
        value = getattr(found, name, None)
        if value is not None and bucket_of(value) != bucket:
            says = f"is {value}, and by its histogram from {lowest_ns(bucket)} to {highest_ns(bucket)}"
            yield against(f"{here}.{name}", says, value)


def _value_at_rank(histogram: TimeHistogram, rank: int) -> int:
    seen = 0
    for bucket, count in histogram.packets.items():
        seen += count
        if seen >= rank:
            return highest_ns(bucket)
    raise ValueError("a histogram of nothing has no quantiles")


def _delay(where: str, times: PacketTimes, least_bound_ns: int | None) -> Iterator[Discrepancy]:
    delay, bound = times.delay_ns, times.clock_bound_ns
    if (delay is None) == (times.reason is None):
        yield against(f"{where}.reason", "does not agree with the delay")
    if bound is not None and least_bound_ns is not None and bound < least_bound_ns:
        says = f"is {bound} ns; by the clocks in the environment they may be {least_bound_ns} ns off"
        yield against(f"{where}.clock_bound_ns", says, bound)
    if delay is None:
        if times.due_ns is not None:
            yield against(f"{where}.due_ns", "is given, but delay_ns is not")
        return
    yield from _due(where, delay, times.due_ns)
    if abs(times.clock_moved_ns) > CLOCK_SET_NS:
        yield against(f"{where}.delay_ns", f"is given, but the sink's clock was set by {times.clock_moved_ns} ns")
    if times.negative_packets:
        says = f"is given, but {times.negative_packets} packets arrived before they were sent"
        yield against(f"{where}.delay_ns", says)
    if bound is None or bound * ONE_WAY_FACTOR > delay.p50:
        off = "by an unknown amount" if bound is None else f"by {bound} ns"
        says = f"a median of {delay.p50} ns is given, but the two clocks may be off {off}"
        yield against(f"{where}.clock_bound_ns", says, bound)


def _due(where: str, delay: Times, due: Times | None) -> Iterator[Discrepancy]:
    """A packet is due no later than it was sent."""
    if due is None:
        return
    for name in (*RATIOS, "max"):
        since_sent, since_due = getattr(delay, name), getattr(due, name)
        if since_sent is not None and since_due is not None and since_due < since_sent:
            says = f"is {since_due}, but delay_ns, which cannot be longer, has {since_sent}"
            yield against(f"{where}.due_ns.{name}", says, since_due)
