"""The sources of one trial: started together and awaited; their reports are always collected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.live.samples import LiveStreams
from labconsole.errors import NodeLost
from labconsole.verdict.observations import StreamObservations
from labconsole.wire.generator import SentStream, StartGenerator

START_LEAD_S = 0.05
"""Delay between the command and the start of sending, so that the command reaches all sources in time."""

COLLECT_S = 5.0
"""Time that a stopped source may take to report."""


class Sources:
    """Manages the sources of a trial. ``nodes``: the sending nodes, each once."""

    def __init__(self, streams: Sequence[StreamObservations], links: dict[str, AgentLink], live: LiveStreams) -> None:
        self.nodes = list(dict.fromkeys(seen.stream.source.node for seen in streams))
        self._streams, self._links, self._live = streams, links, live
        self._done: dict[str, asyncio.Future[list[SentStream]]] = {}

    def finished(self, node: str, results: list[SentStream]) -> None:
        """Take a node's report that its streams have ended."""
        self._live.finished(node, results)
        if node in self._done and not self._done[node].done():
            self._done[node].set_result(results)

    def lost(self, node: str, reason: str, operation: str) -> None:
        """Give up waiting for a lost node."""
        if node in self._done and not self._done[node].done():
            self._done[node].set_exception(NodeLost(node, reason, operation=operation))

    async def start(self, progress_interval_s: float) -> float:
        """Send the start command to all sources; return the seconds until they begin."""
        loop = asyncio.get_running_loop()
        self._done = {node: loop.create_future() for node in self.nodes}
        for future in self._done.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())  # read later, or never after an abort
        lead_s = START_LEAD_S + max(self._links[node].round_trip_s for node in self.nodes)
        at_ns = time.monotonic_ns() + int(lead_s * 1e9)
        self._live.begin_sending(at_ns)

        async def begin(node: str) -> None:
            link = self._links[node]
            at_its_ns = at_ns + link.monotonic_offset_ns
            await link.ask(StartGenerator(at_monotonic_ns=at_its_ns, progress_interval_s=progress_interval_s))

        await run_concurrently(begin(node) for node in self.nodes)
        return lead_s

    async def wait(self, limit_s: float, interrupt: asyncio.Future[str]) -> bool:
        """Wait until all have ended or ``interrupt`` comes; return False if the time was up before."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while not all(f.done() for f in self._done.values()) and not interrupt.done():
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            pending: list[asyncio.Future[Any]] = [f for f in self._done.values() if not f.done()]
            await asyncio.wait([*pending, interrupt], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def collect(self, stop: Callable[[str], Awaitable[None]]) -> float | None:
        """Put every report into its stream, after stopping sources that still send.

        Returns the seconds between the first and the last source to start, clocks reconciled; None with one source.
        """
        late = [node for node, future in self._done.items() if not future.done()]
        for node in late:
            await stop(node)
        if late:
            await asyncio.wait([self._done[node] for node in late], timeout=COLLECT_S)
        starts: list[int] = []
        for node, future in self._done.items():
            if not future.done() or future.exception() is not None:
                continue
            for result in future.result():
                for seen in self._streams:
                    # A node reports for its own streams only.
                    if seen.stream.name == result.stream and seen.stream.source.node == node:
                        seen.generated = result
                if result.started_monotonic_ns is not None:
                    starts.append(result.started_monotonic_ns - self._links[node].monotonic_offset_ns)
        return (max(starts) - min(starts)) / 1e9 if len(starts) > 1 else None
