"""The topology: every stream's places with rates, where it loses, which counter moves; folded where it does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labconsole.engine.live.telemetry import Telemetry, follow
from labconsole.model.inventory import Inventory
from labconsole.tui.screens.bench.topology import Topology
from labconsole.verdict.observations import CountingPoint
from support.driven_console import SIZES, console, settle, text, until
from support.fake_session import FakeSession

pytestmark = pytest.mark.asyncio


def places(inventory: Inventory, name: str) -> list[CountingPoint]:
    stream = next(stream for stream in inventory.streams if stream.name == name)
    return [
        CountingPoint("source_nic", stream.source.node, "", stream.source.interface, "tx_packets"),
        CountingPoint("uut_in", "uut", "", stream.uut_in, "rx_packets"),
        CountingPoint("uut_out", "uut", "", stream.uut_out, "tx_packets"),
        CountingPoint("sink_nic", stream.sink.node, "", stream.sink.interface, "rx_packets"),
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
        await until(pilot, lambda: not app.state.requested)
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
        assert "UUT in" in rows[0]
        session.telemetry.streams["s1"] = session.telemetry.streams["s2"]
        rows = ["".join(span for span, _ in line) for line in topology.lines(78)]
        assert "no room for the hops between" in rows[0], "no heading stands above what it is not of"
        assert first.hops
        session.release.set()


async def test_what_is_lost_behind_quiet_places_is_not_said_to_be_lost_at_the_sink() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        session.rate_pps = 20_000
        session.advance()
        await pilot.press("t", "r")
        await until(pilot, lambda: bool(session.telemetry.streams))
        with_hops(session.telemetry, session.inventory)
        for _ in range(20):
            session.advance()
        sink = session.telemetry.interfaces["snk1", "", "eth1"]
        assert sink.last is not None
        values = list(sink.last.values)
        values[0] -= 3000
        sink.last = sink.last._replace(values=tuple(values))
        session.telemetry.mark_quiet("uut", True)
        topology = app.screen.query_one(Topology)
        rows = ["".join(span for span, _ in line) for line in topology.lines(116)]
        row = next(row for row in rows if "3\u2009000 from here on" in row)
        assert row.index("−≈") < rows[0].index("sink")
        session.release.set()


async def test_a_guests_places_fit_a_small_terminal() -> None:
    async with console(lambda: FakeSession(hold=True), (80, 24)) as (app, session, pilot):
        session.rate_pps = 21_300
        session.advance()
        await pilot.press("t", "r")
        await until(pilot, lambda: bool(session.telemetry.streams))
        for stream in session.telemetry.streams.values():
            first, into, out, last = places(session.inventory, stream.name)
            way = [first, into, replace(into, hop="to_guest"), replace(out, hop="from_guest"), out, last]
            stream.hops = follow([*way[:3], way[2], *way[3:], last], session.telemetry, {})
        session.advance()
        session.advance()
        rows = ["".join(span for span, _ in line) for line in app.screen.query_one(Topology).lines(78)]
        assert all(len(row) <= 80 for row in rows)
        assert "sink" in rows[0]
        assert sum("k " in row for row in rows) >= 3
        session.release.set()
