"""Guests of an installed hypervisor that a console starts. They do not end with the agent: a promise before each start
makes the keeper stop them if the console does not.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, List

from labconsole.agent import undo
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import handles
from labconsole.wire.guests import PromiseStop, StopKept
from labconsole.wire.message import Done


class GuestStops:
    """The current promises, by the guest's name."""

    def __init__(self, journal: UndoJournal) -> None:
        self._journal = journal
        self._keeper = os.getppid()
        self._promised: Dict[str, Dict[str, Any]] = {}

    @handles(PromiseStop)
    async def promise(self, request: PromiseStop) -> Done:
        entry = dict(request.arguments(), kind=undo.STARTED_GUEST)
        number = self._journal.promise(entry)
        self._forget(request.guest)
        self._promised[request.guest] = dict(entry, number=number)
        return Done()

    @handles(StopKept)
    async def kept(self, request: StopKept) -> Done:
        self._forget(request.guest)
        return Done()

    def _forget(self, guest: str) -> None:
        promised = self._promised.pop(guest, None)
        if promised is not None:
            self._journal.done(promised["number"])

    def stop_for_another(self) -> None:
        """Stop the guests because another session has the node. Not awaited: a guest takes time to shut down in
        order.
        """
        entries = list(self._promised.values())
        threading.Thread(target=self._stop_all, args=(entries,), daemon=True).start()
        self._promised.clear()

    def _stop_all(self, entries: List[Dict[str, Any]]) -> None:
        """Stop all at once, but first run the entries inside them."""
        for inside in (True, False):
            now = [entry for entry in entries if bool(entry.get("inside")) is inside]
            stopping = [threading.Thread(target=self._stop, args=(entry,), daemon=True) for entry in now]
            for each in stopping:
                each.start()
            for each in stopping:
                each.join()

    def _stop(self, entry: Dict[str, Any]) -> None:
        """Withdraw the promise at once: the next holder may start the same guest, and the keeper must not stop that
        one.
        """
        undo.run(entry, undo.no_namespace)
        self._journal.done(entry["number"])

    def close(self) -> None:
        """Leave the promises to the keeper. If it is gone, there is only time to request the shutdown."""
        if os.getppid() != self._keeper:
            for entry in sorted(self._promised.values(), key=lambda each: not each.get("inside")):
                undo.begin_stopping(entry)
