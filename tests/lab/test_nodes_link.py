"""Links to nodes over real SSH: every test runs against asyncssh's server and against OpenSSH's sshd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from labconsole.errors import AgentError, NodeLost
from labconsole.nodes import link
from labconsole.nodes.link import NodeLink, connect
from labconsole.nodes.ssh_connection import ConcurrencyLimit
from labconsole.wire.codec import MAX_LINE_BYTES
from labconsole.wire.message import AgentEvent
from support.asking import asked
from support.ssh_servers import HOST, SERVERS, Server, World, relay, start_with

pytestmark = pytest.mark.asyncio


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World.make(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    start_with(world, monkeypatch)
    return world


@pytest_asyncio.fixture(params=list(SERVERS))
async def server(request: pytest.FixtureRequest, world: World) -> AsyncIterator[Server]:
    server = SERVERS[request.param](world)
    await server.start()
    world.trust(server)
    yield server
    await server.stop()


def ignore(name: str, event: AgentEvent) -> None:
    pass


@asynccontextmanager
async def linked(world: World, server: Server, on_event: Any = ignore, **node: Any) -> AsyncIterator[NodeLink]:
    inventory = world.inventory({"uut": {"address": HOST, "port": server.port, **node}})
    async with asyncio.timeout(30):
        opened = await connect("uut", inventory, on_event)
        try:
            yield opened
        finally:
            await opened.close()


async def test_a_node_answers_and_its_clock_is_known(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        assert node.hello.protocol == 1
        assert (await asked(node, "echo", {"said": "grüß"}))["said"] == "grüß"
        assert 0 < node.round_trip_s < 5
        assert abs(node.monotonic_offset_ns) <= node.clock_error_ns  # the same machine: the true offset is 0
    await world.agents_gone()


async def test_many_requests_at_once_each_get_their_own_answer(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asked(node, "late", {"n": n, "after_s": 0.001 * (n % 7)})) for n in range(200)]
        assert [task.result()["n"] for task in tasks] == list(range(200))


async def test_a_link_says_that_an_answer_is_awaited_until_all_are_there(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        assert not node.awaits_answer
        late = asyncio.ensure_future(asked(node, "late", {"n": 1, "after_s": 0.2}))
        await asked(node, "echo", {"said": "soon"})
        assert node.awaits_answer
        await late
        assert not node.awaits_answer
        with pytest.raises(AgentError):
            await asked(node, "refuse", {"code": "no", "message": "no"})
        assert not node.awaits_answer


async def test_a_line_of_eight_megabytes_arrives(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        assert len((await asked(node, "big", {"bytes": 8_000_000}))["text"]) == 8_000_000


async def test_a_line_beyond_the_limit_loses_the_node(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        with pytest.raises(NodeLost, match="does not follow the protocol"):
            await asked(node, "big", {"bytes": MAX_LINE_BYTES + 1})
        assert "does not follow the protocol" in await node.wait_lost()
    await world.agents_gone()


@pytest.mark.parametrize(
    "text",
    [
        "hello?\n",
        "[1]\n",
        '{"id":1,"ok":\n',
        '{"event":7}\n',
        '{"event":"counters"}\n',
        "\xff\xfe\n",
        "[" * 100_000 + "\n",
    ],
    ids=["words", "list", "cut", "event", "counters", "bytes", "deep"],
)
async def test_what_is_not_of_the_protocol_loses_the_node(world: World, server: Server, text: str) -> None:
    async with linked(world, server) as node:
        with pytest.raises(NodeLost, match="uut: sent something that does not follow the protocol"):
            await asked(node, "raw", {"text": text})
    await world.agents_gone()


async def test_answers_to_nothing_are_counted_and_ignored(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        for text in ('{"id":999,"ok":{}}\n', '{"id":"1","ok":{}}\n', '{"id":true,"ok":{}}\n', '{"event":"news"}\n'):
            with pytest.raises(NodeLost, match="no answer to raw within 0.05 s"):
                await asked(node, "raw", {"text": text}, timeout_s=0.05)
        assert await asked(node, "echo", {"n": 1}) == {"n": 1}
        assert (node.unknown_replies, node.unknown_events) == (3, 1)


async def test_a_refusal_is_an_agent_error_without_control_characters(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        with pytest.raises(AgentError, match="^uut: held by red$") as caught:
            error = {"code": "lease_held", "message": "held by \x1b[31mred\x1b[0m\r\n", "detail": {"a": 1}}
            await asked(node, "refuse", error)
        assert (caught.value.code, caught.value.detail) == ("lease_held", {"a": 1})


async def test_an_answer_that_comes_too_late_does_no_harm(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        with pytest.raises(NodeLost, match="no answer to late within"):
            await asked(node, "late", {"after_s": 0.3}, timeout_s=0.05)
        await asked(node, "late", {"after_s": 0.4})
        assert node.unknown_replies == 1


async def test_a_listener_that_fails_does_not_end_the_link(world: World, server: Server) -> None:
    seen = []

    def listen(name: str, event: AgentEvent) -> None:
        seen.append((name, event.kind))
        raise RuntimeError("a bug in the screen")

    async with linked(world, server, listen) as node:
        for _ in range(2):
            await asked(node, "event", {"event": "notice", "code": "x", "message": "\x1b]0;title\x07hm"})
        assert seen == [("uut", "notice")] * 2


async def test_an_agent_that_dies_is_told_with_its_last_words(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        with pytest.raises(NodeLost, match="the agent ended with exit status 3: dying as asked"):
            await asked(node, "die", {"status": 3})
        assert "exit status 3" in await node.wait_lost()
        with pytest.raises(NodeLost, match="exit status 3"):
            await asked(node, "echo", {})


async def test_a_cut_connection_loses_the_node_and_ends_its_agent(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        waiting = asyncio.ensure_future(asked(node, "late", {"after_s": 60}, timeout_s=60))
        await asked(node, "echo", {})
        server.cut()
        async with asyncio.timeout(5):
            with pytest.raises(NodeLost, match="connection was lost"):
                await waiting
            assert "connection was lost" in await node.wait_lost()
    await world.agents_gone()


async def test_a_silent_network_is_noticed_within_seconds(world: World, server: Server) -> None:
    async with relay(server.port) as (port, deaf):
        inventory = world.inventory({"uut": {"address": HOST, "port": port}})
        with (world.directory / "known_hosts").open("a") as file:
            file.write(f"[{HOST}]:{port} {(world.directory / 'host.pub').read_text()}")
        node = await connect("uut", inventory, ignore)
        deaf.set()
        async with asyncio.timeout(6):
            assert "connection was lost" in await node.wait_lost()
        await node.close()
    await world.agents_gone()


async def test_a_cancelled_connect_leaves_no_agent(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_with(world, monkeypatch, "mute")
    inventory = world.inventory({"uut": {"address": HOST, "port": server.port}})
    task = asyncio.ensure_future(connect("uut", inventory, ignore))
    async with asyncio.timeout(10):
        while not any(path.exists() and path.read_text() for path in world.pid_files):
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.agents_gone()


async def test_closing_twice_and_asking_afterwards(world: World, server: Server) -> None:
    async with linked(world, server) as node:
        await node.close()
        await node.close()
        with pytest.raises(NodeLost, match="closed"):
            await asked(node, "echo", {})
    await world.agents_gone()


async def test_a_node_whose_agent_says_nothing_does_not_keep_the_next_from_starting(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "STARTS", ConcurrencyLimit(1, 0.05))
    inventory = world.inventory({"uut": {"address": HOST, "port": server.port}})
    start_with(world, monkeypatch, "mute")
    async with asyncio.timeout(30):
        silent = asyncio.create_task(connect("uut", inventory, ignore))
        while not world.pid_files:
            await asyncio.sleep(0.01)
        start_with(world, monkeypatch)
        async with linked(world, server) as node:
            assert node.hello.protocol == 1
        assert not silent.done()
        silent.cancel()
        await asyncio.gather(silent, return_exceptions=True)
    await world.agents_gone()
