"""What a lost UUT kept from being undone: its agent undid what was its own, but a hypervisor keeps guests running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import LinkPool
from labconsole.engine.live.events import Event, Notice
from labconsole.errors import NodeError, NodeLost
from labconsole.model.inventory import Inventory


class Restorable(Protocol):
    """A driver, as far as it undoes what it did."""

    async def restore(self, uut: AgentLink) -> None: ...


class DeferredCleanup:
    """Drivers that have something to undo as soon as the UUT is back."""

    def __init__(self, inventory: Inventory, pool: LinkPool, emit: Callable[[Event], None]) -> None:
        self._inventory, self._pool, self._emit = inventory, pool, emit
        self._drivers: list[Restorable] = []

    def defer(self, driver: Restorable) -> None:
        """Only of a driver whose guests outlive the agent: nothing else is left."""
        if getattr(driver, "outlives_agent", False):  # a driver from elsewhere may not say
            self._drivers.append(driver)

    async def settle(self, *more: Restorable) -> None:
        """Have these, too, undo what they did. What cannot be undone is told."""
        drivers, self._drivers = [*self._drivers, *more], []
        link = self._pool.links.get(self._inventory.uut)
        for driver in drivers:
            if link is None:
                self.defer(driver)
                continue
            try:
                await driver.restore(link)
            except NodeLost:
                self.defer(driver)
            except NodeError as exc:
                self._emit(Notice(severity="warning", message=f"restoring the platform: {exc.message}", node=link.name))
