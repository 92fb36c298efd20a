"""What the pool of links knows of its nodes: their clocks, and whether one of them owes an answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.links import LinkPool
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.engine.session import Session
from labconsole.errors import Aborted, NodeLost, NodeUnreachable
from labconsole.wire.session import AgentNotice, Hello


class DriftingLink:
    """A node whose clock has moved each time one looks."""

    def __init__(self, name: str, lost: bool = False) -> None:
        self.name, self.hello, self._lost = name, Hello(protocol=1, monotonic_ns=1, wall_ns=1), lost
        self.round_trip_s, self.clock_error_ns = 0.0, 0
        self.clock_offset_ns = self.monotonic_offset_ns = 0

    async def measure_clock(self) -> None:
        if self._lost:
            raise NodeLost(self.name, "the cable was pulled", operation="ping")
        self.round_trip_s, self.clock_error_ns = 0.001, 500_000
        self.clock_offset_ns += 180_000_000
        self.monotonic_offset_ns += 180_000_000


def fleet_of(*names: str) -> tuple[LinkPool, Telemetry]:
    telemetry = Telemetry()
    telemetry.nodes = {name: NodeLive(name, ("source",)) for name in names}
    unused: Any = None
    return (
        LinkPool(SimpleNamespace(), telemetry, connect=unused, emit=unused, on_event=unused, on_lost=unused),  # type: ignore[arg-type]
        telemetry,
    )


def test_clocks_that_have_drifted_since_the_link_was_opened_are_compared_again():
    pool, telemetry = fleet_of("src1", "src2")
    links: Any = [DriftingLink("src1"), DriftingLink("src2")]
    asyncio.run(pool.measure_clocks(links))
    asyncio.run(pool.measure_clocks(links[:1]))
    assert [link.monotonic_offset_ns for link in links] == [360_000_000, 180_000_000]
    assert [telemetry.nodes[name].clock_offset_ns for name in ("src1", "src2")] == [360_000_000, 180_000_000]
    assert telemetry.nodes["src1"].clock_error_ns == 500_000


def test_a_node_that_is_gone_meanwhile_is_named_after_the_others_have_answered():
    pool, telemetry = fleet_of("src1", "src2")
    links: Any = [DriftingLink("src1", lost=True), DriftingLink("src2")]
    with pytest.raises(NodeLost, match="src1"):
        asyncio.run(pool.measure_clocks(links))
    assert links[1].monotonic_offset_ns == 180_000_000
    assert telemetry.nodes["src1"].clock_offset_ns is None


def test_a_pool_awaits_an_answer_while_a_node_is_connected_and_while_one_of_its_links_does():
    async def check() -> None:
        dialled, refused = asyncio.Event(), asyncio.Event()

        async def dial(name: str, inventory: Any, on_event: Any) -> Any:
            dialled.set()
            await refused.wait()
            raise NodeUnreachable(name, "no route", operation="connect")

        nothing: Any = lambda *_: None  # noqa: E731
        inventory: Any = SimpleNamespace(nodes={"src1": SimpleNamespace(address="192.0.2.1")})
        telemetry = Telemetry()
        telemetry.nodes = {"src1": NodeLive("src1", ("source",))}
        pool = LinkPool(inventory, telemetry, connect=dial, emit=nothing, on_event=nothing, on_lost=nothing)
        assert not pool.awaits_answer
        connecting = asyncio.create_task(pool.connect(["src1"]))
        await dialled.wait()
        assert pool.awaits_answer
        refused.set()
        await connecting
        assert not pool.awaits_answer
        standing: Any = SimpleNamespace(awaits_answer=False)
        pool.links["src1"] = standing
        assert not pool.awaits_answer
        standing.awaits_answer = True
        assert pool.awaits_answer
        await pool.close()

    asyncio.run(check())


def test_who_connects_waits_for_an_attempt_under_way_and_a_batch_can_be_stopped_meanwhile():
    async def check() -> None:
        answers: list[asyncio.Event] = []

        async def dial(name: str, inventory: Any, on_event: Any) -> Any:
            answers.append(asyncio.Event())
            await answers[-1].wait()
            raise NodeUnreachable(name, "no route", operation="connect")

        async def until(count: int) -> None:
            while len(answers) < count:
                await asyncio.sleep(0)

        nothing: Any = lambda *_: None  # noqa: E731
        inventory: Any = SimpleNamespace(nodes={"src1": SimpleNamespace(address="192.0.2.1")})
        telemetry = Telemetry()
        telemetry.nodes = {"src1": NodeLive("src1", ("source",))}
        pool = LinkPool(inventory, telemetry, connect=dial, emit=nothing, on_event=nothing, on_lost=nothing)
        first = asyncio.create_task(pool.connect(["src1"]))
        await until(1)
        answers[0].set()
        await first
        while not pool.reconnect("src1"):
            await asyncio.sleep(0)
        await until(2)
        session: Any = SimpleNamespace(_pool=pool, _stop=asyncio.Event())
        waiting = asyncio.create_task(Session._wait_connected(session, ["src1"]))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        session._stop.set()
        with pytest.raises(Aborted, match="while nodes were being connected"):
            await waiting
        session._stop.clear()
        waiting = asyncio.create_task(Session._wait_connected(session, ["src1"]))
        answers[1].set()
        await waiting
        await pool.close()

    asyncio.run(check())


def test_of_a_node_s_notices_the_first_are_passed_on_and_the_rest_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labconsole.engine.links.MAX_NOTICES", 3)
    emitted: list[Any] = []
    unused: Any = None
    pool = LinkPool(
        SimpleNamespace(),  # type: ignore[arg-type]
        Telemetry(),
        connect=unused,
        emit=emitted.append,
        on_event=lambda *_: None,
        on_lost=unused,
    )
    for number in range(9):
        pool._receive("src1", AgentNotice(code="x", message=f"notice {number}"))
    pool._receive("snk1", AgentNotice(code="x", message="another node's"))
    assert [(event.node, event.message) for event in emitted] == [
        *(("src1", f"notice {number}") for number in range(3)),
        ("src1", "sent more than 3 notices; further ones are not shown"),
        ("snk1", "another node's"),
    ]
