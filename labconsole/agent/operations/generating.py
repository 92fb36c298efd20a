"""The operations generator.*: one GeneratorSession at a time, its progress as events, its end always reported."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, List, Optional

from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import handles
from labconsole.wire.codec import WireError
from labconsole.wire.generator import (
    CloseGenerator,
    PreparedStream,
    PreparedStreams,
    PrepareGenerator,
    Sent,
    SentStream,
    StartGenerator,
    StopGenerator,
    WaitForGenerator,
)
from labconsole.wire.message import Done

Send = Callable[[Dict[str, Any]], Any]


class Generating:
    """The generator of one session. ``send`` and ``offer`` take events; an offered event may be dropped."""

    def __init__(self, journal: UndoJournal, send: Send, offer: Send, clock_ns: Callable[[], int]) -> None:
        self._journal, self._send, self._offer, self._clock_ns = journal, send, offer, clock_ns
        self._session: Any = None
        self._promise: Optional[int] = None
        self._runner: Optional["asyncio.Task[List[Dict[str, Any]]]"] = None
        self._lock = asyncio.Lock()

    @handles(PrepareGenerator)
    async def prepare(self, request: PrepareGenerator) -> PreparedStreams:
        specs = request.streams
        async with self._lock:
            if self._session is not None:
                raise WireError("busy", "this node's generator is already prepared; close it first")
            from labconsole.agent.sending.generator import GeneratorSession, cleanup_arguments

            # Promised before anything is configured; withdrawing an unused promise does no harm.
            if any(spec.generator in ("auto", "pktgen") for spec in specs):
                self._promise = self._journal.promise({"kind": "pktgen", "arguments": cleanup_arguments()})
            self._session = GeneratorSession()
            try:
                return PreparedStreams(streams=[PreparedStream(**each) for each in await self._session.prepare(specs)])
            except BaseException:
                await self._close()
                raise

    @handles(StartGenerator)
    async def start(self, request: StartGenerator) -> Done:
        async with self._lock:
            session = self._prepared()
            await session.start(request.at_monotonic_ns)
            self._runner = asyncio.ensure_future(self._run(session, request.progress_interval_s))
        return Done()

    @handles(WaitForGenerator)
    async def wait(self, request: WaitForGenerator) -> Sent:
        """Return the results, when the last stream has ended."""
        self._prepared()
        if self._runner is None:
            raise WireError("not_started", "the generator was prepared but not started")
        return _sent(await asyncio.shield(self._runner))

    @handles(StopGenerator)
    async def stop(self, request: StopGenerator) -> Done:
        await self.stop_traffic()
        return Done()

    async def stop_traffic(self) -> None:
        """End early. Raises WireError if no generator is prepared."""
        await self._prepared().stop()

    @handles(CloseGenerator)
    async def close(self, request: CloseGenerator) -> Sent:
        async with self._lock:
            return _sent(await self._close())

    async def abandon(self) -> None:
        """End without results, when the console is gone."""
        async with self._lock:
            await self._close(results=False)

    def _prepared(self) -> Any:
        if self._session is None:
            raise WireError("not_prepared", "no generator is prepared on this node")
        return self._session

    async def _run(self, session: Any, interval_s: Optional[float]) -> List[Dict[str, Any]]:
        """Report progress until the last stream has ended."""
        ended = asyncio.ensure_future(session.wait())
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=interval_s)
                if not ended.done():
                    self._offer({"event": "generator", "monotonic_ns": self._clock_ns(), "streams": session.progress()})
            results: List[Dict[str, Any]] = ended.result()
        except WireError as exc:
            self._send({"event": "generator.done", "streams": [], "error": {"code": exc.code, "message": exc.message}})
            raise
        finally:
            ended.cancel()
        self._send({"event": "generator.done", "streams": results})
        return results

    async def _close(self, *, results: bool = True) -> List[Dict[str, Any]]:
        session, runner, promise = self._session, self._runner, self._promise
        self._session = self._runner = self._promise = None
        found: List[Dict[str, Any]] = []
        if session is None:
            return found
        try:
            if runner is not None:
                await session.stop()
                if results:
                    found = await runner
        finally:
            if runner is not None:
                runner.cancel()
            await session.close()
            if promise is not None:
                self._journal.done(promise)
        return found


def _sent(results: List[Dict[str, Any]]) -> Sent:
    return Sent(streams=[SentStream(**result) for result in results])
