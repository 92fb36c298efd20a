"""Curves: chosen, filtered, followed while runs come in, and gone from to the runs of a point."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from labconsole.engine.live.events import TrialFinished
from labconsole.measure.curves import CurveSpec
from labconsole.model.query import parse_query
from labconsole.text import charts
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.fields import Choice
from labconsole.tui.parts.filter_line import FilterInput, FilterLine
from labconsole.tui.parts.runs_table import SavedRunsTable
from labconsole.tui.screens.curves.curve_chart import legend_rows
from labconsole.tui.screens.curves.curves_table import CurvesTable
from labconsole.tui.screens.curves.screen import CurveFeed, CurvesScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from support.driven_console import console, picture, still, text, until
from support.fake_session import FakeSession
from support.saved_runs import saved_record, session_with_runs

SIZES = [(80, 24), (120, 40), (200, 60)]


async def open_curves(app: ConsoleApp, pilot: Pilot[int]) -> CurvesTable:
    await pilot.press("3")
    await until(pilot, lambda: isinstance(app.screen, CurvesScreen) and bool(app.screen.query(CurvesTable)))
    await still(app, pilot)
    return app.screen.query_one(CurvesTable)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_measured_over_offered_is_drawn_and_what_is_left_out_is_said(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, session, pilot):
        await open_curves(app, pilot)
        shown = text(app)
        total = len(session.store.records)
        assert f"{total - 1} of {total} runs drawn" in shown
        assert "left out" in shown
        for glyph, label in zip("●▲■◆", ("container 64 B", "container 500 B", "raw 64 B", "raw 500 B"), strict=True):
            assert f"{glyph} {label}" in shown
        assert "curves mix runs with different sources" in shown
        assert all(cell_len(line) <= size[0] for line in picture(app))


@pytest.mark.asyncio
async def test_what_is_drawn_over_what_is_chosen_by_keys_and_fits_together() -> None:
    async with console(session_with_runs) as (app, _, pilot):
        table = await open_curves(app, pilot)
        await pilot.press("v")
        await still(app, pilot)
        assert "loss in % over offered" in text(app)
        await pilot.press("v", "v")
        await still(app, pilot)
        assert app.screen.query_one("#choice-x", Choice).value == "sources"
        assert "maximum forwarded packets/s over number of sources" in text(app)
        assert sorted({round(point.x) for _, point in table._points.values()}) == [1, 2, 3]
        await pilot.press("o", "u", "b")
        await still(app, pilot)
        assert "maximum forwarded bandwidth on the wire over frame size in bytes" in text(app)
        await pilot.press("o")  # over offered there is no maximum
        await still(app, pilot)
        assert app.screen.query_one("#choice-y", Choice).value == "measured"
        assert "forwarded bandwidth on the wire over offered" in text(app)


@pytest.mark.asyncio
async def test_a_run_that_is_saved_enters_its_point_and_others_are_not_read_again() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_curves(app, pilot)
        before = {key: point.y.trials for key, (_, point) in table._points.items()}
        assert set(before.values()) == {3}
        fresh = saved_record(500, platform="raw", size=500, target=10**7)
        session.store.records.insert(0, fresh)
        session.say(TrialFinished(record=fresh, saved=True))
        await until(pilot, lambda: 4 in {point.y.trials for _, point in table._points.values()})
        assert sum(point.y.trials for _, point in table._points.values()) == sum(before.values()) + 1


@pytest.mark.asyncio
async def test_the_filter_of_the_runs_chooses_what_enters() -> None:
    async with console(session_with_runs) as (app, _, pilot):
        table = await open_curves(app, pilot)
        await pilot.press("slash")
        app.screen.query_one(FilterInput).value = "platform=raw sources=1 siez=64"
        await pilot.press("enter")
        await still(app, pilot)
        assert "did you mean size?" in text(app)
        assert {curve.label for curve, _ in table._points.values()} == {"raw 64 B", "raw 500 B"}
        assert "curves mix runs with different" not in text(app)
        await pilot.press("slash")
        app.screen.query_one(FilterInput).value = "platform=none"
        await pilot.press("enter")
        await still(app, pilot)
        assert "No matching run can be drawn" in text(app)
        await pilot.press("escape")
        await still(app, pilot)
        assert "● container 64 B" in text(app)


@pytest.mark.asyncio
async def test_enter_leads_to_the_runs_of_a_point() -> None:
    async with console(session_with_runs) as (app, _, pilot):
        table = await open_curves(app, pilot)
        await pilot.press("end", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and bool(app.screen.query(SavedRunsTable)))
        await still(app, pilot)
        assert table.chosen is not None
        design = table.chosen.design
        runs = app.screen.query_one(SavedRunsTable).all_shown()
        assert {(r.platform, r.frame_size_bytes, r.target_bps) for r in runs} == {
            (design.platform, design.frame.bytes, design.target_bps)
        }
        assert len(runs) == 3
        assert f"platform={design.platform}" in app.screen.query_one(FilterLine).text


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_without_runs_and_with_a_store_that_cannot_be_read_it_says_so(size: tuple[int, int]) -> None:
    async with console(FakeSession, size) as (app, session, pilot):
        await open_curves(app, pilot)
        assert "No runs saved yet" in text(app)
        session.store.broken = True
        await pilot.press("l")
        await until(pilot, lambda: "✗ the run store cannot be read" in text(app))
        session.store.broken = False
        session.store.records = [saved_record(0)]
        await pilot.press("l")
        await until(pilot, lambda: "● raw 64 B" in text(app))


def test_a_feed_takes_in_only_what_is_new_until_the_filter_or_the_runs_change() -> None:
    runs = session_with_runs().store.list()
    feed, query = CurveFeed(), parse_query("platform=raw")
    first = feed.curves(runs[5:], query, 0, CurveSpec())
    grown = feed.curves(runs, query, 0, CurveSpec())
    assert grown.runs == CurveFeed().curves(runs, query, 0, CurveSpec()).runs > first.runs - 1
    assert feed.curves(runs, query, 0, CurveSpec()) == grown
    assert feed.curves(runs, parse_query("platform=container"), 0, CurveSpec()).runs == 18
    assert feed.curves(runs[:3], parse_query("platform=container"), 1, CurveSpec()).runs == 0


def test_a_chart_of_curves_has_exactly_the_lines_asked_for_and_a_glyph_and_number_for_each() -> None:
    curves = [
        [charts.CurvePointMark(1e5 * i, 9e4 * i * (n + 1), 8e4 * i * (n + 1), 1e5 * i * (n + 1)) for i in (1, 2, 3)]
        for n in range(3)
    ]
    for width, height in ((40, 8), (100, 24)):
        rows = charts.draw_curves(curves, charts.CurveAxes(ideal=True), width, height)
        assert len(rows) == height
        assert all(sum(cell_len(part) for part, _ in row) <= width for row in rows)
        for number in range(3):
            seen = "".join(part for row in rows for part, of in row if of == number)
            assert charts.marker(number) in seen
    assert charts.draw_curves([], charts.CurveAxes(), 80, 10) == [[]] * 10


def test_many_curves_are_told_apart_and_what_found_no_room_is_said() -> None:
    assert len({charts.marker(i) for i in range(30)}) == 30
    labels = [f"platform-{i} 64 B" for i in range(14)]
    rows = legend_rows(labels, 76, 1)
    assert len(rows) == 1
    assert "more below" in rows[0][-1][0]
    assert sum(cell_len(part) for part, _ in rows[0]) <= 76
    rows = legend_rows(labels, 400, 2)
    assert "2 not drawn" in rows[-1][-1][0]
