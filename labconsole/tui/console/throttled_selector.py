"""A selector for the console's event loop that polls messages of nodes at most a hundred times a second.

A hundred nodes send a thousand lines a second. Waking up for each of them costs more than handling the lines: in
batches they need an eighth less of a processor (docs/performance.md). Keys, timers, signals and results of threads do
not wait.
"""

from __future__ import annotations

import select
import selectors
import time
from collections.abc import Callable
from typing import Any

REST_S = 0.01


class ThrottledSelector(selectors.DefaultSelector):
    """Pauses between two polls, but only while ``can_throttle`` says that no message is urgent.

    The event loop registers its own pipe first, by which threads and signal handlers wake it. That pipe ends a pause,
    and a thread reads the terminal.
    """

    def __init__(self, may_rest: Callable[[], bool]) -> None:
        super().__init__()
        self._may_rest = may_rest
        self._looked_s = 0.0
        self._calls: select.poll | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register, remembering the first one."""
        key = super().register(fileobj, events, data)
        if self._calls is None:
            self._calls = select.poll()
            self._calls.register(key.fd, select.POLLIN)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready within the timeout. A timeout of None waits for the first."""
        if timeout is None or timeout > 0.0:  # else the loop has work to do, and only polls
            rest_s = self._looked_s + REST_S - time.monotonic()
            if timeout is not None:
                rest_s = min(rest_s, timeout)
            if rest_s > 0.0 and self._calls is not None and self._may_rest():
                self._calls.poll(rest_s * 1e3)
                timeout = None if timeout is None else timeout - rest_s
        ready = super().select(timeout)
        self._looked_s = time.monotonic()
        return ready
