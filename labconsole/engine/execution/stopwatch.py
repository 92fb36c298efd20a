"""How long something went on, less the time for which it was held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """``start`` once, ``stop`` once; ``hold`` and ``go_on`` around what does not count, or ``held`` for both."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._ended: float | None = None
        self._held_s = 0.0
        self._held_since: float | None = None

    def start(self) -> None:
        """From now on, unless it was started before."""
        if self._started is None:
            self._started = time.monotonic()

    def stop(self) -> None:
        """It is over."""
        self._ended = time.monotonic()

    def hold(self) -> None:
        """Time does not count from now on."""
        if self._held_since is None:
            self._held_since = time.monotonic()

    def go_on(self) -> None:
        """Time counts again, if it did not."""
        if self._held_since is not None:
            self._held_s += time.monotonic() - self._held_since
            self._held_since = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Time that does not count."""
        self.hold()
        try:
            yield
        finally:
            self.go_on()

    @property
    def spent_s(self) -> float:
        """Until now, or its end."""
        if self._started is None:
            return 0.0
        now = self._ended if self._ended is not None else time.monotonic()
        held_s = self._held_s + (max(0.0, now - self._held_since) if self._held_since is not None else 0.0)
        return now - self._started - held_s
