"""The trend of a plan, looked at from Curves: what the command says, its picture, an empty store, and words for it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from labconsole.api.comparisons import read_trends
from labconsole.cli.main import main
from labconsole.errors import ConfigError
from labconsole.store.open import open_store
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.filter_line import FilterInput
from labconsole.tui.screens.curves.screen import CurvesScreen
from labconsole.tui.screens.curves.trend_view import TrendsTable, TrendView
from support import driven_console
from support.driven_console import SIZES, console, shown, until
from support.fake_session import FakeSession
from support.occasions import stored

pytestmark = pytest.mark.asyncio


def with_step(place: Path) -> Path:
    """Sixteen occasions, a fall of 3 % and another kernel at the ninth."""
    rng = np.random.default_rng(5)
    results = [mean * (1 + 0.004 * rng.standard_normal()) for mean in [60.0] * 8 + [58.2] * 8]
    stored(place, results, kernels=["6.1"] * 8 + ["6.6"] * 8)
    return place


async def opened(app: ConsoleApp, pilot: Pilot[int], place: Path, **how: Any) -> TrendView:
    """The view on a real store, filtered beforehand where asked to."""
    store = open_store(str(place))
    app.read_trends = lambda plan, query, _: read_trends(plan, query, store)
    await pilot.press("3")
    await until(pilot, lambda: isinstance(app.screen, CurvesScreen) and app.screen.is_up)
    if "filter" in how:
        await pilot.press("slash")
        app.screen.query_one(FilterInput).value = how["filter"]
        await pilot.press("enter")
        await driven_console.still(app, pilot)
    await pilot.press("T")
    await until(pilot, lambda: isinstance(app.screen, TrendView))
    assert isinstance(app.screen, TrendView)
    return app.screen


@pytest.mark.parametrize("size", SIZES)
async def test_a_step_is_shown_with_what_else_changed_as_the_command_says_it(tmp_path, size, capsys, monkeypatch):
    place = with_step(tmp_path / "s.sqlite")
    assert main(["trend", "--store", str(place), "--json", "nightly"]) == 0
    told = json.loads(capsys.readouterr().out)
    async with console(FakeSession, size) as (app, _, pilot):
        view = await opened(app, pilot, place)
        picture = await shown(
            app, pilot, "Trend of nightly: 16 occasions", "What else changed then", "kernel 6.1 → 6.6"
        )
        assert "% since nightly@09 (occasion 9, 2026-10-09)" in picture
        for glyph in ("● result", "▲ level", "┊ change", "│"):  # nothing is told by colour alone
            assert glyph in picture
        assert all(cell_len(line) <= size[0] for line in driven_console.picture(app))
        copied: list[str] = []
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        await pilot.press("J")
        await until(pilot, lambda: bool(copied))
        assert json.loads(copied[0]) == told
        chosen = view.query_one(TrendsTable).chosen
        assert chosen is not None
        assert len(chosen.trend.steps) == len(told["changes"]) == 1
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen))


async def test_the_plan_measured_last_comes_first_and_others_by_the_arrows(tmp_path):
    stored(tmp_path / "s.sqlite", [60.0] * 5)
    stored(tmp_path / "s.sqlite", [60.0] * 4, plan="weekly")
    async with console() as (app, _, pilot):
        await opened(app, pilot, tmp_path / "s.sqlite")
        await shown(app, pilot, "Trend of nightly (plan 1 of 2): 5 occasions")
        await shown(app, pilot, "Occasions 1 to 5: nightly@01 (2026-10-01) to nightly@05 (2026-10-05)")
        await pilot.press("right")
        await shown(app, pilot, "Trend of weekly (plan 2 of 2): 4 occasions")
        await pilot.press("left")
        await shown(app, pilot, "Trend of nightly (plan 1 of 2): 5 occasions")


@pytest.mark.parametrize("size", SIZES)
async def test_without_occasions_it_says_what_to_do(tmp_path, size):
    stored(tmp_path / "s.sqlite", [60.0])
    async with console(FakeSession, size) as (app, _, pilot):
        await opened(app, pilot, tmp_path / "s.sqlite")
        await shown(app, pilot, "No plan has been measured on several occasions yet", "--occasion NAME")
        await pilot.press("J", "x", "right", "escape")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen))


async def test_the_latest_that_is_off_is_named_as_it_is_called(tmp_path):
    rng = np.random.default_rng(5)
    stored(tmp_path / "s.sqlite", [*(60.0 * (1 + 0.004 * rng.standard_normal(12))), 52.0])
    async with console() as (app, _, pilot):
        await opened(app, pilot, tmp_path / "s.sqlite")
        told = await shown(app, pilot, "nightly@13 is off by −13", "an outlier, or the first of a change.")
        assert "Nightly@13" not in told
        await shown(app, pilot, "would be found, or a latest")


async def test_too_few_occasions_and_a_filter_by_outcome_are_said_in_words(tmp_path):
    stored(tmp_path / "s.sqlite", [60.0, 50.0, 40.0])
    async with console() as (app, _, pilot):
        await opened(app, pilot, tmp_path / "s.sqlite")
        await shown(app, pilot, "Changes are not searched for: fewer than 4 occasions")
        await pilot.press("escape")
        await opened(app, pilot, tmp_path / "s.sqlite", filter="loss>1%")
        await shown(app, pilot, "by outcome")


async def test_the_store_is_read_in_a_thread_and_one_that_cannot_be_is_told(tmp_path):
    threads = []

    def broken(plan: Any, query: Any, store: Any) -> Any:
        threads.append(threading.current_thread())
        raise ValueError("a fault in what is stored")

    async with console() as (app, _, pilot):
        place = with_step(tmp_path / "s.sqlite")
        await opened(app, pilot, place)
        await shown(app, pilot, "Trend of nightly")
        await pilot.press("escape")
        app.read_trends = broken
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
        await pilot.press("T")
        await shown(app, pilot, "cannot be shown", "a fault in what is stored")
        assert threads and threading.main_thread() not in threads


async def test_of_a_plan_that_cannot_be_told_nothing_is_exported_as_if_it_were_the_one_before(tmp_path, monkeypatch):
    stored(tmp_path / "s.sqlite", [60.0] * 5)
    stored(tmp_path / "s.sqlite", [60.0] * 4, plan="weekly")
    async with console() as (app, _, pilot):
        view = await opened(app, pilot, tmp_path / "s.sqlite")
        await shown(app, pilot, "Trend of nightly (plan 1 of 2): 5 occasions")
        read = view._read

        def refused(plan: str | None) -> Any:
            if plan == "weekly":
                raise ConfigError("no run of such a plan is saved", value=plan)
            return read(plan)

        view._read = refused
        await pilot.press("right")
        await shown(app, pilot, "Trend of weekly (plan 2 of 2)", "no run of such a plan is saved")
        told: list[str] = []
        monkeypatch.setattr(app, "tell", lambda words, *_: told.append(words))
        await pilot.press("x")
        await until(pilot, lambda: bool(told))
        assert told == ["There is nothing to export."] and app.screen is view
        await pilot.press("right")
        await shown(app, pilot, "Trend of nightly (plan 1 of 2): 5 occasions")


async def test_what_was_measured_is_exported_result_by_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with console() as (app, _, pilot):
        await opened(app, pilot, with_step(tmp_path / "s.sqlite"))
        await shown(app, pilot, "Trend of nightly: 16 occasions", "since nightly@09")
        await pilot.press("x", "enter")
        await until(pilot, lambda: (tmp_path / "trend-nightly.tsv").exists())
        await until(pilot, lambda: isinstance(app.screen, TrendView))
        head, *rows = (tmp_path / "trend-nightly.tsv").read_text().splitlines()
        assert head.split("\t")[:3] == ["point", "number", "occasion"]
        assert [row.split("\t")[-1] for row in rows] == [str(number == 9) for number in range(1, 17)]
