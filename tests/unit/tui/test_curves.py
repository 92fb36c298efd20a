"""Curves: chosen, filtered, followed while runs come in, and gone from to the runs of a point."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot
from textual.widgets import Input

from labconsole.engine.live.events import TrialFinished
from labconsole.measure.curves import Curve, CurvePoint, Curves, CurveSpec
from labconsole.measure.statistics.repetitions import ratio
from labconsole.model.query import parse_query
from labconsole.text import charts
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.fields import Choice
from labconsole.tui.parts.filter_line import FilterInput, FilterLine
from labconsole.tui.parts.runs_table import SavedRunsTable
from labconsole.tui.screens.curves.curve_chart import (
    CurveChart,
    CurveViewOptions,
    even_ticks,
    legend_rows,
    log_ticks,
    picture,
    svg_document,
)
from labconsole.tui.screens.curves.curves_table import CurveFeed, CurvesTable
from labconsole.tui.screens.curves.screen import CurvesScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from support import driven_console
from support.driven_console import console, still, text, until
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
        assert f"{total - 1} of {total} runs drawn, 2 suspect" in shown
        assert "read drawn" not in shown
        assert "2 suspect; left out: " in shown or size[0] < 100
        for glyph, label in zip("●▲■◆", ("container 64 B", "container 500 B", "raw 64 B", "raw 500 B"), strict=True):
            assert f"{glyph} {label}" in shown
        assert "curves mix runs with different sources" in shown
        assert all(cell_len(line) <= size[0] for line in driven_console.picture(app))


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
        assert "suspect" not in text(app)  # the container's are, which are not drawn
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
        runs = app.screen.query_one(SavedRunsTable).list_displayed_runs()
        assert {(r.platform, r.frame_size_bytes, r.target_bps) for r in runs} == {
            (design.platform, design.frame.bytes, design.target_bps)
        }
        assert len(runs) == 3
        assert f"platform={design.platform}" in app.screen.query_one(FilterLine).text


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["escape", "backspace"])
async def test_the_way_back_leads_to_the_point_and_leaves_the_runs_as_they_were(key: str) -> None:
    async with console(session_with_runs) as (app, _, pilot):
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and bool(app.screen.query(SavedRunsTable)))
        await still(app, pilot)
        runs = app.screen
        await pilot.press("slash")
        runs.query_one(FilterInput).value = "platform=raw "
        await pilot.press("enter", "down", "down")
        await still(app, pilot)
        stood = runs.query_one(SavedRunsTable).chosen
        table = await open_curves(app, pilot)
        await pilot.press("v", "end", "enter")
        await until(pilot, lambda: app.screen is runs)
        await still(app, pilot)
        point = table.cursor_key
        await pilot.press("down", "enter", "escape")  # from the details to the list
        assert app.screen is runs
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
        await still(app, pilot)
        assert table.cursor_key == point and "loss in % over offered" in text(app)
        await pilot.press("2")
        await still(app, pilot)
        assert runs.query_one(FilterLine).text == "platform=raw "
        assert runs.query_one(SavedRunsTable).chosen == stood
        await pilot.press("escape", "escape")  # nobody led here now: the filter, then the bench
        await until(pilot, lambda: not isinstance(app.screen, RunsScreen | CurvesScreen))


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_without_runs_and_with_a_store_that_cannot_be_read_it_says_so(size: tuple[int, int]) -> None:
    async with console(FakeSession, size) as (app, session, pilot):
        await open_curves(app, pilot)
        said = " ".join(text(app).split())
        assert (
            "No runs saved yet. Press 1 for the Bench, where they are measured, or E for curves of trials of guests"
            in said
        )
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


def test_runs_of_several_occasions_are_said_to_be_mixed() -> None:
    runs, query = session_with_runs().store.list(), parse_query("")
    nights = [replace(run, plan_name=f"nightly@{number % 2}") for number, run in enumerate(runs)]
    assert "occasions" not in CurveFeed().curves(runs, query, 0, CurveSpec()).pooled
    assert CurveFeed().curves(nights, query, 0, CurveSpec()).pooled["occasions"] == ("nightly@0", "nightly@1")


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


def test_an_upright_line_stands_where_it_is_asked_for_in_every_row_of_the_plot() -> None:
    curve = [charts.CurvePointMark(x, 10.0) for x in (1.0, 2.0, 3.0)]
    rows = ["".join(part for part, _ in row) for row in charts.draw_curves([curve], charts.CurveAxes(), 60, 12)]
    assert not [row for row in rows if charts.UPRIGHT in row]
    lined = charts.draw_curves([curve], charts.CurveAxes(moments=[(1.5, "")]), 60, 12)
    rows = ["".join(part for part, _ in row) for row in lined]
    places = [row.index(charts.UPRIGHT) for row in rows if charts.UPRIGHT in row]
    assert len(set(places)) == 1
    assert len(places) >= 12 - charts.FRAME_ROWS - 2  # the curve itself hides it where they cross
    marks = next(row for row in rows if "●" in row)
    first, second = (place for place, glyph in enumerate(marks) if glyph == "●" and place < len(marks) - 3)
    assert first < places[0] < second


def test_many_curves_are_told_apart_and_what_found_no_room_is_said() -> None:
    assert len({charts.marker(i) for i in range(30)}) == 30
    labels = [f"platform-{i} 64 B" for i in range(14)]
    rows = legend_rows(labels, 76, 1)
    assert len(rows) == 1
    assert "more below" in rows[0][-1][0]
    assert sum(cell_len(part) for part, _ in rows[0]) <= 76
    rows = legend_rows(labels, 400, 2)
    assert "2 not drawn" in rows[-1][-1][0]


def test_no_two_curves_have_one_name_in_the_legend_however_narrow_it_is() -> None:
    labels = [
        f"container 64 B (5 s, testbed {bed}, kernel 6.1.0-{n})" for bed in ("0000aaaa", "ffffbbbb") for n in (28, 30)
    ]
    for width, rows in ((76, 4), (116, 3), (400, 2)):
        names = [
            text for row in legend_rows(labels, width, rows) for text, tone in row if text.strip() and tone != "muted"
        ]
        assert len({name[2:] for name in names}) == len(names) == 4
        assert all(sum(cell_len(part) for part, _ in row) <= width for row in legend_rows(labels, width, rows))
    assert any(labels[0] in text for row in legend_rows(labels, 400, 2) for text, _ in row)


def test_points_of_several_curves_in_one_cell_are_marked_as_such() -> None:
    def drawn(second: float) -> str:
        curves = [[charts.CurvePointMark(1, 5), charts.CurvePointMark(2, y)] for y in (10.0, second)]
        rows = charts.draw_curves(curves, charts.CurveAxes(shared=True), 60, 20)
        return "".join(text for row in rows for text, _ in row)

    assert (drawn(10.0).count(charts.SHARED), drawn(3.0).count(charts.SHARED)) == (2, 1)


def test_an_exported_picture_needs_nothing_from_elsewhere_and_has_the_colours_it_is_given() -> None:
    rows = [[("title <1>", "strong")], [("600k┤", "muted"), ("⢀⣀ ⊕", "accent")]]
    looks = {"strong": Style(bold=True), "muted": Style(color="#6b6b6b"), "accent": Style(color="#0b6e6e")}
    drawing = svg_document(rows, looks.__getitem__, "a & b", Color.parse("#1d242b"), Color.parse("#f7f7f4"))
    picture = ElementTree.fromstring(drawing)
    fills = {fill.lower() for each in picture.iter() if (fill := each.get("fill"))}
    assert fills == {"#f7f7f4", "#1d242b", "#6b6b6b", "#0b6e6e"}
    assert re.findall('https?://[^"]*', drawing) == ["http://www.w3.org/2000/svg"]
    assert not any(word in drawing for word in ("@font-face", "<style", "<circle", "<image", "<script"))
    texts = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["title", "<1>", "600k┤", "⊕"]
    dots = [each.get("d") for each in picture.iter("{http://www.w3.org/2000/svg}path")]
    assert [d.count("z") for d in dots if d] == [1, 2]  # U+2880 has one dot, U+28C0 two


@pytest.mark.asyncio
@pytest.mark.parametrize("theme", ["labconsole-light", "labconsole-dark", "without colours"])
async def test_an_export_has_the_themes_colours_and_none_without_colours(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if theme == "without colours":
        monkeypatch.setenv("NO_COLOR", "1")
    async with console(session_with_runs) as (app, _, pilot):
        if theme != "without colours":
            app.theme = theme
        await open_curves(app, pilot)
        drawing = app.screen.query_one(CurveChart).svg("forwarded over offered")
    fills = set(re.findall('fill="(#[0-9A-Fa-f]{6})"', drawing))
    expected = {
        "labconsole-light": {"#F7F7F4"},
        "labconsole-dark": {"#14181D"},
        "without colours": {"#000000", "#FFFFFF"},
    }
    assert expected[theme] <= {fill.upper() for fill in fills}
    assert (len(fills) == 2) is (theme == "without colours")
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
    assert drawing.count("\n") > charts.FRAME_ROWS + 20  # as large as a picture wants, whatever the terminal is


def words_of_title(app: ConsoleApp) -> str:
    return str(app.screen.query_one(CurveChart).border_title)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_axes_become_logarithmic_and_say_what_they_cannot_show(size: tuple[int, int]) -> None:
    async with console(session_with_runs, size) as (app, _, pilot):
        await open_curves(app, pilot)
        await pilot.press("L", "L", "L")
        await still(app, pilot)
        assert "log x and y" in words_of_title(app)
        await pilot.press("v")
        await still(app, pilot)
        screen = app.screen
        assert isinstance(screen, CurvesScreen)
        made = screen._made
        assert made is not None
        at_zero = sum(point.y.mean <= 0 for curve in made.curves for point in curve.points)
        assert at_zero
        assert f"{at_zero} points at 0 left out" in words_of_title(app)
        await pilot.press("L")
        await still(app, pilot)
        assert "log" not in words_of_title(app)


def test_a_logarithmic_axis_has_equal_factors_at_equal_distances() -> None:
    data = CurveFeed()
    made = data.curves(session_with_runs().store.page(limit=1000).runs, parse_query(""), 0, CurveSpec())
    viewing = CurveViewOptions(log=("x", "y"))
    drawn = picture(made, viewing, str, str, ideal=True)
    assert drawn is not None and not drawn.axes.ideal
    for curve, marks in zip(viewing.drawn(made), drawn.curves, strict=True):
        for point, mark in zip(curve.points, marks, strict=True):
            assert float(drawn.axes.x_words(mark.x)) == pytest.approx(point.x)
            assert float(drawn.axes.y_words(mark.y)) == pytest.approx(point.y.mean)
    assert [round(float(drawn.axes.x_words(tick))) for tick in drawn.axes.x_ticks] == [
        1000,
        3000,
        10_000,
        30_000,
        100_000,
        300_000,
        1_000_000,
    ]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(7505.0, 113_600.0, [0, 50_000, 100_000, 150_000]), (1.0, 2.0, [1, 1.2, 1.4, 1.6, 1.8, 2]), (3.0, 3.0, [3])],
)
def test_the_ticks_of_a_part_of_an_axis_are_round_and_even(low, high, ticks) -> None:
    assert even_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (3.0, 40.0, [2, 5, 10, 20, 50]),
        (1.0, 1.0, [1]),
        (0.02, 90_000.0, [0.01, 0.1, 1, 10, 100, 1000, 10_000, 100_000]),
    ],
)
def test_the_ticks_of_a_logarithmic_axis_are_round_and_hold_all_between_them(low, high, ticks) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.asyncio
async def test_one_curve_is_drawn_alone_and_a_part_of_x_is_zoomed_into_and_out_of() -> None:
    async with console(session_with_runs) as (app, _, pilot):
        table = await open_curves(app, pilot)
        chart = app.screen.query_one(CurveChart)

        def marks() -> list[int]:
            assert chart._picture is not None
            return [len(curve) for curve in chart._picture.curves]

        every = marks()
        await pilot.press("end", "s")
        await still(app, pilot)
        assert table.chosen_curve is not None and f"only {table.chosen_curve.label}" in words_of_title(app)
        assert marks() == [0] * (len(every) - 1) + every[-1:]
        await pilot.press("s", "home", "z", "z", "z")
        await still(app, pilot)
        assert "x from " in words_of_title(app)
        assert sum(marks()) < sum(every) and marks()[0] >= 1
        await pilot.press(*["Z"] * 4)
        await still(app, pilot)
        assert "x from " not in words_of_title(app) and marks() == every


@pytest.mark.asyncio
async def test_a_pinned_point_is_the_baseline_of_differences_with_their_intervals() -> None:
    async with console(session_with_runs, (200, 60)) as (app, _, pilot):
        table = await open_curves(app, pilot)
        assert "Δ baseline" not in text(app)
        await pilot.press("B", "down")
        await pilot.pause()
        assert "Δ baseline" in text(app) and "Δ 95% CI" in text(app)
        (first, base), (key, point) = [(key, each[1]) for key, each in table._points.items()][:2]
        assert table.cell_difference(first, 20)[0] == "baseline"
        expected = ratio(point.replicates, base.replicates)
        assert point.replicates and expected.value is not None and expected.ci_low is not None
        assert table.cell_difference(key, 20)[0] == f"{100 * (expected.value - 1):+.1f} %"
        assert table.cell_change(key, 20)[0].startswith(f"{100 * (expected.ci_low - 1):+.1f} to ")
        await pilot.press("v")  # of loss, points of a percent
        await still(app, pilot)
        assert table.cell_difference(key, 20)[0].endswith(" pp")
        await pilot.press("home", "B")
        await pilot.pause()
        assert "Δ baseline" not in text(app)


@pytest.mark.asyncio
async def test_a_point_is_copied_with_its_values_its_interval_and_the_filter_of_its_runs() -> None:
    async with console(session_with_runs) as (app, session, pilot):
        table = await open_curves(app, pilot)
        await pilot.press("down", "J")
        told = json.loads(app.clipboard)
        point = table.chosen
        assert point is not None
        assert (told["offered_pps"], told["mean_measured_pps"]) == (point.x, point.y.mean)
        assert (told["ci95_low_measured_pps"], told["trials"]) == (point.y.ci_low, 3)
        runs = session.store.page(limit=1000).runs
        assert len(parse_query(told["runs_filter"]).select(runs)) == 3
        await pilot.press("y")
        assert app.clipboard.split("\t") == ["" if value is None else str(value) for value in told.values()]
        await pilot.press("R")
        names, *rows = (line.split("\t") for line in app.clipboard.splitlines())
        assert names == list(told) and len(rows) == len(table.all_points())


def noted(app: ConsoleApp, words: str) -> bool:
    return any(words in note.text for note in app.state.notes)


@pytest.mark.asyncio
async def test_what_is_drawn_is_exported_to_new_files_only(tmp_path: Path) -> None:
    async with console(session_with_runs) as (app, _, pilot):
        await open_curves(app, pilot)
        for suffix in ("svg", "tsv"):
            await pilot.press("x")
            await pilot.pause()
            app.screen.query_one(Input).value = str(tmp_path / f"mine.{suffix}")
            await pilot.press("enter")
            await until(pilot, partial(noted, app, f"mine.{suffix}"))
        drawing = (tmp_path / "mine.svg").read_text()
        assert drawing.startswith("<svg") and "●" in drawing
        names, *rows = (line.split("\t") for line in (tmp_path / "mine.tsv").read_text().splitlines())
        assert "ci95_high_measured_pps" in names
        assert len(rows) == len(app.screen.query_one(CurvesTable).all_points())
        await pilot.press("x")
        await pilot.pause()
        app.screen.query_one(Input).value = str(tmp_path / "mine.svg")
        await pilot.press("enter")
        await until(pilot, lambda: "will not be overwritten" in text(app).replace("\n", " "))
        assert (tmp_path / "mine.svg").read_text() == drawing


def test_zooming_out_never_shows_less_although_other_runs_are_shown_meanwhile() -> None:
    def made(*places: float) -> Curves:
        curve = Curve("a", tuple(CurvePoint(x, cast(Any, None), cast(Any, None)) for x in places))
        return Curves(CurveSpec(), (curve,), len(places), {}, 0, {})

    few, many = made(1.0, 2.0, 3.0), made(1.0, 2.0, 3.0, 90.0, 100.0)
    close = CurveViewOptions(low=80.0, high=100.0)
    wide = close.zoomed(few, 90.0, closer=False)
    assert wide.low is not None and wide.low <= 80.0
    assert wide.high is not None and wide.high >= 100.0
    assert CurveViewOptions(low=85.0, high=95.0).zoomed(many, 90.0, closer=False) == CurveViewOptions(
        low=80.0, high=100.0
    )
