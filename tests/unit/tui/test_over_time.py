"""Guests over time on the Bench: a curve each, in the place of streams, on terminals of every size."""

from __future__ import annotations

import pytest

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.execution.steps import StepSeen
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts import over_time_chart
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.over_time_chart import OverTimeChart, _legend
from support.crew_shown import bounded, step_under_way
from support.driven_console import SIZES, console, shown, text, until
from support.fake_lab_session import LabSession

SECONDS = tuple(0.5 * number for number in range(1, 21))
TWO = OverTime(
    title="What guests send",
    unit="Mbit/s of frames",
    curves=(
        PictureCurve(name="g1", seconds=SECONDS, values=(100.0,) * 10 + (50.0,) * 10),
        PictureCurve(name="g2", seconds=SECONDS, values=(0.0,) * 10 + (50.0,) * 10),
    ),
    moments=((5.0, "the others begin"),),
)
SENDING = tuple(PictureGuest(name=name, state=CopyState.WORKS) for name in ("g1", "g2"))


def now(app: ConsoleApp) -> StepSeen:
    assert app.state.execution is not None
    seen = app.state.execution.steps.current
    assert seen is not None
    return seen


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_guests_that_send_are_drawn_over_time(size):
    async with console(bounded, size) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await step_under_way(app, pilot, SENDING)
        assert not app.screen.query_one(OverTimeChart).display
        now(app).shown = StepPicture(guests=SENDING, over_time=TWO)
        await shown(
            app, pilot, "What guests send", "Mbit/s of frames, over s", "● g1", "▲ g2", "at 5 s the others begin"
        )
        assert "100" in text(app), "the scale"
        session.release.set()
        await until(pilot, lambda: not app.state.asked)
        await until(pilot, lambda: not app.screen.query_one(OverTimeChart).display)


@pytest.mark.asyncio
async def test_the_same_curves_are_drawn_once(monkeypatch):
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await step_under_way(app, pilot, SENDING)
        now(app).shown = StepPicture(guests=SENDING, over_time=TWO)
        await shown(app, pilot, "● g1")
        chart = app.screen.query_one(OverTimeChart)
        await pilot.pause(0.3)  # the panel below takes its place
        await until(pilot, lambda: chart._drawn[1:] == tuple(chart.size))
        drawn: list[int] = []

        def draws(*_: object) -> list[list[Span]]:
            drawn.append(1)
            return []

        monkeypatch.setattr(over_time_chart, "_rows", draws)
        for _ in range(20):
            chart.show(StepPicture(guests=SENDING, over_time=TWO))
        assert not drawn
        session.release.set()
        await until(pilot, lambda: not app.state.asked)


def test_what_has_no_room_in_the_legend_is_counted():
    curves = tuple(PictureCurve(name=f"guest{number}", seconds=(1.0,), values=(1.0,)) for number in range(30))
    spans = _legend(OverTime(title="t", unit="u", curves=curves), 60)
    line = "".join(text for text, _ in spans)
    assert len(line) <= 60
    assert line.endswith(f"+ {30 - line.count('guest')} more")
