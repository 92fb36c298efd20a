"""A stopwatch that can be paused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Call ``start`` and ``stop`` once each; time within ``hold`` and ``go_on``, or ``paused``, does not count."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._ended: float | None = None
        self._paused_s = 0.0
        self._paused_since: float | None = None

    def start(self) -> None:
        """Start, unless it was started before."""
        if self._started is None:
            self._started = time.monotonic()

    def stop(self) -> None:
        """Stop for good."""
        self._ended = time.monotonic()

    def hold(self) -> None:
        """Stop counting time until ``go_on``."""
        if self._paused_since is None:
            self._paused_since = time.monotonic()

    def go_on(self) -> None:
        """Count time again, if it was on hold."""
        if self._paused_since is not None:
            self._paused_s += time.monotonic() - self._paused_since
            self._paused_since = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context in which time does not count."""
        self.hold()
        try:
            yield
        finally:
            self.go_on()

    @property
    def spent_s(self) -> float:
        """Counted time until now or, after ``stop``, until then."""
        if self._started is None:
            return 0.0
        now = self._ended if self._ended is not None else time.monotonic()
        paused_s = self._paused_s + (max(0.0, now - self._paused_since) if self._paused_since is not None else 0.0)
        return now - self._started - paused_s
