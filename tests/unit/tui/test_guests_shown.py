"""A crew's guests on the Bench while a step is under way: a row for each, counted where they are many."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from textual.widget import Widget

from labconsole.contracts.picture import CopyState, PictureGuest
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.guests_table import GuestsTable, guests_words
from labconsole.tui.parts.step_screen import SeenSteps, StepScreen
from labconsole.tui.screens.bench.nodes import NodesTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.bench.streams import StreamsTable
from labconsole.tui.screens.bench.topology import Topology
from support.crew_shown import bounded, step_under_way
from support.driven_console import SIZES, console, shown, text, until
from support.fake_lab_session import LabSession


def guest(number: int, state: CopyState) -> PictureGuest:
    return PictureGuest(name=f"g{number}", state=state)


HUNDRED = tuple(
    replace(guest(number, CopyState.DONE), begun_s=0.0, ended_s=2.5, seconds=2.5)
    if number <= 57
    else guest(number, CopyState.WORKS)
    for number in range(1, 101)
)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_a_hundred_guests_are_counted_and_scrolled(size):
    async with console(bounded, size) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await step_under_way(app, pilot, HUNDRED)
        await shown(app, pilot, "57 of 100 done", "43 at work", "✓ done", "2.500")
        assert "g100" not in text(app)
        await until(pilot, lambda: isinstance(app.focused, GuestsTable))
        await pilot.press("G")
        await shown(app, pilot, "g100", "▶ works")
        session.release.set()
        await until(pilot, lambda: not app.state.asked)
        await until(pilot, lambda: app.screen.query_one(StreamsTable).display)
        await until(pilot, lambda: not app.screen.has_class("-crew"))
        assert "57 of 100" not in text(app)


def has_room(app: ConsoleApp, part: type[Widget]) -> bool:
    return app.screen.query_one(part).size.height > 5


@pytest.mark.asyncio
async def test_on_a_small_terminal_every_view_shows_something_while_guests_work():
    async with console(bounded, (80, 24)) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await step_under_way(app, pilot, HUNDRED)
        await shown(app, pilot, "57 of 100 done")
        for part in (Topology, GuestsTable, NodesTable, GuestsTable):
            await pilot.press("v")
            await until(pilot, partial(has_room, app, part))
            await shown(app, pilot, "v View")
        session.release.set()
        await until(pilot, lambda: not app.state.asked)


@pytest.mark.asyncio
async def test_a_step_over_the_whole_screen_shows_its_guests():
    async with console(bounded, (80, 24)) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await step_under_way(app, pilot, HUNDRED)
        app.push_screen(StepScreen(app, lambda: SeenSteps.of(app.state.execution)))
        await shown(app, pilot, "57 of 100 done", "2.500")
        assert "no trial yet" not in text(app)
        session.release.set()
        await until(pilot, lambda: not app.state.asked)


@pytest.mark.asyncio
async def test_the_same_picture_is_painted_once(monkeypatch):
    """A hundred guests that are done cost nothing, however often the Bench is drawn."""
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        done = HUNDRED[:57]
        await step_under_way(app, pilot, done)
        await shown(app, pilot, "57 of 57 done")
        table = app.screen.query_one(GuestsTable)
        painted: list[int] = []
        monkeypatch.setattr(table, "paint", lambda: painted.append(1))
        bench = app.screen
        assert isinstance(bench, BenchScreen)
        for _ in range(20):
            bench.tick()
        assert not painted
        session.release.set()
        await until(pilot, lambda: not app.state.asked)


def test_those_that_only_stand_are_counted_apart():
    crew = (guest(1, CopyState.DONE), guest(2, CopyState.WAITS), guest(3, CopyState.STANDS))
    assert guests_words(crew) == "Guests: 1 of 2 done, 1 waiting, 1 standing by"
    assert guests_words(()) == "Guests"
