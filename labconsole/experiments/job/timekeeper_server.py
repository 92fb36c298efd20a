"""The server that a job talks to: a standard program at the timekeeper, which runs while one trial's guests work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError
from labconsole.model.jobs import JobServer
from labconsole.wire.guests import GuestStatus, StartGuest, StopGuest

SERVER = "server"
SERVER_S = 10.0


@asynccontextmanager
async def run_server(server: JobServer | None, crew: StandingCrew, problems: list[str]) -> AsyncIterator[None]:
    """Run the server if the job needs one. ``problems`` collects a server that ended early.

    Raises NodeError if it cannot be started.
    """
    if server is None:
        yield
        return
    timekeeper = crew.timekeeper
    argv = [*server.argv, crew.address]
    wish = StartGuest(guest=SERVER, argv=argv, ready=server.ready, timeout_s=SERVER_S)
    starting = asyncio.ensure_future(timekeeper.ask(wish, timeout_s=SERVER_S + 5))
    try:
        await asyncio.shield(starting)
        yield
        if not await _runs(timekeeper):
            problems.append(f"{argv[0]} at {timekeeper.name}, which guests talk to, ended before they had")
    finally:
        await asyncio.gather(starting, return_exceptions=True)  # a server that is still starting could not be ended
        with suppress(NodeError):  # it never existed, or is gone already
            await timekeeper.ask(StopGuest(guest=SERVER))


async def _runs(timekeeper: AgentLink) -> bool:
    try:
        return (await timekeeper.ask(GuestStatus(guest=SERVER))).running
    except AgentError:
        return False
