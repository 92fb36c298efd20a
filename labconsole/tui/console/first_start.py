"""Inputs of a console that starts without a hosts.yaml."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labconsole.engine.protocol import SessionLike

if TYPE_CHECKING:  # a console with a testbed needs no discovery, and shows the bench sooner
    from labconsole.engine.discovery.discovery import DiscoveryResult, HoldNodes


@dataclass(frozen=True, slots=True)
class FirstStart:
    """``hosts``: the file to write. ``session``: opens a session on that file, raises LabError. ``demo``: runs in place
    of this console once the operator has left it.
    """

    hosts: Path
    hold: HoldNodes
    session: Callable[[Path], SessionLike]
    demo: Callable[[], int]


class RunningDiscovery:
    """A running discovery. It is cancelled at most once: a second time would disturb the undoing."""

    def __init__(self, work: Coroutine[Any, Any, DiscoveryResult | None]) -> None:
        self._task = asyncio.create_task(work)
        self.cancelled = False

    async def ended(self) -> None:
        """Wait for the end, however it ends. Cancelling the waiting task does not cancel the discovery."""
        await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """Cancel the discovery, and wait until everything is undone."""
        if not self.cancelled and not self._task.done():
            self.cancelled = True
            self._task.cancel()
        await self.ended()

    def result(self) -> DiscoveryResult | None:
        """The result, or None if it was cancelled or not agreed to. Raises what the discovery raised."""
        return None if self._task.cancelled() else self._task.result()
