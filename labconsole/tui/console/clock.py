"""The console's two clocks, in one place so that pictures of it can be taken at a fixed instant."""

from __future__ import annotations

import time


def monotonic_s() -> float:
    """For spans."""
    return time.monotonic()


def wall_s() -> float:
    """For what is shown as a time of day."""
    return time.time()
