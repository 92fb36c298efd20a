"""How busy processors are, where an operator looks for it: driven by keys."""

from __future__ import annotations

import pytest

from labconsole.engine.live.telemetry import Telemetry
from labconsole.wire.processors import ProcessorsSampled, ProcessorUse
from support.driven_console import SIZES, console, settle, text, until
from support.fake_session import FakeSession

pytestmark = pytest.mark.asyncio


def busy(telemetry: Telemetry, node: str, *, elapsed_s: float = 1.0) -> None:
    telemetry.set_processors(
        node,
        ProcessorsSampled(
            monotonic_ns=1, wall_ns=1, elapsed_ns=round(elapsed_s * 1e9), processors=4, busiest_number=2,
            mean=ProcessorUse(busy=0.34, softirq=0.25, steal=0.0),
            busiest=ProcessorUse(busy=0.98, softirq=0.97, steal=0.0),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
async def test_the_chart_and_the_topology_have_the_processors_beside_them(size: tuple[int, int]) -> None:
    async with console(lambda: FakeSession(hold=True), size) as (app, session, pilot):
        busy(session.telemetry, "uut")
        await pilot.press("r")
        await until(pilot, lambda: bool(session.telemetry.streams))
        for _ in range(20):
            session.advance()
        await settle(app, pilot)
        if size[0] >= 200:
            await until(pilot, lambda: "cpu  uut 34 % · busiest 98 % softirq  src1 –" in text(app))
            session.telemetry.mark_quiet("uut", True)
            await until(pilot, lambda: "cpu  uut quiet  src1 –" in text(app))
            session.telemetry.mark_quiet("uut", False)
            busy(session.telemetry, "uut", elapsed_s=12)
            await pilot.press("t")
            await until(pilot, lambda: text(app).count("busiest 98 % softirq, over") == 2)
        session.release.set()


@pytest.mark.parametrize("size", SIZES[1:])
async def test_nodes_have_them_in_a_column(size: tuple[int, int]) -> None:
    async with console(FakeSession, size) as (app, session, pilot):
        busy(session.telemetry, "uut")
        await pilot.press("6")
        await until(pilot, lambda: "34 · 98 softirq" in text(app))
        row = next(line for line in text(app).splitlines() if "src1" in line and "connected" in line)
        assert " – " in row
