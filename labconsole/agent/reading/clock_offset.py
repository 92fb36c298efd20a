"""How far a node's wall clock is ahead of its monotonic one, and by how much it was set meanwhile."""

from __future__ import annotations

import time
from typing import List, Tuple


class ClockOffset:
    """How far the wall clock is ahead of the monotonic one, by the closest of some readings."""

    READINGS = 20

    def __init__(self) -> None:
        self.ns = self._read()

    def _read(self) -> int:
        readings: List[Tuple[int, int]] = []
        for _ in range(self.READINGS):
            before_ns = time.monotonic_ns()
            wall_ns = time.time_ns()
            after_ns = time.monotonic_ns()
            readings.append((after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2))
        return min(readings)[1]

    def moved_ns(self) -> int:
        """By how much it was set since."""
        return self._read() - self.ns
