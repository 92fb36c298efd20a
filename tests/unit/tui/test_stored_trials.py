"""Stored trials of crews, looked at from Runs: a list by kind, the record in words, what all come to, an empty store."""

from __future__ import annotations

import re
from dataclasses import replace
from threading import Event
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from labconsole.errors import StoreError
from labconsole.experiments.job import text as job_text
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.stored_trials import StoredTrials
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.curves.screen import CurvesScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from support.driven_console import SIZES, console, shown, text, until
from support.fake_session import FakeSession
from support.flow_records import flow_record
from support.job_records import job_data, job_record, taken
from support.route_records import route_record

pytestmark = pytest.mark.asyncio


def stored(session: FakeSession, app: ConsoleApp, records: list[Any]) -> None:
    store: Any = session.store
    store.experiments = lambda kind, where: [each for each in records if isinstance(each, kind.record)]
    of = {
        name: [each.started_at for each in records if isinstance(each, kind.record.record)]
        for name, kind in guest_kinds().items()
    }
    store.newest_experiments = lambda: {name: max(begun) for name, begun in of.items() if begun}


async def opened(app: ConsoleApp, pilot: Pilot[int]) -> None:
    await pilot.press("2")
    await until(pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen.is_up)
    await pilot.press("E")
    await until(pilot, lambda: isinstance(app.screen, StoredTrials))


@pytest.mark.parametrize("size", SIZES)
async def test_jobs_are_listed_told_narrowed_and_summed_up(size):
    async with console(FakeSession, size) as (app, session, pilot):
        records = [job_record(job_data()), job_record({**job_data(), "job_id": "20261123T080000Z-b0964d"})]
        records[1].requested.__dict__["platform"] = "raw"
        stored(session, app, records)
        await opened(app, pilot)
        await shown(app, pilot, "Stored jobs: 2 of 2", "lxc: wait (3 s), 2 guests", "an empty job: 5.00 ms")
        await pilot.press("slash", *"raw", "enter")
        await shown(app, pilot, "Stored jobs: 1 of 2", "20261123T080000Z-b0964d")
        await pilot.press("slash", *" valid", "enter")
        await shown(app, pilot, "Stored jobs: 1 of 2")
        await pilot.press("slash", *" invalid", "enter")
        await shown(app, pilot, "Stored jobs: 0 of 2")
        await pilot.press("slash", "ctrl+u", *"raw", "enter")
        await pilot.press("v")
        await shown(app, pilot, "Summary of the jobs listed", "mean over set-ups")
        await pilot.press("right")
        await shown(app, pilot, "Stored boots: 0 of 0", "No boots are stored yet")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert "Stored" not in text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_all_kinds_are_there_with_what_they_came_to(size):
    async with console(FakeSession, size) as (app, session, pilot):
        stored(session, app, [flow_record([[100, 100], [50, 50]]), route_record(routes=1000)])
        await opened(app, pilot)
        await shown(app, pilot, "Stored routes: 1 of 1", "result")
        row = next(line for line in text(app).splitlines() if "✓" in line)
        assert "container" in row and "/s" in row
        for words in ("Stored jobs: 0 of 0", "Stored boots: 0 of 0", "Stored flows: 1 of 1"):
            await pilot.press("right")
            await shown(app, pilot, words, "result")


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([flow_record([[100, 100]])], "Stored flows: 1 of 1"),
        ([route_record(), flow_record([[100, 100]], started_at="2026-02-01T00:00:00Z")], "Stored flows: 1 of 1"),
        ([flow_record([[100, 100]]), route_record(started_at="2026-02-01T00:00:00Z")], "Stored routes: 1 of 1"),
        ([], "Stored jobs: 0 of 0"),
    ],
)
@pytest.mark.parametrize("screen", ["2", "3"])
async def test_the_kind_that_was_measured_last_comes_first(records: list[Any], words: str, screen: str):
    async with console(FakeSession) as (app, session, pilot):
        stored(session, app, records)
        await pilot.press(screen)
        await until(pilot, lambda: isinstance(app.screen, RunsScreen | CurvesScreen) and app.screen.is_up)
        await pilot.press("E")
        await shown(app, pilot, words)


async def test_a_kind_that_was_asked_for_before_the_store_has_answered_stays():
    async with console(FakeSession) as (app, session, pilot):
        stored(session, app, [route_record()])
        asked, store = Event(), cast(Any, session.store)
        newest = store.newest_experiments
        store.newest_experiments = lambda: asked.wait(5) and newest()
        await opened(app, pilot)
        await pilot.press("right")
        asked.set()
        await shown(app, pilot, "Stored boots: 0 of 0")
        await pilot.pause(0.1)
        assert "Stored boots: 0 of 0" in text(app)


async def test_a_store_that_cannot_be_read_says_why():
    async with console(FakeSession) as (app, session, pilot):
        stored(session, app, [])

        def broken(*_: Any) -> Any:
            raise StoreError("the run store cannot be read")

        store = cast(Any, session.store)
        store.newest_experiments = store.experiments = broken
        await opened(app, pilot)
        await shown(app, pilot, "Stored jobs: 0 of 0", "the run store cannot be read")


@pytest.mark.parametrize("size", SIZES)
async def test_no_number_of_what_a_trial_came_to_is_cut(size):
    async with console(FakeSession, size) as (app, session, pilot):
        stored(session, app, [flow_record([[8000, 8100], [100, 90]], limits_bps=(95_000_000, 1_200_000))])
        await opened(app, pilot)
        await shown(app, pilot, "Stored flows: 1 of 1", "Mbit/s of payload")
        row = next(line for line in text(app).splitlines() if "✓" in line)
        assert "95.92 Mbit/s of" in row and not re.search(r"[\d.,]…", row)


async def test_a_fault_in_what_is_summed_up_is_told_and_ends_nothing(monkeypatch):
    async with console(FakeSession) as (app, session, pilot):
        stored(session, app, [job_record(job_data())])

        def broken(records: Any) -> Any:
            raise TypeError("not of this kind")

        monkeypatch.setattr(job_text, "TEXT", replace(job_text.TEXT, summarize=broken))
        await opened(app, pilot)
        await pilot.press("v")
        await shown(app, pilot, "These jobs cannot be summarized: TypeError('not of this kind')")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))


async def test_sideways_keys_are_the_dialogs_also_while_a_table_seems_too_wide(monkeypatch):
    async with console(FakeSession) as (app, session, pilot):
        stored(session, app, [flow_record([[100, 100], [50, 50]])])
        await opened(app, pilot)
        await shown(app, pilot, "Stored flows: 1 of 1")
        # What Textual says between a scroll bar's coming up and the columns' being chosen anew.
        monkeypatch.setattr(LineTable, "show_horizontal_scrollbar", True)
        monkeypatch.setattr(LineTable, "is_scrollable", True)
        await pilot.press("right")
        await shown(app, pilot, "Stored routes: 0 of 0")
        await pilot.press("left")
        await shown(app, pilot, "Stored flows: 1 of 1")


@pytest.mark.parametrize("size", SIZES)
async def test_curves_of_jobs_are_drawn_one_figure_after_the_other_also_from_curves(size):
    async with console(FakeSession, size) as (app, session, pilot):
        records = [
            taken([seconds] * guests, guests=guests, working="all" if guests > 1 else "one", block=block)
            for block in (1, 2, 3)
            for guests, seconds in ((1, 1.0), (2, 2.0), (4, 4.0))
        ]
        for record in records:
            record.requested.__dict__["job"] = "cpu-sqrt2"
        stored(session, app, records)
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen) and app.screen.is_up)
        await pilot.press("E")
        await shown(app, pilot, "1 of 2: ", "seconds", "lxc")
        await pilot.press("c")
        await shown(app, pilot, "2 of 2: Quétier et al., figure 7", "over guests that work", "lxc, slowest")
        await pilot.press("v")
        await shown(app, pilot, "The job", "time by the clock outside")
        await pilot.press("c", "right")
        await shown(app, pilot, "No boots in the list can be drawn")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
