"""A session with connected nodes, and a separate event loop for callers without one or with a running one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from labconsole.engine.live.events import NodeState
from labconsole.engine.testbed import Testbed
from labconsole.errors import NodeUnreachable
from labconsole.store.writing import RunStore

T = TypeVar("T")


@asynccontextmanager
async def connected(session: Testbed[RunStore], nodes: Sequence[str]) -> AsyncIterator[None]:
    """Connect to these nodes and close everything afterwards. Raises NodeUnreachable, naming every unreachable node."""
    try:
        await session.connect(list(nodes))
        failed = [name for name in nodes if session.telemetry.nodes[name].state is not NodeState.CONNECTED]
        if failed:
            reasons = "; ".join(f"{name}: {session.telemetry.nodes[name].message}" for name in failed[1:])
            first = NodeUnreachable(failed[0], session.telemetry.nodes[failed[0]].message)
            raise NodeUnreachable(failed[0], first.message + (f"; {reasons}" if reasons else ""))
        yield
    finally:
        await session.close()


def run_in_own_loop(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """Return the coroutine's result. It runs in a thread, because a notebook has a loop that runs already.

    An interrupt cancels it, so that everything is undone on the nodes, and is raised then.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work())

    def body() -> T:
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(task)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    with ThreadPoolExecutor(1, "labconsole") as thread:
        future = thread.submit(body)
        try:
            return future.result()
        except BaseException:
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)
            raise
