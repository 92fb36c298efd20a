"""Arithmetic of packet counts: growth of counters, rates, loss, counts at one instant, arrivals of packets. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import gt
from typing import Literal, NamedTuple, TypeVar

from labconsole.errors import CounterInconsistency
from labconsole.model.plan.search import QUEUED_S
from labconsole.model.record.run import Arrivals, CaptureCounts, JointLoss, Side
from labconsole.wire.capture import CapturedStream
from labconsole.wire.codec import STAT_NAMES

# -- counts ------------------------------------------------------------------------------------------------------------
# Arithmetic of packet counts: the growth of counters, rates, and the loss in a trial.
#
# Pure: counts in, numbers out; unknown stays None.

Number = TypeVar("Number", int, float)


class CounterSample(NamedTuple):
    """All statistics of one interface at one instant of its node's monotonic clock."""

    monotonic_ns: int
    values: tuple[int, ...]


def counter_difference(before: int, after: int, *, name: str = "counter") -> int:
    """``after - before``. Raises CounterInconsistency on a decrease: a reset or a wrap is never guessed at."""
    if after < before:
        raise CounterInconsistency(f"{name} decreased from {before} to {after}")
    return after - before


def sample_difference(before: CounterSample, after: CounterSample) -> dict[str, int]:
    """The difference of every statistic that both samples contain, by name."""
    return {
        name: counter_difference(old, new, name=name)
        for name, old, new in zip(STAT_NAMES, before.values, after.values, strict=False)
    }


def decreases(before: CounterSample, after: CounterSample) -> bool:
    """True if any statistic decreased. One pass in C, because it runs 9 000 times a second for 100 nodes."""
    return any(map(gt, before.values, after.values))


def interval_rate(before: CounterSample, after: CounterSample, index: int) -> float | None:
    """One statistic's rate in 1/s, by its position in STAT_NAMES, or None if a sample lacks it.

    For intervals in which time passed and nothing decreased.
    """
    if index >= len(before.values) or index >= len(after.values):
        return None
    return (after.values[index] - before.values[index]) * 1e9 / (after.monotonic_ns - before.monotonic_ns)


def interval_rates(before: CounterSample, after: CounterSample) -> dict[str, float]:
    """Rates in 1/s over the *measured* interval between two samples.

    Raises CounterInconsistency if a counter decreased or no time passed: that interval is void.
    """
    elapsed_ns = after.monotonic_ns - before.monotonic_ns
    if elapsed_ns <= 0:
        raise CounterInconsistency(f"no time passed between two samples ({elapsed_ns} ns)")
    return {name: count * 1e9 / elapsed_ns for name, count in sample_difference(before, after).items()}


def offered_packets(generator_packets: int | None, source_tx_packets: int | None) -> int | None:
    """Packets of the stream on the wire (RFC 2285, section 3.5.2): not more than generated, nor than the NIC sent.

    Foreign frames make the NIC's count larger, never the result. If the NIC was not read, the generator's count is
    used.
    """
    if generator_packets is None or source_tx_packets is None:
        return generator_packets
    return min(generator_packets, source_tx_packets)


@dataclass(frozen=True, slots=True)
class LossBySide:
    """Packets lost before the wire, at the unit under test, and after it; None if an adjacent counter was not read.

    Any sign is possible: foreign frames that the unit sends by the same port count on its side with one sign, on the
    sink's side with the other.
    """

    source_packets: int | None
    uut_packets: int | None
    sink_packets: int | None
    together: tuple[JointLoss, ...]


def lost_by_side(
    generator_packets: int | None,
    source_tx_packets: int | None,
    uut_out_packets: int | None,
    measured_packets: int | None,
) -> LossBySide:
    """Where a stream's packets were lost; sides that no counter separates are reported as one sum."""
    on_wire = None if source_tx_packets is None else offered_packets(generator_packets, source_tx_packets)
    alone: dict[Side, int] = {}
    together: list[JointLoss] = []
    before, between = generator_packets, list[Side]()
    steps: tuple[tuple[Side, int | None], ...] = (
        ("source", on_wire),
        ("uut", uut_out_packets),
        ("sink", measured_packets),
    )
    for side, packets in steps:
        between.append(side)
        if packets is None:
            continue
        if before is not None and len(between) == 1:
            alone[side] = before - packets
        elif before is not None:
            together.append(JointLoss(sides=tuple(between), packets=before - packets))
        before, between = packets, []
    return LossBySide(alone.get("source"), alone.get("uut"), alone.get("sink"), tuple(together))


def loss_packets(offered_packets: int | None, measured_packets: int | None) -> int | None:
    """Offered minus measured; negative if more arrived than was sent, which makes a run invalid."""
    if offered_packets is None or measured_packets is None:
        return None
    return offered_packets - measured_packets


def loss_ratio(offered_packets: int | None, lost_packets: int | None) -> float | None:
    """Frame loss ratio, RFC 2544 section 26.3 as a ratio over what was *offered*, or None if nothing was offered."""
    if not offered_packets or lost_packets is None:
        return None
    return lost_packets / offered_packets


def rate_pps(packets: int | None, duration_s: float | None) -> float | None:
    """Packets over a duration, or None if either is unknown or no time passed."""
    if packets is None or not duration_s or duration_s <= 0:
        return None
    return packets / duration_s


def choose_measured(
    capture: CaptureCounts | None, sink_rx_packets: int | None
) -> tuple[int | None, Literal["capture", "counters"] | None]:
    """Packets that arrived, and the witness: the capture if it is complete, else the sink's counter.

    Why there are two: docs/decisions/0008-two-witnesses.md.
    """
    if capture is not None and capture.complete:
        return capture.captured_packets, "capture"
    if sink_rx_packets is not None:
        return sink_rx_packets, "counters"
    return None, None


def total(values: Iterable[Number | None]) -> Number | None:
    """Sum of counts or rates, or None if one of them is unknown or there are none."""
    known = list(values)
    if not known or any(value is None for value in known):
        return None
    return sum(value for value in known if value is not None)


# -- alignment ---------------------------------------------------------------------------------------------------------
# Sent and received packets of a stream at one instant.
#
# A source and a sink report running counts, each by its own clock and at its own times; the reports' transmission delay
# does not matter. With both clocks on one axis, the sent count is interpolated at the instants of the received counts.
# The difference is lost or still on its way, and does not include what was sent in between.

PATIENCE_NS = 2_000_000_000
"""How long a sample of the sink waits for a later report of the source; after that, sent is unknown."""

MAX_PENDING = 200_000
"""Reports of each end that may wait for the other: five hours of ten a second. Further ones are none."""


@dataclass(frozen=True, slots=True)
class EndCounts:
    """``sent`` and ``received`` packets at one instant; sent is None if the source reported nothing about it."""

    at_ns: int
    sent: float | None
    received: int


def interpolate_count(points: Sequence[tuple[int, int]], at_ns: int) -> float | None:
    """A running count at an instant, interpolated linearly, or None outside the points.

    ``points``: (instant, count) in order.
    """
    place = bisect_right(points, at_ns, key=lambda point: point[0])
    if place == 0 or place == len(points):
        return float(points[-1][1]) if points and points[-1][0] == at_ns else None
    (before_ns, before), (after_ns, after) = points[place - 1], points[place]
    return before + (after - before) * (at_ns - before_ns) / (after_ns - before_ns)


class StreamAlignment:
    """One stream's reports, in any interleaving of the two ends. All instants are on one axis.

    Of the sink's samples before sending begins only the last counts: it is the base of all later differences.
    """

    def __init__(self) -> None:
        self._begun_ns: int | None = None
        self._sent: list[tuple[int, int]] = []
        self._ended = False
        self._last_ns: int | None = None
        self._waiting: deque[tuple[int, int]] = deque()

    def begin(self, at_ns: int) -> None:
        """Set the instant before which nothing is sent."""
        self._begun_ns = at_ns
        self._sent = [(at_ns, 0)]

    def sent(self, at_ns: int, packets: int) -> bool:
        """Add the source's count. False for an invalid report, one that goes back in time or in number."""
        if self._ended or not self._sent or at_ns <= self._sent[-1][0] or packets < self._sent[-1][1]:
            return False
        if len(self._sent) >= MAX_PENDING:
            return False
        self._sent.append((at_ns, packets))
        return True

    def end(self, at_ns: int, packets: int) -> None:
        """Add the source's final count, after its last packet."""
        self.sent(at_ns, packets)
        self._ended = True

    def received(self, at_ns: int, packets: int) -> None:
        """Add a sample of the sink's counter. One that is not later than the last is ignored."""
        if self._last_ns is not None and at_ns <= self._last_ns:
            return
        self._last_ns = at_ns
        if self._waiting and (self._begun_ns is None or at_ns <= self._begun_ns):
            self._waiting.clear()
        if len(self._waiting) < MAX_PENDING:
            self._waiting.append((at_ns, packets))

    def ready(self) -> Iterator[EndCounts]:
        """Yield the sink's samples for which nothing more will become known, each once, in order."""
        while self._waiting and self._begun_ns is not None:
            at_ns, received = self._waiting[0]
            sent: float | None
            if at_ns <= self._begun_ns:
                if len(self._waiting) == 1 and len(self._sent) == 1:
                    return  # a later sample may still replace it
                sent = 0.0
            elif self._ended and at_ns >= self._sent[-1][0]:
                sent = float(self._sent[-1][1])
            else:
                sent = interpolate_count(self._sent, at_ns)
            if sent is None and self._waiting[-1][0] - at_ns < PATIENCE_NS:
                return
            self._waiting.popleft()
            self._forget(at_ns)
            yield EndCounts(at_ns, sent, received)

    def _forget(self, at_ns: int) -> None:
        """Drop the source's reports before the last one at or before this instant."""
        past = bisect_right(self._sent, at_ns, key=lambda point: point[0]) - 1
        if past > 0:
            del self._sent[:past]


# -- arrivals ----------------------------------------------------------------------------------------------------------
# When a stream's packets arrived at the sink, and the forwarding rate over that window.
#
# The rate is that of RFC 2285, section 3.6.1. Only the sink's clock is used, so no other clock has to agree with it.
# Packets that a queue contains when the source stops arrive late, and would inflate the forwarding rate if they were
# divided by the sending time.

STAMP_RESOLUTION_S = 1e-9
"""tcpdump is set to record nanoseconds."""

Samples = Sequence[tuple[int, int]]
"""(time of the sink's monotonic clock in ns, packets that its NIC had received until then), in order of time."""


def build_capture_arrivals(streams: Sequence[CapturedStream], packets: int) -> Arrivals | None:
    """The window by the capture's own time stamps, or None unless it contains exactly the one stream's ``packets``, in
    order of time.
    """
    if not packets and not streams:
        return Arrivals(
            packets=0,
            window_s=0.0,
            window_from="capture",
            resolution_s=STAMP_RESOLUTION_S,
            late_packets=0,
            queued_packets=0,
        )
    if len(streams) != 1 or streams[0].packets != packets:
        return None
    first_ns, last_ns = streams[0].first_at_ns, streams[0].last_at_ns
    if first_ns is None or last_ns is None or last_ns < first_ns:
        return None
    return Arrivals(
        packets=packets,
        window_s=(last_ns - first_ns) / 1e9,
        window_from="capture",
        resolution_s=STAMP_RESOLUTION_S,
        late_packets=streams[0].late_packets,
        queued_packets=streams[0].queued_packets,
    )


def build_counter_arrivals(
    samples: Samples, packets: int, sending_s: float | None, captured: Sequence[CapturedStream] = ()
) -> Arrivals | None:
    """The window by samples of the sink's counter: from the first sample with a packet to the first with the last.

    None if the samples do not show all ``packets``, or the counter or its clock went back. ``captured``: the streams of
    a capture that missed packets; late packets in it are certainly late.
    """
    counts = [count for _, count in samples]
    if len(samples) < 2 or counts[-1] - counts[0] != packets or any(b < a for a, b in pairwise(counts)):
        return None
    if any(later_ns < at_ns for (at_ns, _), (later_ns, _) in pairwise(samples)):
        return None
    grown = [place for place in range(1, len(counts)) if counts[place] > counts[place - 1]]
    if not grown:
        return None
    first, last = grown[0], grown[-1]
    apart_ns = [samples[place][0] - samples[place - 1][0] for place in (first, last)]
    return Arrivals(
        packets=packets,
        window_s=(samples[last][0] - samples[first][0]) / 1e9,
        window_from="counters",
        resolution_s=max(apart_ns) / 1e9,
        late_packets=_lower_bound(_late(samples, first, sending_s, 0.0), captured, "late_packets"),
        queued_packets=_lower_bound(_late(samples, first, sending_s, QUEUED_S), captured, "queued_packets"),
    )


def _lower_bound(sampled: int | None, captured: Sequence[CapturedStream], name: str) -> int | None:
    """The certainly late packets by either witness, or None if it is open whether there are any."""
    captured_late = getattr(captured[0], name) or 0 if len(captured) == 1 else 0
    return max(sampled or 0, captured_late) if sampled is not None or captured_late else None


def _late(samples: Samples, first: int, sending_s: float | None, grace_s: float) -> int | None:
    """Packets that certainly arrived this late after the first one, or None if it is open whether there are any."""
    if sending_s is None:
        return None
    wait_ns = round((sending_s + grace_s) * 1e9)
    end = samples[-1][1]
    surely = end - next((count for at_ns, count in samples if at_ns >= samples[first][0] + wait_ns), end)
    perhaps = end - [count for at_ns, count in samples if at_ns <= samples[first - 1][0] + wait_ns][-1]
    return surely if surely or not perhaps else None


def forwarding_pps(arrivals: Arrivals | None, sending_s: float | None) -> float | None:
    """The packets over their window, never over less than the sending time: a unit that dies early is not flattered.

    N arrivals span N - 1 intervals. A window by samples counts only if it certainly exceeded the sending time. None if
    the window or the sending time is unknown, or fewer than two packets arrived.
    """
    if arrivals is None or arrivals.packets < 2 or not sending_s or sending_s <= 0:
        return None
    return arrivals.packets / (_spanned_s(arrivals) if window_decides(arrivals, sending_s) else sending_s)


def window_decides(arrivals: Arrivals, sending_s: float) -> bool:
    """Whether at least two packets provably arrived over a longer time than the sending time."""
    error_s = arrivals.resolution_s if arrivals.window_from == "counters" else 0.0
    return _spanned_s(arrivals, -error_s) > sending_s


def rate_error_ratio(arrivals: Arrivals | None, sending_s: float | None) -> float | None:
    """The possible relative error of the forwarding rate if its window is from samples and leaves it open.

    None if the rate is exact, because the window is a capture's or samples show that nothing was late, or if there is
    none.
    """
    rate_pps = forwarding_pps(arrivals, sending_s)
    if arrivals is None or sending_s is None or rate_pps is None or arrivals.window_from != "counters":
        return None
    if arrivals.late_packets == 0 and not window_decides(arrivals, sending_s):
        return None
    errors_s = (-arrivals.resolution_s, arrivals.resolution_s)
    ends_s = [max(sending_s, _spanned_s(arrivals, error_s)) for error_s in errors_s]
    return max(abs(arrivals.packets / end_s / rate_pps - 1) for end_s in ends_s)


def _spanned_s(arrivals: Arrivals, error_s: float = 0.0) -> float:
    return (arrivals.window_s + error_s) * arrivals.packets / (arrivals.packets - 1)
