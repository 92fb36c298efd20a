"""The real agent over SSH, with asyncssh's server and with OpenSSH's: starts from the archive, ends with the link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labconsole.nodes.link import connect
from labconsole.wire.counters import CountersSampled
from labconsole.wire.message import AgentEvent
from support.asking import asked
from support.ssh_servers import HOST, SERVERS, Server, World

pytestmark = pytest.mark.asyncio


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World.make(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return world


@pytest_asyncio.fixture(params=list(SERVERS))
async def server(request: pytest.FixtureRequest, world: World) -> AsyncIterator[Server]:
    server = SERVERS[request.param](world)
    await server.start()
    world.trust(server)
    yield server
    await server.stop()


async def gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            await asyncio.sleep(0.01)


async def test_the_agent_is_shipped_started_and_asked(world: World, server: Server) -> None:
    told: list[AgentEvent] = []
    inventory = world.inventory({"uut": {"address": HOST, "port": server.port}})
    async with asyncio.timeout(30):
        node = await connect("uut", inventory, lambda name, event: told.append(event))
        try:
            assert "lo" in [link["name"] for link in (await asked(node, "links"))["links"]]
            await asked(node, "counters.start", {"interval_s": 0.01})
            while len([event for event in told if isinstance(event, CountersSampled)]) < 5:
                await asyncio.sleep(0.01)
        finally:
            await node.close()
    await gone(node.hello.pid)


async def test_a_cut_link_ends_the_agent_and_what_it_started(world: World, server: Server) -> None:
    inventory = world.inventory({"uut": {"address": HOST, "port": server.port}})
    async with asyncio.timeout(30):
        node = await connect("uut", inventory, lambda name, event: None)
        try:
            script = "trap '' TERM HUP; sleep 1000"
            running = asyncio.create_task(asked(node, "exec", {"argv": ["sh", "-c", script], "timeout_s": 1000}))
            await asked(node, "ping")
            server.cut()
            await asyncio.wait([running])
            assert running.exception() is not None
        finally:
            await node.close()
    await gone(node.hello.pid)
