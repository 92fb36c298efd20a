"""What a console is given that begins without a hosts.yaml."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.engine.protocol import SessionLike

if TYPE_CHECKING:  # who has a testbed needs no discovery, and sees the bench sooner
    from labconsole.engine.discovery.discovery import DiscoveryResult, HoldNodes


@dataclass(frozen=True, slots=True)
class FirstStart:
    """``hosts``: the file that is to be written; ``session``: on what it then says, raises LabError; ``demo``: what
    is done in place of this console, once it is left.
    """

    hosts: Path
    hold: HoldNodes
    session: Callable[[Path], SessionLike]
    demo: Callable[[], int]


class RunningDiscovery:
    """A discovery that runs. It is cancelled once at most: a second time would disturb the undoing."""

    def __init__(self, work: Coroutine[Any, Any, DiscoveryResult | None]) -> None:
        self._task = asyncio.create_task(work)
        self.cancelled = False

    async def ended(self) -> None:
        """Whichever way; who waits may be cancelled without cancelling it."""
        await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """End it, and wait until everything is undone."""
        if not self.cancelled and not self._task.done():
            self.cancelled = True
            self._task.cancel()
        await self.ended()

    def result(self) -> DiscoveryResult | None:
        """None where it was cancelled, or not agreed to. Raises what it raised."""
        return None if self._task.cancelled() else self._task.result()
