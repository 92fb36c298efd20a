"""A selector for the console's event loop that looks for what nodes tell a hundred times a second at most.

A hundred nodes send a thousand lines a second. Waking up for each of them costs more than the lines: taken a few at a
time, they need an eighth less of a processor (docs/performance.md). Keys, timers, signals and what threads have done
are not kept waiting.
"""

from __future__ import annotations

import select
import selectors
import time
from collections.abc import Callable
from typing import Any

REST_S = 0.01


class ThrottledSelector(selectors.DefaultSelector):
    """Waits between two looks, but only while ``can_throttle`` says that nothing hangs on being heard at once.

    What is registered first is the event loop's own pipe, by which threads and signal handlers call it: that ends a
    rest, and the terminal is read by a thread.
    """

    def __init__(self, may_rest: Callable[[], bool]) -> None:
        super().__init__()
        self._may_rest = may_rest
        self._looked_s = 0.0
        self._calls: select.poll | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As every selector does."""
        key = super().register(fileobj, events, data)
        if self._calls is None:
            self._calls = select.poll()
            self._calls.register(key.fd, select.POLLIN)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready, as of a look that comes no later than the timeout; None waits for the first."""
        if timeout is None or timeout > 0.0:  # else the loop has work to do, and only looks
            rest_s = self._looked_s + REST_S - time.monotonic()
            if timeout is not None:
                rest_s = min(rest_s, timeout)
            if rest_s > 0.0 and self._calls is not None and self._may_rest():
                self._calls.poll(rest_s * 1e3)
                timeout = None if timeout is None else timeout - rest_s
        ready = super().select(timeout)
        self._looked_s = time.monotonic()
        return ready
