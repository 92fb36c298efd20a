"""Monitor of the queue that guests share while they send, for the live view. Never reads shortly before a change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.experiments.flow.live_view import SharingWatch
from labconsole.experiments.flow.weights import describe_applied_weights
from labconsole.model.weights import WeightSteps
from labconsole.wire.queues import ChangeRates, RatesTaken, ReadQueue

EVERY_S = 0.3
KEPT_FREE_S = 0.15
"""Time before a change in which the agent that makes it gets no request."""


class SharedQueueMonitor:
    """Reads the shared queue at intervals. ``show`` is called when there is something new."""

    def __init__(
        self, uut: AgentLink, changing: ChangeRates, weights: WeightSteps, watch: SharingWatch, show: Callable[[], None]
    ) -> None:
        self._uut, self._changing, self._weights = uut, changing, weights
        self._watch, self._show = watch, show
        self._place = -1
        """Index of the set that took effect last."""
        self._next_ns: int | None = None
        """When the next change is due by the UUT's monotonic clock, or None if there is none or it is not known yet."""

    def hear(self, taken: RatesTaken) -> None:
        """Called when weights took effect. Sets out of order or reported twice are ignored."""
        if not self._place < taken.place < len(self._changing.rates_bps):
            return
        self._place = taken.place
        last = taken.place + 1 >= len(self._changing.rates_bps)
        self._next_ns = None if last else taken.taken_ns + round(self._changing.every_s * 1e9)
        self._watch.mark(taken.taken_ns, describe_applied_weights(taken, self._weights, self._changing))
        self._show()

    async def look(self) -> None:
        """Read the queue until cancelled, or until it cannot be read."""
        request = ReadQueue(queue=self._changing.queue, classes=len(self._changing.most_bps))
        while True:
            if not self._is_near(now_ns := self._now_ns()):
                try:
                    state = await self._uut.ask(request)
                except NodeError:  # the measurement notices and reports this
                    return
                if self._watch.see_classes((now_ns + self._now_ns()) // 2, state):
                    self._show()
            await asyncio.sleep(EVERY_S)

    def _is_near(self, now_ns: int) -> bool:
        """Whether a change is due soon. An overdue change may happen at any time, for as long as a step lasts."""
        if self._next_ns is None:
            return False
        return -self._changing.every_s < (self._next_ns - now_ns) / 1e9 < KEPT_FREE_S

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._uut.monotonic_offset_ns
