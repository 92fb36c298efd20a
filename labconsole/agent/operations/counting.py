"""The operations counters.*: periodic samples, kept back in a quiet window, and the links that changed meanwhile."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from labconsole.agent.operations import handles
from labconsole.agent.reading.counters import Counters
from labconsole.wire.counters import (
    InterfaceCounters,
    KeepQuiet,
    KeptSamples,
    ReadCounters,
    StartCounters,
    StopCounters,
)
from labconsole.wire.message import Done


class Counting:
    """The counters of a session. ``send`` takes an event; ``mark_quiet`` signals our counted window to other sessions'
    agents.
    """

    def __init__(
        self, counters: Counters, send: Callable[[Dict[str, Any]], Any], mark_quiet: Callable[[bool], None]
    ) -> None:
        self._counters, self._send, self._mark_quiet = counters, send, mark_quiet
        self._quiet = self._others_window = False
        self._delayed_links: Optional[List[Dict[str, Any]]] = None

    @handles(ReadCounters)
    async def read(self, request: ReadCounters) -> InterfaceCounters:
        await self._counters.open()
        return InterfaceCounters(**self._counters.read())

    @handles(StartCounters)
    async def start(self, request: StartCounters) -> Done:
        await self._counters.open()
        self._counters.start(request.interval_s)
        return Done()

    @handles(StopCounters)
    async def stop(self, request: StopCounters) -> Done:
        self._counters.stop()
        return Done()

    @handles(KeepQuiet)
    async def quiet(self, request: KeepQuiet) -> KeptSamples:
        self._quiet = request.on
        self._mark_quiet(self._quiet)
        if self._quiet:
            self._counters.begin_quiet()
            return KeptSamples(samples=0, missed=0)
        sent = await self._counters.end_quiet()
        self._send_delayed_links()
        return KeptSamples(**sent)

    def links_changed(self, links: List[Dict[str, Any]]) -> None:
        """Send the links at once, or after every counted window on this node has ended."""
        if self._quiet or self._others_window:
            self._delayed_links = links
        else:
            self._send({"event": "links", "links": links})

    def keep_still(self, still: bool) -> None:
        """Keep quiet while another session counts on this node: no sample is taken and no event is sent until it has
        ended.
        """
        self._others_window = still
        self._counters.hold(still)
        if not still:
            self._send_delayed_links()

    def _send_delayed_links(self) -> None:
        if self._delayed_links is not None:
            self._send({"event": "links", "links": self._delayed_links})
            self._delayed_links = None
