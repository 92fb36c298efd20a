"""How far one clock of a node is ahead of another, and how far its wall clock was set meanwhile."""

from __future__ import annotations

import time
from typing import Callable, List, Tuple

READINGS = 20


def closest(outer: Callable[[], int], inner: Callable[[], int]) -> Tuple[int, int]:
    """Return the inner clock's lead over the outer one and its uncertainty, from the closest of some readings, each
    between two of the outer clock.
    """
    readings: List[Tuple[int, int]] = []
    for _ in range(READINGS):
        before_ns = outer()
        at_ns = inner()
        after_ns = outer()
        readings.append((after_ns - before_ns, at_ns - (before_ns + after_ns) // 2))
    width_ns, ahead_ns = min(readings)
    return ahead_ns, (width_ns + 1) // 2


class ClockOffset:
    """The lead of the wall clock over the monotonic one."""

    def __init__(self) -> None:
        self.ns = self._read()

    def _read(self) -> int:
        return closest(time.monotonic_ns, time.time_ns)[0]

    def moved_ns(self) -> int:
        """Return how far it was set since."""
        return self._read() - self.ns
