"""Sent and received packets of a stream at one instant. Pure.

A source and a sink report running counts, each by its own clock and at its own times; the reports' transmission delay
does not matter. With both clocks on one axis, the sent count is interpolated at the instants of the received counts.
The difference is lost or still on its way, and does not include what was sent in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
