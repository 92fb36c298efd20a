"""The notes on the visible plans, from the store: read in a thread, each once until it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from labconsole.engine.protocol import SessionLike
from labconsole.model.plan.plan import Plan
from labconsole.model.record.note import RunNote
from labconsole.tui.parts.plan_files import PlanEntry


class PlanNotes:
    """Notes by the plan's file. The store keeps them by the plan's meaning on this testbed."""

    def __init__(self, session: SessionLike) -> None:
        self._session = session
        self._known: dict[Path, RunNote | None] = {}

    def of(self, entry: PlanEntry | None) -> RunNote | None:
        """The note on a plan, as far as it was read."""
        return self._known.get(entry.path) if entry is not None else None

    def forget(self, *paths: Path) -> None:
        """Read these again, or all of them if none is named."""
        for path in paths or list(self._known):
            self._known.pop(path, None)

    async def read(self, entries: Iterable[PlanEntry]) -> None:
        """Read the notes that are not known yet. Raises StoreError."""
        for entry in entries:
            if entry.plan is not None and entry.path not in self._known:
                self._known[entry.path] = await asyncio.to_thread(self._stored, entry.plan)

    async def write(self, path: Path, plan: Plan, text: str) -> None:
        """Write a note. Raises StoreError."""
        store, author = self._session.store, self._session.operator
        await asyncio.to_thread(store.set_plan_note, *self._key(plan), text, author=author)
        self._known[path] = await asyncio.to_thread(self._stored, plan)

    def _key(self, plan: Plan) -> tuple[str, str]:
        return plan.hash(), self._session.inventory.fingerprint()

    def _stored(self, plan: Plan) -> RunNote | None:
        return self._session.store.plan_note(*self._key(plan))
