"""What the console looks like at three sizes, as pictures. Clocks stand still, the session is scripted.

After a wanted change: ``pytest tests/unit/tui/test_bench_snapshots.py --snapshot-update``, and look at what changed.
"""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import theme
from labconsole.tui.parts.fields import Field
from labconsole.tui.parts.screen import ConsoleScreen
from labconsole.tui.screens.bench.screen import BenchScreen
from support.fake_session import FakeSession

pytestmark = pytest.mark.usefixtures("still_clocks")
SIZES = [(80, 24), (120, 40), (200, 60)]


def make_console() -> tuple[ConsoleApp, list[FakeSession]]:
    made: list[FakeSession] = []

    def factory() -> FakeSession:
        made.append(FakeSession(hold=True, loss=0.07))
        return made[0]

    return ConsoleApp(factory), made


async def ready(app: ConsoleApp, pilot: Pilot[int], made: list[FakeSession]) -> None:
    while not (isinstance(app.screen, BenchScreen) and made and made[0].telemetry.interfaces):
        await pilot.pause(0.01)
    await pilot.pause()


async def paint(app: ConsoleApp, pilot: Pilot[int]) -> None:
    await pilot.pause()
    assert isinstance(app.screen, ConsoleScreen)
    app.screen.tick()
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_bench_while_sending(snap_compare: Any, size: tuple[int, int]) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await ready(app, pilot, made)
        await pilot.press("r")
        while app.state.trial is None or app.state.trial.phase is None:
            await pilot.pause(0.01)
        made[0].rate_pps = 14_205
        for _ in range(40):
            made[0].advance()
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)


def test_bench_with_a_refused_choice(snap_compare: Any) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await ready(app, pilot, made)
        app.screen.query_one("#target", Field).value = "2Gbit"
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=(120, 40), run_before=drive)


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x60"])
def test_bench_after_repetitions_in_the_light_theme(snap_compare: Any, size: tuple[int, int]) -> None:
    app, made = make_console()

    async def drive(pilot: Pilot[int]) -> None:
        await ready(app, pilot, made)
        app.theme = theme.LIGHT.name
        made[0].release.set()
        app.screen.query_one("#repetitions", Field).value = "3"
        await pilot.press("r")
        while app.state.repetitions.done < 3 or app.state.requested or len(app.runs) < 3:
            await pilot.pause(0.01)
        await paint(app, pilot)
        await paint(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=drive)
