"""The topology: every stream's places with rates, where it loses, which counter moves; folded where it does not fit."""

from __future__ import annotations

import pytest

from labconsole.engine.live.hops import follow
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.inventory import Inventory
from labconsole.tui.screens.bench.topology import Topology
from labconsole.verdict.hops import Place
from support.driven_console import SIZES, console, settle, text, until
from support.fake_session import FakeSession

pytestmark = pytest.mark.asyncio


def places(inventory: Inventory, name: str) -> list[Place]:
    stream = next(stream for stream in inventory.streams if stream.name == name)
    return [
        Place("source_nic", stream.source.node, "", stream.source.interface, "tx_packets"),
        Place("uut_in", "uut", "", stream.uut_in, "rx_packets"),
        Place("uut_out", "uut", "", stream.uut_out, "tx_packets"),
        Place("sink_nic", stream.sink.node, "", stream.sink.interface, "rx_packets"),
    ]


def with_hops(telemetry: Telemetry, inventory: Inventory) -> None:
    for stream in telemetry.streams.values():
        stream.hops = follow(places(inventory, stream.name), telemetry, {})


@pytest.mark.parametrize("size", SIZES)
async def test_the_lossy_place_and_its_counter_are_seen_while_it_happens(size: tuple[int, int]) -> None:
    async with console(lambda: FakeSession(hold=True, loss=0.07), size) as (app, session, pilot):
        session.rate_pps = 20_000
        session.advance()
        await pilot.press("t")
        await until(pilot, lambda: "Topology" in text(app))
        assert all(f"src{i}/eth1" in text(app) for i in (1, 2, 3))
        await pilot.press("r")
        await until(pilot, lambda: bool(session.telemetry.streams))
        with_hops(session.telemetry, session.inventory)
        for _ in range(20):
            session.advance()
        await settle(app, pilot)
        shown = text(app)
        assert "≈" in shown
        row = next(line for line in shown.splitlines() if "tx_dropped" in line)
        assert row.index("tx_dropped") > row.index("▲") if "▲" in row else True
        assert shown.count("─▶") >= 3
        session.release.set()
        await until(pilot, lambda: not app.state.asked)
        await until(pilot, lambda: "Topology · of the saved run" in text(app))
        assert "−" in text(app)
        await pilot.press("t")
        await until(pilot, lambda: "Topology" not in text(app).replace("t Topology", ""))


async def test_many_streams_fold_and_those_that_lose_stay_whole() -> None:
    async with console(lambda: FakeSession(hold=True, loss=0.07), (80, 24)) as (app, session, pilot):
        session.rate_pps = 20_000
        session.advance()
        await pilot.press("t", "r")
        await until(pilot, lambda: bool(session.telemetry.streams))
        with_hops(session.telemetry, session.inventory)
        for _ in range(20):
            session.advance()
        topology = app.screen.query_one(Topology)
        first = session.telemetry.streams["s1"]
        for number in range(4, 40):
            session.telemetry.streams[f"s{number}"] = session.telemetry.streams["s2"]
        rows = ["".join(span for span, _ in line) for line in topology.lines(78)]
        assert len(rows) <= topology.size.height
        assert any("tx_dropped" in row for row in rows)
        assert any("more streams" in row for row in rows)
        assert first.hops
        session.release.set()
