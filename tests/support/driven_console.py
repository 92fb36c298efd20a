"""The console on a scripted session, driven by keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from labconsole.tui.app import ConsoleApp
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from support.fake_session import FakeSession

SIZES = [(80, 24), (120, 40), (200, 60)]


@asynccontextmanager
async def console(
    session: Callable[[], FakeSession] = FakeSession, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[ConsoleApp, FakeSession, Pilot[int]]]:
    """The console with its bench open and all nodes connected."""
    made: list[FakeSession] = []

    def factory() -> FakeSession:
        made.append(session())
        return made[0]

    app = ConsoleApp(factory)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and app.screen.is_mounted)
        await until(pilot, lambda: bool(made[0].telemetry.interfaces))
        await settle(app, pilot)
        yield app, made[0], pilot


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            if pilot.app._exception is not None:
                raise pilot.app._exception
            await pilot.pause(0.01)


async def settle(app: ConsoleApp, pilot: Pilot[int]) -> None:
    """Paint what there is."""
    await pilot.pause()
    if isinstance(app.screen, BenchScreen | RunsScreen):
        app.screen.tick()
    await pilot.pause()


def picture(app: ConsoleApp) -> list[str]:
    """The screen as lines of text."""
    width, height = app.size
    return ["".join(s.text for s in strip).ljust(width) for strip in app.screen._compositor.render_strips()][:height]


def text(app: ConsoleApp) -> str:
    return "\n".join(picture(app))


async def still(app: ConsoleApp, pilot: Pilot[int]) -> None:
    """Wait until no thread works for the screen any more, and paint."""
    groups = {"follow", "look", "details", "series", "export"}
    for _ in range(3):
        await pilot.pause()
        await until(pilot, lambda: not any(w.group in groups and w.is_running for w in app.workers))
    if isinstance(app.screen, RunsScreen):
        app.screen.tick()
    await pilot.pause()


async def shown(app: ConsoleApp, pilot: Pilot[int], *words: str) -> str:
    """The picture, once it holds all of these words."""

    def holds_all() -> bool:
        seen = text(app)
        return all(word in seen for word in words)

    try:
        await until(pilot, holds_all)
    except TimeoutError:
        missing = [word for word in words if word not in text(app)]
        raise AssertionError(f"not on the screen: {missing}\n{text(app)}") from None
    return text(app)
