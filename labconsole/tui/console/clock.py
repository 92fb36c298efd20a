"""The console's two clocks, in one module so that screenshots can use a fixed instant."""

from __future__ import annotations

import time


def monotonic_s() -> float:
    """Clock for durations."""
    return time.monotonic()


def wall_s() -> float:
    """Clock for times of day."""
    return time.time()
