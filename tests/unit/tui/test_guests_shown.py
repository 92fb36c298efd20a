"""A crew's guests on the Bench while a step is under way: a row for each, counted where they are many."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from textual.widget import Widget

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.execution.progress import StepState, StepView
from labconsole.experiments.flow.live_view import build_picture as flow_picture
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.route.procedure import build_picture as route_picture
from labconsole.experiments.route.record import RouteRecord
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.step_screen import GuestsTable, StepScreen, StepSelection, format_guest_counts
from labconsole.tui.screens.bench.nodes import NodesTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.bench.streams import StreamsTable
from labconsole.tui.screens.bench.topology import Topology
from support.crew_shown import bounded, step_under_way
from support.driven_console import SIZES, console, shown, text, until
from support.fake_lab_session import LabSession
from support.flow_records import flow_record, inward_record, ring_record
from support.route_records import route_record


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
        await until(pilot, lambda: not app.state.requested)
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
        await until(pilot, lambda: not app.state.requested)


@pytest.mark.asyncio
async def test_a_step_over_the_whole_screen_shows_its_guests():
    async with console(bounded, (80, 24)) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await step_under_way(app, pilot, HUNDRED)
        app.push_screen(StepScreen(app, lambda: StepSelection.of(app.state.execution)))
        await shown(app, pilot, "57 of 100 done", "2.500")
        assert "no trial yet" not in text(app)
        session.release.set()
        await until(pilot, lambda: not app.state.requested)


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
        await until(pilot, lambda: not app.state.requested)


def over(record: FlowRecord | RouteRecord) -> StepSelection:
    """A trial that is over, as a plan shows it."""
    picture = flow_picture(record, ()) if isinstance(record, FlowRecord) else route_picture(record, ())
    step: Any = SimpleNamespace(describe=lambda: "a trial", picture=lambda _: picture)
    return StepSelection("p", [StepView(step, StepState.STORED, record)])


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("record", "headings", "rows"),
    [
        (
            flow_record([[2500, 2600], [800, 900]], limits_bps=(30_000_000, 40_000_000)),
            "guest Mbit/s while all send limit Mbit/s attained lost lost %",
            ["g1 30.03 30.00 1.0295 0 0.000", "g2 10.01 40.00 – 0 0.000"],
        ),
        (
            ring_record([40e6, None]),
            "guest sends to Mbit/s of frames out Mbit/s of frames in",
            ["g1 g2 40.00 –", "g2 g1 – 40.00"],
        ),
        (
            inward_record([1000, 1000], losses=[{"guest_socket_full": 100, "to_guest": 5}, {}]),
            "guest Mbit/s read lost lost % lost at",
            ["g1 5.27 105 10.500 to_guest 5, guest_socket_full 100", "g2 5.89 0 0.000"],
        ),
        (
            route_record((200, 100), lost_inside=(1000, 0)),
            "guest packets/s at sink lost % lost before lost in it lost behind",
            ["g1 2 000 20.000 0 1 000 0", "g2 1 000 0.000 0 0 0"],
        ),
    ],
)
@pytest.mark.parametrize("size", SIZES)
async def test_each_guest_that_sent_or_forwarded_is_shown_with_what_it_came_to(size, record, headings, rows):
    async with console(bounded, size) as (app, _, pilot):
        app.push_screen(StepScreen(app, lambda: over(record)))
        await shown(app, pilot, "2 of 2 done", "g2")
        lines = [" ".join(line.strip("│ ▌›").split()) for line in text(app).replace("\u2009", "_").splitlines()]
        assert any(line.startswith(headings) for line in lines), text(app)
        for row in rows:
            assert any(line.startswith(row.replace(" 000", "_000")) for line in lines), (row, lines)
        assert "seconds" not in text(app) and "+s" not in text(app)


@pytest.mark.asyncio
async def test_guests_that_send_have_no_times():
    """The chart beside them has what they do."""
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        sending = (guest(1, CopyState.WORKS),)
        await step_under_way(app, pilot, sending)
        await shown(app, pilot, "begun +s")
        assert app.state.execution is not None and (seen := app.state.execution.steps.current) is not None
        curve = PictureCurve(name="g1", seconds=(1.0,), values=(1.0,))
        seen.shown = StepPicture(guests=sending, over_time=OverTime(title="Sent", unit="Mbit/s", curves=(curve,)))
        await shown(app, pilot, "Sent: Mbit/s", "▶ works")
        await until(pilot, lambda: "+s" not in text(app))
        session.release.set()
        await until(pilot, lambda: not app.state.requested)


def test_those_that_only_stand_are_counted_apart():
    crew = (guest(1, CopyState.DONE), guest(2, CopyState.WAITS), guest(3, CopyState.STANDS))
    assert format_guest_counts(crew) == "Guests: 1 of 2 done, 1 waiting, 1 idle"
    assert format_guest_counts(()) == "Guests"
