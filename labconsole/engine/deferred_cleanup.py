"""Clean-up that a lost UUT prevented: its agent undid its own changes, but a hypervisor keeps guests running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import LinkPool
from labconsole.engine.live.events import Event, Notice
from labconsole.errors import NodeError, NodeLost
from labconsole.model.inventory import Inventory


class Restorable(Protocol):
    """The part of a driver that undoes what it did."""

    async def restore(self, uut: AgentLink) -> None: ...


class DeferredCleanup:
    """Drivers that have something to undo as soon as the UUT is back."""

    def __init__(self, inventory: Inventory, pool: LinkPool, emit: Callable[[Event], None]) -> None:
        self._inventory, self._pool, self._emit = inventory, pool, emit
        self._drivers: list[Restorable] = []

    def defer(self, driver: Restorable) -> None:
        """Note the driver if its guests outlive the agent; otherwise nothing is left to undo."""
        if getattr(driver, "outlives_agent", False):  # a plug-in driver may lack the attribute
            self._drivers.append(driver)

    async def settle(self, *more: Restorable) -> None:
        """Restore noted drivers and ``more``. What cannot be undone is reported."""
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
