"""Whether another console saved something since plans were last looked at: asked seldom, and by two counts."""

from __future__ import annotations

import asyncio

from labconsole.engine.protocol import RunsStore
from labconsole.tui.console import clock

EVERY_S = 10.0
REST_RATIO = 20
"""After plans were looked at, so many times as long as that took it is not asked again: a store may hold many runs."""


class StoreWatch:
    """What this console measures itself is to be forgotten when it has ended: it is known already."""

    def __init__(self, store: RunsStore) -> None:
        self._store = store
        self._seen: tuple[int, int] | None = None
        self._due_s = 0.0

    async def moved(self) -> bool:
        """Whether there is more or less than before; False where it is too early to ask. Raises StoreError."""
        now_s = clock.monotonic_s()
        if now_s < self._due_s:
            return False
        counted = await asyncio.to_thread(self._store.amount)
        before, self._seen, self._due_s = self._seen, counted, now_s + EVERY_S
        return before is not None and before != counted

    def looked(self, took_s: float) -> None:
        """All plans were looked at, which took so long."""
        self._due_s = max(self._due_s, clock.monotonic_s() + REST_RATIO * took_s)

    def hurry(self) -> None:
        """Ask the next time, whenever that is."""
        self._due_s = 0.0

    def forget(self) -> None:
        """What there is when it is asked the next time, whenever that is, counts as seen."""
        self._seen, self._due_s = None, 0.0
