"""What the screens of saved runs look like at three sizes, as pictures; see test_tui_snapshots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.filter_line import FilterInput
from labconsole.tui.screens.bench.screen import BenchScreen
from support.driven_console import SIZES, still
from support.fake_session import FakeSession
from support.saved_runs import session_with_runs

pytestmark = pytest.mark.usefixtures("still_clocks")
IDS = ["80x24", "120x40", "200x60"]


def driven(
    steps: Callable[[ConsoleApp, Pilot[int]], Awaitable[None]],
) -> tuple[ConsoleApp, Callable[[Pilot[int]], Awaitable[None]]]:
    made: list[FakeSession] = []

    def factory() -> FakeSession:
        made.append(session_with_runs())
        return made[0]

    app = ConsoleApp(factory)

    async def drive(pilot: Pilot[int]) -> None:
        while not (isinstance(app.screen, BenchScreen) and made and made[0].telemetry.interfaces):
            await pilot.pause(0.01)
        app.state.notes.clear()
        await steps(app, pilot)
        await still(app, pilot)
        app.screen.tick()
        await pilot.pause()

    return app, drive


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_runs_with_the_lossy_one_chosen(snap_compare: Any, size: tuple[int, int]) -> None:
    async def steps(app: ConsoleApp, pilot: Pilot[int]) -> None:
        await pilot.press("2")
        await still(app, pilot)
        app.screen.query_one(FilterInput).value = "size=64 target=400Mbit"
        await still(app, pilot)
        await pilot.press("m", "t")

    app, drive = driven(steps)
    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_a_run_whose_packets_were_timed(snap_compare: Any, size: tuple[int, int]) -> None:
    async def steps(app: ConsoleApp, pilot: Pilot[int]) -> None:
        await pilot.press("2")
        await still(app, pilot)
        app.screen.query_one(FilterInput).value = "size=500 platform=container target=400Mbit"
        await still(app, pilot)
        await pilot.press("enter", "t", "t")

    app, drive = driven(steps)
    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_two_runs_side_by_side(snap_compare: Any, size: tuple[int, int]) -> None:
    async def steps(app: ConsoleApp, pilot: Pilot[int]) -> None:
        await pilot.press("2")
        await still(app, pilot)
        app.screen.query_one(FilterInput).value = "size=64 target=400Mbit"
        await still(app, pilot)
        await pilot.press("m", "end", "c")

    app, drive = driven(steps)
    assert snap_compare(app, terminal_size=size, run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_curves_of_two_platforms(snap_compare: Any, size: tuple[int, int]) -> None:
    async def steps(app: ConsoleApp, pilot: Pilot[int]) -> None:
        await pilot.press("3")
        await still(app, pilot)
        app.screen.query_one(FilterInput).value = "sources=1 "

    app, drive = driven(steps)
    assert snap_compare(app, terminal_size=size, run_before=drive)
