"""Guests over time on the Bench: a curve each, in the place of streams, on terminals of every size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from textual.app import App

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.execution.progress import StepView
from labconsole.experiments.flow.live_view import INTO, SendingWatch
from labconsole.experiments.flow.live_view import build_picture as flow_picture
from labconsole.experiments.route.procedure import build_picture as route_picture
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts import charts
from labconsole.tui.parts.charts import OverTimeChart, _guests_legend, _rows
from labconsole.tui.parts.lines import Span
from support.crew_shown import bounded, step_under_way
from support.driven_console import SIZES, console, shown, text, until
from support.fake_lab_session import LabSession
from support.flow_records import flow_record
from support.route_records import route_record

SECONDS = tuple(0.5 * number for number in range(1, 21))
TWO = OverTime(
    title="What guests send",
    unit="Mbit/s of frames",
    curves=(
        PictureCurve(name="g1", seconds=SECONDS, values=(100.0,) * 10 + (50.0,) * 10),
        PictureCurve(name="g2", seconds=SECONDS, values=(0.0,) * 10 + (50.0,) * 10),
    ),
    moments=((5.0, "the others begin"),),
    levels=((50.0, "g2 ≤ 50 Mbit/s"),),
)
SENDING = tuple(PictureGuest(name=name, state=CopyState.WORKS) for name in ("g1", "g2"))


def now(app: ConsoleApp) -> StepView:
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
        await until(pilot, lambda: not app.state.requested)
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

        monkeypatch.setattr(charts, "_rows", draws)
        for _ in range(20):
            chart.show(StepPicture(guests=SENDING, over_time=TWO))
        assert not drawn
        session.release.set()
        await until(pilot, lambda: not app.state.requested)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("over_time", "words"),
    [
        (SendingWatch({}).shown(), "What guests send: Mbit/s of frames, over s"),
        (SendingWatch({}, INTO).shown(), "What is handed to guests: Mbit/s of frames, over s"),
        (SendingWatch({}, passed=True).shown(), "Let through, by guest: Mbit/s of frames, over s"),
        (flow_picture(flow_record([[100]]), ()).over_time, "At the sink, by guest: Mbit/s of payload, over s"),
        (route_picture(route_record(), ()).over_time, "At the sink, by router: kpackets/s, over s"),
    ],
)
async def test_a_title_with_its_unit_fits_beside_the_plans_at_120_columns(monkeypatch, over_time, words):
    monkeypatch.setattr(charts, "MIN_INTERVAL_S", 0.0)

    class Alone(App[None]):
        CSS = "OverTimeChart { width: 66; height: 20; border: round white; }"

        def compose(self) -> Any:
            yield OverTimeChart(id="chart")

    async with Alone().run_test(size=(120, 40)) as pilot:
        pilot.app.query_one(OverTimeChart).show(StepPicture(over_time=replace(over_time, curves=TWO.curves)))
        await pilot.pause()
        rows = pilot.app.screen._compositor.render_strips()
        assert words in "".join(segment.text for segment in rows[0])


@pytest.mark.parametrize(("width", "height"), [(78, 9), (118, 20)])
def test_what_takes_effect_is_marked_where_it_does(width: int, height: int):
    weights = [(0.0, "30:1"), (1.0, "15:1"), (5.0, "1:1"), (5.05, "1:3"), (99.0, "1:30")]
    heading, top, *rest = [
        "".join(words for words, _ in row) for row in _rows(replace(TWO, moments=tuple(weights)), width, height)
    ]
    place = [top.index(words) for words in ("30:1", "15:1")]
    assert place == sorted(place) and "1:30" not in top, "what has not been yet has no place"
    assert ("1:1─" in top) is False and "1:3─" in top, "of two at one place the later is named"
    lines = [row[place[1]] for row in rest]
    assert lines.count("┊") >= height - 7
    assert any("┄┄┄" in row for row in rest), "a limit is a line across"
    assert "g2 ≤ 50 Mbit/s" in heading
    still = [
        "".join(words for words, _ in row) for row in _rows(replace(TWO, moments=((99.0, "later"),)), width, height)
    ]
    assert "later" not in still[1] and not any("┊" in row for row in still)


def test_what_has_no_room_in_the_legend_is_counted():
    curves = tuple(PictureCurve(name=f"guest{number}", seconds=(1.0,), values=(1.0,)) for number in range(30))
    spans = _guests_legend(OverTime(title="t", unit="u", curves=curves), 60)
    line = "".join(text for text, _ in spans)
    assert len(line) <= 60
    assert line.endswith(f"+ {30 - line.count('guest')} more")
