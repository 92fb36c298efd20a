"""What one end of a stream has sent and the other received, at one instant. Pure.

A source and a sink report running counts, each by its own clock and at its own times; what the reports take to arrive
has no part in either. With both clocks brought to one axis, the sent count is interpolated at the instants at which
received was counted: their difference is what was lost or is on its way, and not what was sent in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PATIENCE_NS = 2_000_000_000
"""A sample of the sink waits this long for a report of the source that is younger; then sent is not known."""

MAX_PENDING = 200_000
"""Reports of each end that may wait for the other: five hours of ten a second. Further ones are none."""


@dataclass(frozen=True, slots=True)
class EndCounts:
    """``sent`` and ``received`` packets at one instant; sent is None where the source said nothing about it."""

    at_ns: int
    sent: float | None
    received: int


def interpolate_count(points: Sequence[tuple[int, int]], at_ns: int) -> float | None:
    """A running count at an instant, from (instant, count) in order: a straight line between two of them, else None."""
    place = bisect_right(points, at_ns, key=lambda point: point[0])
    if place == 0 or place == len(points):
        return float(points[-1][1]) if points and points[-1][0] == at_ns else None
    (before_ns, before), (after_ns, after) = points[place - 1], points[place]
    return before + (after - before) * (at_ns - before_ns) / (after_ns - before_ns)


class StreamAlignment:
    """One stream's reports, in any interleaving of the two ends. All instants are on one axis.

    Of the sink's samples before sending begins only the last counts: it is what everything after is a difference to.
    """

    def __init__(self) -> None:
        self._begun_ns: int | None = None
        self._sent: list[tuple[int, int]] = []
        self._ended = False
        self._last_ns: int | None = None
        self._waiting: deque[tuple[int, int]] = deque()

    def begin(self, at_ns: int) -> None:
        """Nothing is sent before this instant."""
        self._begun_ns = at_ns
        self._sent = [(at_ns, 0)]

    def sent(self, at_ns: int, packets: int) -> bool:
        """The source had sent so many; False for a report that goes back in time or in number, which is none."""
        if self._ended or not self._sent or at_ns <= self._sent[-1][0] or packets < self._sent[-1][1]:
            return False
        if len(self._sent) >= MAX_PENDING:
            return False
        self._sent.append((at_ns, packets))
        return True

    def end(self, at_ns: int, packets: int) -> None:
        """The source has sent its last packet, so many in all."""
        self.sent(at_ns, packets)
        self._ended = True

    def received(self, at_ns: int, packets: int) -> None:
        """The sink's counter; a sample that is not younger than the last is none."""
        if self._last_ns is not None and at_ns <= self._last_ns:
            return
        self._last_ns = at_ns
        if self._waiting and (self._begun_ns is None or at_ns <= self._begun_ns):
            self._waiting.clear()
        if len(self._waiting) < MAX_PENDING:
            self._waiting.append((at_ns, packets))

    def ready(self) -> Iterator[EndCounts]:
        """The sink's samples of which all is known that ever will be, each once, in order."""
        while self._waiting and self._begun_ns is not None:
            at_ns, received = self._waiting[0]
            sent: float | None
            if at_ns <= self._begun_ns:
                if len(self._waiting) == 1 and len(self._sent) == 1:
                    return  # a later one may still take its place
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
        """Drop the source's reports that lie before the last one at or before this instant."""
        past = bisect_right(self._sent, at_ns, key=lambda point: point[0]) - 1
        if past > 0:
            del self._sent[:past]
