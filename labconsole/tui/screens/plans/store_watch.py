"""Detection of another console's changes to the store since the last look at plans: rarely, by two counts."""

from __future__ import annotations

import asyncio

from labconsole.engine.protocol import RunsStore
from labconsole.tui.console import clock

EVERY_S = 10.0
REST_RATIO = 20
"""Minimum pause, as a multiple of the time for looking at plans: a store may contain many runs."""


class StoreWatch:
    """Call ``forget`` after a measurement of this console: its own changes are known already."""

    def __init__(self, store: RunsStore) -> None:
        self._store = store
        self._seen: tuple[int, int] | None = None
        self._due_s = 0.0

    async def moved(self) -> bool:
        """Whether the counts changed. False if it is too early for a query. Raises StoreError."""
        now_s = clock.monotonic_s()
        if now_s < self._due_s:
            return False
        counted = await asyncio.to_thread(self._store.amount)
        before, self._seen, self._due_s = self._seen, counted, now_s + EVERY_S
        return before is not None and before != counted

    def looked(self, took_s: float) -> None:
        """Note a look at all plans, and its duration."""
        self._due_s = max(self._due_s, clock.monotonic_s() + REST_RATIO * took_s)

    def hurry(self) -> None:
        """Query at the next call, whatever the time."""
        self._due_s = 0.0

    def forget(self) -> None:
        """Take the counts of the next query, whenever that is, as known."""
        self._seen, self._due_s = None, 0.0
