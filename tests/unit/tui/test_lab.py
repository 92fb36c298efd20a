"""Whole tasks on the screens Plans, Check, Nodes and Log, driven by keys, on a scripted session."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input
from textual.worker import WorkerCancelled

from labconsole.contracts.ports import StoredTrial
from labconsole.engine.execution.progress import ExecutionStatus, TrialState
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.live.events import NodeChanged, NodeState, Notice
from labconsole.errors import LeaseHeld
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import RunRecord
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import clock
from labconsole.tui.console.state import MOST_ENTRIES
from labconsole.tui.parts.dialogs import AskText, Confirm
from labconsole.tui.parts.runs_table import RunsTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.check.checks_table import ChecksTable
from labconsole.tui.screens.check.screen import CheckScreen
from labconsole.tui.screens.log.screen import JournalTable, LogScreen
from labconsole.tui.screens.nodes.node_panels import NodeList, interface_rows
from labconsole.tui.screens.nodes.screen import NodesScreen
from labconsole.tui.screens.plans import plans_table
from labconsole.tui.screens.plans.grid import GridTable
from labconsole.tui.screens.plans.plans_table import PlansTable
from labconsole.tui.screens.plans.screen import PlansScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from labconsole.wire.settings import NodeSettings
from support.asking import partly
from support.driven_console import shown, text, until
from support.fake_lab_session import EVE, LabSession
from support.fake_session import refuse

pytestmark = pytest.mark.asyncio
SIZES = [(80, 24), (120, 40), (200, 60)]

PLAN = """\
plan: pair
platforms: [raw, container]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
repetitions: 3
order: as-listed
max_redo: 1
"""


@pytest.fixture(autouse=True)
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own directory with one plan in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "pair.yaml").write_text(PLAN)
    return tmp_path / "plans"


@asynccontextmanager
async def console(
    session: Callable[[], LabSession] = LabSession, size: tuple[int, int] = (120, 40), screen: str = ""
) -> AsyncIterator[tuple[ConsoleApp, LabSession, Pilot[int]]]:
    made: list[LabSession] = []

    def factory() -> LabSession:
        made.append(session())
        return made[0]

    app = ConsoleApp(factory)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and bool(made[0].telemetry.interfaces))
        if screen:
            await pilot.press(screen)
            await until(pilot, lambda: not isinstance(app.screen, BenchScreen) and app.screen.is_mounted)
        yield app, made[0], pilot


def state(app: ConsoleApp) -> ExecutionStatus | None:
    return app.state.execution.status if app.state.execution is not None else None


# Plans


async def rescanned(app) -> None:
    """The plan files, read anew; the console's own timer may cancel a reading by beginning another."""
    while True:
        try:
            return await app.screen.rescan().wait()
        except WorkerCancelled:
            continue


@pytest.mark.parametrize("size", SIZES)
async def test_a_plan_is_previewed_run_to_its_end_and_its_failures_found(size):
    async with console(lambda: LabSession(hold=True), size, "4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready", "[·] ·  ·")
        session.verdicts = ["valid", "suspect", "invalid", "invalid"]
        await pilot.press("r")
        await shown(app, pilot, "[▶]", "running")
        session.release.set()
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        grid = app.screen.query_one(GridTable)
        grid.move_to_trial((0, 1))  # it went with the plan, as far as that was painted
        await shown(app, pilot, "[✓] ?  ✗′", "? done")
        assert grid.has_focus
        await pilot.press("f")
        assert grid.trial == (0, 2)
        await shown(app, pilot, "below_target", "✓ [?]")
        await pilot.press("f")
        assert grid.trial == (0, 3)
        await shown(app, pilot, "taken 2 times")
        await pilot.press("f")
        assert grid.trial == (0, 2)
        assert any("plan pair: done; 6 trials measured" in note.text for note in app.state.notes)
        assert session.store.records[0].plan is not None


async def measured_elsewhere(plans: Path, trials: int) -> list[RunRecord]:
    """The newest first, of a plan that another console ran."""
    other = LabSession()
    await other.execute(other.execution(load_plan(plans / "pair.yaml", other.inventory)))
    return other.store.records[-trials:]


async def test_what_another_console_measured_of_a_plan_is_seen_when_plans_are_shown_again_and_now_and_then(
    plans, monkeypatch
):
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await rescanned(app)
        session.store.records[:] = await measured_elsewhere(plans, 2)
        await rescanned(app)
        assert "begun" not in text(app)  # asked seldom
        await pilot.press("1")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        await pilot.press("4")
        await shown(app, pilot, "begun", "[■] ■  ·")
        monkeypatch.setattr(plans_table, "WATCH_EVERY_S", 0.0)
        monkeypatch.setattr(plans_table, "WATCH_REST_RATIO", 0.0)
        await pilot.press("1", "4")
        session.store.records[:] = await measured_elsewhere(plans, 6)
        await shown(app, pilot, "✓ stored", "[■] ■  ■")


async def test_what_another_console_measured_while_a_plan_ran_here_is_seen_when_that_has_ended(plans, monkeypatch):
    monkeypatch.setattr(plans_table, "WATCH_EVERY_S", 0.0)
    monkeypatch.setattr(plans_table, "WATCH_REST_RATIO", 0.0)
    (plans / "own.yaml").write_text(PLAN.replace("plan: pair", "plan: own").replace("10Mbit", "20Mbit"))
    async with console(lambda: LabSession(hold=True), screen="4") as (app, session, pilot):
        await shown(app, pilot, "plans/own.yaml", " pair ", "ready")
        await rescanned(app)
        await pilot.press("r")
        await shown(app, pilot, "[▶]", "running")
        session.store.records[:] = await measured_elsewhere(plans, 6)
        await rescanned(app)
        assert app.state.execution is not None and app.state.execution.plan.name == "own"
        monkeypatch.setattr(app, "load_runs", lambda: None)  # read long before all is undone that was set up
        await app.state.execution.abort()
        await until(pilot, lambda: not app.state.requested)
        await rescanned(app)
        await shown(app, pilot, "✓ stored")


async def test_plans_are_asked_for_again_only_when_the_store_has_moved(monkeypatch):
    monkeypatch.setattr(plans_table, "WATCH_EVERY_S", 0.0)
    monkeypatch.setattr(plans_table, "WATCH_REST_RATIO", 0)
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await rescanned(app)
        asked = []

        def plan_runs(*words: str) -> list[StoredTrial]:
            asked.append(words)
            return []

        monkeypatch.setattr(session.store, "plan_runs", plan_runs)
        for _ in range(3):
            await rescanned(app)
        assert not asked
        session.store.records[:] = await measured_elsewhere(Path("plans"), 1)
        await rescanned(app)
        assert asked


async def test_a_plan_that_ended_here_says_so_also_after_it_was_left(monkeypatch):
    monkeypatch.setattr(plans_table, "WATCH_EVERY_S", 0.0)
    monkeypatch.setattr(plans_table, "WATCH_REST_RATIO", 0)
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await rescanned(app)
        await pilot.press("r", "1")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE and not app.state.requested)
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, PlansScreen))
        for _ in range(2):
            await rescanned(app)
        await shown(app, pilot, "✓ done")


@pytest.mark.parametrize("size", SIZES)
async def test_each_point_is_taken_once_for_telemetry_and_the_plan_is_still_to_do(size):
    async with console(LabSession, size, "4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready", "[·] ·  ·")
        await pilot.press("t")
        await until(pilot, lambda: "[·] ·" not in text(app) and "[·]" in text(app))
        await shown(app, pilot, "each point once more, in a trial that enters no mean"[: size[0] // 4])
        await pilot.press("t", "t", "r")  # as fast as keys come: what is shown is what is taken
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        taken = [record for record in session.store.records if record.plan is not None]
        assert [record.role for record in taken] == ["telemetry"] * 2
        assert {record.plan.hash for record in taken if record.plan is not None} == {
            load_plan(Path("plans/pair.yaml")).for_telemetry().hash()
        }
        await pilot.press("home", "t")
        await shown(app, pilot, "[·] ·  ·", "ready")


async def test_a_plan_without_points_of_traffic_has_none_for_telemetry(plans):
    (plans / "pair.yaml").write_text(PLAN.replace("targets: [10Mbit]\n", "") + "search: {goals: [ndr]}\n")
    async with console(screen="4") as (app, _, pilot):
        await shown(app, pilot, "pair.yaml")
        await pilot.press("t")
        await until(pilot, lambda: any("no points of traffic" in note.text for note in app.state.notes))


RULED = """\
plan: ruled
platforms: [raw, container]
frame_sizes: [64]
targets: [10Mbit, max]
backgrounds: [none, forwarding-50]
exclude: [{platform: raw, background: forwarding-50}]
duration_s: 1
warm_up: true
stop: {after_s: 3600}
pre: [[./tune.sh, --quiet]]
"""


async def test_a_preview_shows_what_is_left_out_what_is_needed_and_every_command(plans):
    (plans / "pair.yaml").unlink()
    (plans / "ruled.yaml").write_text(RULED)
    async with console(size=(160, 50), screen="4") as (app, _, pilot):
        await shown(
            app,
            pilot,
            "6 points",
            "not measured: platform raw, background",
            "2 points of the matrix are excluded",
            "one trial after every set-up, not saved",
            "after s 3600",
            "./tune.sh --quiet (at most 60 s)",
            "points 4-5 need the maximum of",
            "--background idle",
        )


async def test_enter_on_a_trial_leads_to_its_run():
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await pilot.press("r")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        await pilot.press("home", "down", *["left"] * 3, "right", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        wanted = next(r.run_id for r in session.store.records if r.plan and (r.plan.point, r.plan.repetition) == (1, 2))
        await until(pilot, lambda: app.screen.query_one("#runs", RunsTable).chosen == wanted)


async def test_a_pause_holds_after_the_running_trial_and_every_screen_says_so():
    async with console(lambda: LabSession(hold=True), screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await pilot.press("r")
        await shown(app, pilot, "[▶]")
        await pilot.press("p")
        await shown(app, pilot, "pausing", "after the current trial")
        session.release.set()
        await shown(app, pilot, "‖ paused", "✓ [·]")
        assert session.running
        await pilot.press("1")
        await shown(app, pilot, "paused between trials", "plan pair, 1 of 6", "next: raw, ")
        await pilot.press("4", "p")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)


async def test_an_abort_asks_once_keeps_what_was_measured_and_running_again_goes_on():
    async with console(lambda: LabSession(hold=True), screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await pilot.press("r")
        await shown(app, pilot, "[▶]")
        await pilot.press("p")
        session.release.set()
        await shown(app, pilot, "paused", "✓ [·]")
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        assert state(app) is ExecutionStatus.PAUSED
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: state(app) is ExecutionStatus.STOPPED)
        assert not session.running
        await until(pilot, lambda: not app.state.requested)
        await pilot.press("r")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        await shown(app, pilot, "1 stored before", "■")
        assert app.state.execution is not None and app.state.execution.outcome.skipped == 1


async def test_a_plan_of_which_all_is_stored_says_so_when_it_is_run_again():
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        for _ in range(2):
            await pilot.press("r")
            await until(pilot, lambda: state(app) is ExecutionStatus.DONE and not app.state.requested)
        assert len(session.store.records) == 6
        told = "plan pair: nothing left to measure: all is stored (6 trials); to measure it again: labconsole replay --occasion"
        assert any(note.text.startswith(told) for note in app.state.notes)


async def test_only_one_thing_runs_at_a_time():
    async with console(lambda: LabSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.state.trial is not None)
        await pilot.press("4")
        await shown(app, pilot, "pair.yaml", "ready")
        await pilot.press("r")
        await shown(app, pilot, "Wait, or abort it")
        assert app.state.execution is None
        session.release.set()


async def test_a_plan_runs_on_while_its_file_changes_and_vanishes(plans):
    async with console(lambda: LabSession(hold=True), screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        await pilot.press("r")
        await shown(app, pilot, "[▶]")
        (plans / "pair.yaml").write_text(PLAN.replace("64", "128"))
        await rescanned(app)
        (plans / "pair.yaml").unlink()
        await rescanned(app)
        session.release.set()
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        assert {record.requested.frame_size_bytes for record in session.store.records} == {64}


async def test_broken_files_are_listed_with_their_line_and_read_again_when_mended(plans):
    (plans / "bad.yaml").write_text(PLAN.replace("10Mbit", "100"))
    async with console(screen="4") as (app, _, pilot):
        await shown(app, pilot, "✗ broken")
        await pilot.press("end")
        await shown(app, pilot, "plans/bad.yaml:4: targets[0]: is not a")
        await pilot.press("r")
        await shown(app, pilot, "Choose a valid plan")
        (plans / "bad.yaml").write_text(PLAN)
        await rescanned(app)
        await shown(app, pilot, "ready")
        assert "✗ broken" not in text(app)


async def test_a_plan_for_platforms_that_are_not_here_is_for_another_testbed_and_not_broken(plans):
    (plans / "else.yaml").write_text(PLAN.replace("[raw, container]", "[raw, xen]"))
    (plans / "pair.yaml").unlink()
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "⊘ not here", "not here: it is for another testbed", "platform xen")
        await pilot.press("r")
        await shown(app, pilot, "else.yaml is for another testbed: it needs platform xen.")
        assert "broken" not in text(app) and not session.running


async def test_plans_that_can_run_come_first_then_broken_ones_then_those_for_other_testbeds(plans):
    (plans / "a-else.yaml").write_text(PLAN.replace("[raw, container]", "[raw, xen]"))
    (plans / "b-many.yaml").write_text(PLAN + "sources: [9]\n")
    (plans / "c-bad.yaml").write_text(PLAN.replace("10Mbit", "100"))
    async with console(screen="4") as (app, _, pilot):
        await shown(app, pilot, "⊘ not here", "✗ broken", "ready")
        table = app.screen.query_one(PlansTable)
        assert [path.name for path in list(table.keys())] == ["pair.yaml", "c-bad.yaml", "a-else.yaml", "b-many.yaml"]
        assert table.chosen is not None and table.chosen.name == "pair.yaml"
        await pilot.press("end")
        await shown(app, pilot, "9 streams")


SEARCHES = """\
plan: bounds
platforms: [raw]
frame_sizes: [64, 1500]
search: {goals: [ndr], width_ratio: 0.2}
settle_s: 0
"""


@pytest.mark.parametrize("size", SIZES)
async def test_the_searches_of_a_plan_are_previewed_run_paused_and_end_with_their_bounds(plans, size):
    (plans / "pair.yaml").write_text(SEARCHES)
    async with console(lambda: LabSession(hold=True), size, "4") as (app, session, pilot):
        await shown(app, pilot, "ready", "ndr at 2", "12 trials or", "1500   1", "bounds in packets/s")
        await pilot.press("r")
        await shown(
            app,
            pilot,
            "▶ running",
            "1 of 2: raw, 64 B",
            "bounds, search 1 of 2" if size[0] > 100 else "bounds search 1/2",
        )
        await pilot.press("p")
        await shown(app, pilot, "pausing")
        session.release.set()
        await shown(app, pilot, "‖ paused", "1 trial so far", "1 ndr (adjusted) ? to ?")
        taken = len(session.store.records)
        await rescanned(app)
        assert len(session.store.records) == taken
        await pilot.press("p")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        await shown(app, pilot, "✓ done", "2 of 2", "2 ndr (adjusted) ")
        assert [record.status for record in session.store.searches] == ["done", "done"]
        assert any("2 searches made, 0 stored before" in note.text for note in app.state.notes)
        await pilot.press("l")
        await shown(app, pilot, "✓ stored", "2 stored, which are")


async def test_a_search_is_aborted_and_goes_on_where_it_was(plans):
    (plans / "pair.yaml").write_text(SEARCHES.replace("[64, 1500]", "[64]") + "targets: [10Mbit]\nduration_s: 1\n")
    async with console(lambda: LabSession(hold=True), screen="4") as (app, session, pilot):
        await shown(app, pilot, "ready", "[·]")
        session.release.set()
        original = session.traffic

        async def traffic(request):
            if len(session.store.records) == 2 and not session.aborted:
                session.release.clear()
            await original(request)

        session.traffic = traffic  # type: ignore[method-assign]
        await pilot.press("r")
        await until(pilot, lambda: len(session.store.records) == 2 and not session.release.is_set())
        await shown(app, pilot, "1 of 1: raw, 64 B", "1 trial so far", "[✓]", "bounds in packets/s")
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: state(app) is ExecutionStatus.STOPPED)
        assert len(session.store.records) == 3
        session.release.set()
        session.traffic = original  # type: ignore[method-assign]
        await pilot.press("l")
        await shown(app, pilot, "◐ begun")
        await pilot.press("r")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        (record,) = session.store.searches
        kept = [each for each in session.store.records if each.verdict.status != "invalid"]
        assert len(kept) == len(record.trials) + 1


@pytest.mark.parametrize("size", SIZES)
async def test_a_note_on_a_plan_is_written_shown_and_removed(size):
    async with console(LabSession, size, "4") as (app, session, pilot):
        await shown(app, pilot, "ready")
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        await pilot.press(*"old_fan", "enter")
        await until(pilot, lambda: isinstance(app.screen, PlansScreen))
        await shown(app, pilot, "note", "old_fan")
        await pilot.press("l")
        await shown(app, pilot, "op@console, 2026-03-02T09:20:00Z")
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        await pilot.press(*(["backspace"] * 7), "enter")
        await until(pilot, lambda: isinstance(app.screen, PlansScreen))
        await until(pilot, lambda: "old_fan" not in text(app))
        assert not session.store.notes


async def test_a_console_that_only_watches_writes_no_note_on_a_plan():
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "ready")
        session.read_only = True
        await pilot.press("n")
        await pilot.pause()
        assert isinstance(app.screen, PlansScreen)


async def test_without_plans_the_screen_says_what_to_do(plans):
    (plans / "pair.yaml").unlink()
    async with console(screen="4") as (app, _, pilot):
        await shown(app, pilot, "No plan files;", "No grid to show.")
        await pilot.press("r", "f", "enter", "p")
        await shown(app, pilot, "There is no plan to run.", "No plan is running.")
    async with console(screen="4", size=(80, 24)) as (app, _, pilot):
        await shown(app, pilot, "No plan files; s makes one.")


async def test_a_store_that_cannot_be_read_is_told_once_and_tried_again():
    def broken() -> LabSession:
        session = LabSession()
        session.store.broken = True
        return session

    async with console(broken, screen="4") as (app, session, pilot):
        await until(pilot, lambda: any("store cannot be read" in note.text for note in app.state.notes))
        await rescanned(app)
        before = len(app.state.notes)
        await rescanned(app)
        assert len(app.state.notes) == before
        session.store.broken = False
        await pilot.press("l")
        await shown(app, pilot, "○ ready")


async def test_a_refused_plan_says_why_and_can_be_run_again(monkeypatch):
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")

        async def refused(*_: object, **__: object):
            raise refuse("eth5 carries 1400 bytes")

        monkeypatch.setattr(session, "_take", refused)
        await pilot.press("r")
        await shown(app, pilot, "✗ failed", "eth5 carries 1400 bytes")
        monkeypatch.undo()
        await until(pilot, lambda: not app.state.requested)
        await pilot.press("r")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)


async def test_a_held_testbed_is_taken_over_for_a_plan_only_after_a_question():
    async with console(screen="4") as (app, session, pilot):
        await shown(app, pilot, "pair.yaml", "ready")
        session.held = LeaseHeld("uut", "eve@desk has this node", code="lease_held", operation="lease.take")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "eve@desk" in text(app)
        await pilot.press("n")
        await until(pilot, lambda: state(app) is ExecutionStatus.FAILED and not app.state.requested)
        assert session.store.records == []
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        assert len(session.store.records) == 6


async def test_what_was_done_in_a_session_becomes_a_plan_of_exactly_that(plans):
    async with console() as (app, session, pilot):
        await pilot.press("4", "s")
        await shown(app, pilot, "nothing has been measured yet")
        await pilot.press("1", "r")
        await until(pilot, lambda: len(session.store.records) == 1 and not app.state.requested)
        await pilot.press("4")
        await shown(app, pilot, "pair.yaml", "ready")
        await pilot.press("r")
        await until(pilot, lambda: state(app) is ExecutionStatus.DONE)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = "pair"
        await pilot.press("enter")
        await shown(app, pilot, "this plan already exists")
        app.screen.query_one(Input).value = "a/b"
        await pilot.press("enter")
        await shown(app, pilot, "is not a usable name")
        app.screen.query_one(Input).value = "again"
        await pilot.press("enter")
        await shown(app, pilot, "again.yaml")
        saved = load_plan(plans / "again.yaml", session.inventory)
        asked = [point.request for point in saved.points for _ in range(saved.repetitions_of(point.index))]
        done = app.state.done
        assert sorted(map(str, asked)) == sorted(str(request) for request, times in done.items() for _ in range(times))
        assert len(asked) == 7


@pytest.mark.parametrize("size", SIZES)
async def test_the_grid_goes_with_the_plan_until_the_cursor_is_moved(plans, size):
    (plans / "pair.yaml").write_text(PLAN.replace("repetitions: 3", "repetitions: 60"))
    async with console(lambda: LabSession(hold=True), size, "4") as (app, session, pilot):
        await shown(app, pilot, "ready")
        grid = app.screen.query_one(GridTable)

        async def next_trial() -> None:
            measured = len(session.store.records)
            session.release.set()
            await until(pilot, lambda: len(session.store.records) > measured)
            session.release.clear()

        await pilot.press("r")
        await shown(app, pilot, "[▶]", "following")
        await pilot.press("home", "right", "right")
        assert grid.trial == (0, 3)
        await shown(app, pilot, "end: follow")
        await next_trial()
        await until(
            pilot, lambda: app.state.execution is not None and app.state.execution.current not in (None, (0, 1))
        )
        assert grid.trial == (0, 3)
        await pilot.press("end")
        await shown(app, pilot, "[▶]", "following")
        for _ in range(3):
            await next_trial()
        await until(pilot, lambda: grid.trial is not None and grid.trial[1] > 3)
        await shown(app, pilot, "[▶]")
        session.release.set()


@pytest.mark.parametrize("size", SIZES)
async def test_the_legend_names_every_glyph_of_the_grid_at_any_size(size):
    async with console(size=size, screen="4") as (app, _, pilot):
        words = await shown(app, pilot, "ready")
        legend = words[words.index("· to do") :]
        for each in (
            "▶ running",
            "✓ valid",
            "? suspect",
            "✗ invalid",
            "■ stored",
            "□ stored, suspect",
            "⊠ stored, invalid",
            "′ repeated",
            "– skipped by stop",
        ):
            assert each in legend


async def test_the_grid_scrolls_across_many_repetitions(plans):
    (plans / "pair.yaml").write_text(PLAN.replace("repetitions: 3", "repetitions: 60"))
    async with console(size=(80, 24), screen="4") as (app, _, pilot):
        await shown(app, pilot, "ready", "repetitions 1 to")
        grid = app.screen.query_one(GridTable)
        grid.focus()
        await pilot.press(*["right"] * 59)
        assert grid.trial == (0, 60)
        await shown(app, pilot, "to 60 of 60", "[·]")
        await pilot.press("right", "down", "down")
        assert grid.trial == (1, 60)


# Check


async def test_results_come_one_by_one_and_the_first_failure_is_shown_in_full():
    gate = asyncio.Semaphore(0)

    def stepped() -> LabSession:
        session = LabSession()
        session.check_step = gate.acquire
        return session

    async with console(stepped, screen="5") as (app, session, pilot):
        await shown(app, pilot, "not checked in this session yet", "Press r to check the testbed")
        assert session.checks == []
        await pilot.press("r")
        await shown(app, pilot, "▶ checking")
        await pilot.press("1", "r")
        await shown(app, pilot, "A check is running.")
        await pilot.press("5")
        gate.release()
        gate.release()
        await shown(app, pilot, "✓ 1 pass", "! 1 warn", "pktgen is not loaded")
        for _ in range(10):
            gate.release()
        await shown(app, pilot, "■ checked in", "✗ 1 fail", "ip link set eth5 mtu 1500")
        table = app.screen.query_one(ChecksTable)
        assert [r.node for r in table.results] == [None, "src1", "src1", "uut", "uut", "snk1"]
        await pilot.press("f")
        await shown(app, pilot, "modprobe pktgen on src1", "press x to fix this")
        await pilot.press("w")
        await shown(app, pilot, "only problems are shown")
        assert len(table.keys()) == 3
        assert session.checks == [(None, False)]


async def test_a_running_check_is_aborted_by_a_key_and_keeps_what_it_found():
    gate = asyncio.Semaphore(2)

    def stepped() -> LabSession:
        session = LabSession()
        session.check_step = gate.acquire
        return session

    async with console(stepped, screen="5") as (app, session, pilot):
        await pilot.press("r")
        await shown(app, pilot, "▶ checking", "! 1 warn")
        await pilot.press("a")
        await shown(app, pilot, "▶ aborting the check")
        assert session.aborted
        gate.release()
        await shown(app, pilot, "■ aborted in", "! 1 warn", "check aborted: 1 pass, 1 warn")
        await pilot.press("r")
        await shown(app, pilot, "▶ checking")
        for _ in range(10):
            gate.release()
        await shown(app, pilot, "■ checked in", "✗ 1 fail")


async def test_a_check_is_run_for_a_plan_and_fixes_what_it_may_after_one_question():
    async with console(screen="5") as (app, session, pilot):
        await pilot.press("r")
        await shown(app, pilot, "■ checked", "without a plan")
        await app.workers.wait_for_complete()
        await pilot.press("p")
        await shown(app, pilot, "without a plan · r checks for plan pair")  # the results are what they were
        await pilot.press("r")
        await until(pilot, lambda: len(session.checks) == 2)
        await shown(app, pilot, "■ checked", "for plan pair")
        assert "r checks" not in text(app)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "Fix 1 problem?" in text(app)
        assert "modprobe pktgen" in text(app)
        await pilot.press("n", "c")
        await shown(app, pilot, "Calibrate the testbed?", "frames of 64 B", "what plan pair needs")
        await pilot.press("n", "x", "y")
        await until(pilot, lambda: len(session.checks) == 3)
        assert [(plan.name if plan else None, fix) for plan, fix in session.checks] == [
            (None, False),
            ("pair", False),
            ("pair", True),
        ]


async def test_a_console_that_only_watches_checks_and_fixes_nothing():
    def watching() -> LabSession:
        session = LabSession()
        session.read_only = True
        return session

    async with console(watching, screen="5") as (app, session, pilot):
        await shown(app, pilot, "not checked in this session yet", "READ-ONLY", "it checks nothing")
        for key in ("r", "x", "p"):
            await pilot.press(key)
            await shown(app, pilot, "this console only watches: --read-only")
            app.clear_notifications()
        assert session.checks == []


async def test_while_somebody_else_holds_a_node_the_key_says_who_and_the_results_stay():
    async with console(screen="5") as (app, session, pilot):
        await pilot.press("r")
        await shown(app, pilot, "■ checked")
        since = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
        session.holders = {
            "uut": LeaseHolder(
                owner="eva@desk", purpose="plan night", since=since, until=None, observe=None, quiet=False, own=False
            )
        }
        await pilot.press("r")
        await shown(app, pilot, "uut is leased by eva@desk since 2026-03-02 09:00:00 UTC for plan", "■ checked")
        assert len(session.checks) == 1


async def test_no_check_disturbs_a_trial():
    async with console(lambda: LabSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.state.trial is not None)
        await pilot.press("5")
        await shown(app, pilot, "not checked in this session yet")
        await pilot.press("r", "x")
        await shown(app, pilot, "a check would disturb it")
        assert session.checks == []
        session.release.set()


async def test_a_check_that_cannot_be_done_says_why():
    def refusing() -> LabSession:
        session = LabSession()
        session.refusal = refuse("a run is already in progress")
        return session

    async with console(refusing, screen="5") as (app, _, pilot):
        await pilot.press("r")
        await shown(app, pilot, "✗ a run is already in progress")


# Nodes


def looks(session: LabSession) -> list[str]:
    """The bench looks at the unit under test for its own sake."""
    return [node for node in session.looks if node != "uut"]


@pytest.mark.parametrize("size", SIZES)
async def test_a_node_is_looked_at_once_and_again_when_asked(size):
    async with console(size=size, screen="6") as (app, session, pilot):
        session.holders = {"src1": EVE}
        await shown(app, pilot, "src1", "leased by", "eve@desk")
        nodes = app.screen.query_one(NodeList)
        nodes.focus()
        await pilot.press("down")
        assert nodes.cursor_key == "src2"
        await until(pilot, lambda: looks(session) == ["src1", "src2"])
        await pilot.press("l")
        await until(pilot, lambda: looks(session) == ["src1", "src2", "src2"])
        if size[0] > 100:
            await shown(app, pilot, "pause rx (negotiated)", "guests", "exit sta", "$ ethtool")
        else:
            await pilot.press("v")
            await shown(app, pilot, "exit status 75", "$ ethtool -a eth1")


async def test_a_virtual_link_has_no_speed_of_its_own():
    nic: dict[str, Any] = {
        "up": True,
        "mtu": 1500,
        "speed_mbps": 10_000,
        "pause": None,
        "rings": None,
        "queues": None,
        "offloads": {},
    }
    settings = partly(NodeSettings, {"interfaces": {"v0": {**nic, "driver": "veth"}, "e0": {**nic, "driver": "ice"}}})
    rows = interface_rows(settings.interfaces, 80)
    text = " ".join(span[0] for row in rows for span in row)
    assert "virtual link" in text
    assert text.count("Mbit/s") == 1


async def test_nobody_looks_at_a_node_in_a_trial():
    async with console(lambda: LabSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.state.trial is not None)
        await pilot.press("6")
        await shown(app, pilot, "not inspected yet")
        await pilot.press("l")
        await shown(app, pilot, "a trial is running")
        session.release.set()


async def test_a_lost_node_says_why_and_is_tried_again_at_once():
    async with console(screen="6") as (app, session, pilot):
        await shown(app, pilot, "src1")
        session.telemetry.nodes["src1"].retry_at_s = clock.monotonic_s() + 50
        session.say(NodeChanged(node="src1", state=NodeState.LOST, message="the \x1b[31mcable\x1b[0m was pulled"))
        await shown(app, pilot, "✗ lost", "the ·[31mcable·[0m was pulled", "c: now")
        await pilot.press("c")
        await shown(app, pilot, "src1 is being reconnected")
        assert session.reconnected == ["src1"]
        await pilot.press("down", "c")
        await shown(app, pilot, "src2 is already connected")


async def test_a_shell_gets_the_terminal_while_the_console_lives_on(monkeypatch, tmp_path):
    async with console(screen="6") as (app, session, pilot):
        await shown(app, pilot, "src1")
        suspended: list[str] = []

        @contextmanager
        def suspend():
            suspended.append("begin")
            yield
            suspended.append("end")

        monkeypatch.setattr(app, "suspend", suspend)
        proof = tmp_path / "proof"
        program = f"import time; time.sleep(.2); open({str(proof)!r}, 'w').write('was here'); raise SystemExit(3)"
        monkeypatch.setattr(session, "shell_argv", lambda node: [sys.executable, "-c", program])
        await pilot.press("o")
        await until(pilot, lambda: suspended == ["begin"])
        session.advance()  # the loop runs on: a trial would too
        await until(pilot, lambda: suspended == ["begin", "end"])
        assert proof.read_text() == "was here"
        await until(pilot, lambda: any("shell ended with status 3" in note.text for note in app.state.notes))


async def test_a_shell_that_cannot_be_opened_says_why():
    async with console(screen="6") as (app, session, pilot):
        await shown(app, pilot, "src1")
        await pilot.press("o")
        await shown(app, pilot, "This terminal cannot be handed over")
        await pilot.press("down", "down", "down", "o")
        await shown(app, pilot, "the SSH configuration cannot be used")


# Log


@pytest.mark.parametrize("size", SIZES)
async def test_a_log_longer_than_its_table_opens_at_its_end(size: tuple[int, int]):
    async with console(LabSession, size) as (app, _, pilot):
        for number in range(200):
            app.state.note(0.0, f"note {number}")
        await pilot.press("7")
        await shown(app, pilot, "following")
        table = app.screen.query_one(JournalTable)
        await until(pilot, lambda: table.scroll_offset.y == table.max_scroll_y > 0)
        await shown(app, pilot, "note 198")  # above the last, which is beneath the table, too


async def test_a_log_that_follows_shows_its_last_row_also_in_a_terminal_made_smaller():
    async with console(LabSession, (120, 40)) as (app, _, pilot):
        for number in range(200):
            app.state.note(0.0, f"note {number}")
        await pilot.press("7")
        table = app.screen.query_one(JournalTable)
        await until(pilot, lambda: table.scroll_offset.y == table.max_scroll_y > 0)
        for height in (39, 30, 24, 40):
            await pilot.resize_terminal(120, height)
            await until(pilot, lambda: table.scroll_offset.y == table.max_scroll_y > 0)
            await shown(app, pilot, "note 199")
        table.paint()
        table._size = table.size - (0, 5)  # laid out anew, and painted by a tick before it is told so
        table.paint()
        assert table.scroll_offset.y == table.cursor_index - (table.size.height - 1) + 1


async def test_the_log_has_what_was_said_before_it_was_opened_and_follows():
    async with console() as (app, session, pilot):
        session.say(Notice(severity="warning", message="the \x1b[2Jclock stepped", node="snk2"))
        logging.getLogger("labconsole.nodes").warning("%s: lost: %s", "src3", "the cable")
        await pilot.press("7")
        await shown(app, pilot, "the ·[2Jclock stepped", "snk2", "src3: lost: the cable", "nodes", "following")
        table = app.screen.query_one(JournalTable)
        for number in range(100):
            app.state.note(0.0, f"note {number}")
        await shown(app, pilot, "note 99")
        await pilot.press("1", "7")
        await shown(app, pilot, "note 99")
        await pilot.press("up", "up")
        await shown(app, pilot, "not following; press end or f to follow")
        app.state.note(0.0, "one more")
        await pilot.pause(0.3)
        assert table.chosen is not None and table.chosen.text == "note 97"
        await pilot.press("f")
        await shown(app, pilot, "one more", "following")


async def test_the_log_is_filtered_by_words_and_severity_and_copied():
    async with console(screen="7") as (app, session, pilot):
        for number in range(5):
            session.say(
                Notice(severity="error" if number == 3 else "information", message=f"disk {number}", node="snk1")
            )
        await shown(app, pilot, "disk 4")
        await pilot.press("slash", *"disk snk1")
        table = app.screen.query_one(JournalTable)
        await until(pilot, lambda: len(table.keys()) == 5)
        await pilot.press("enter", "s")
        await until(pilot, lambda: table.least == "warning")
        assert [table._shown[key].text for key in table.keys()] == ["disk 3"]  # noqa: SIM118
        await pilot.press("c")
        await until(pilot, lambda: "error snk1 [console] disk 3" in app.clipboard)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.endswith("disk 3"))
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query_one("#log-words", Input).value)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))


async def test_the_log_is_bounded_and_says_what_it_forgot():
    async with console(screen="7") as (app, _, pilot):
        for number in range(MOST_ENTRIES + 50):
            app.state.note(0.0, f"note {number}")
        await shown(
            app, pilot, f"{MOST_ENTRIES} of {MOST_ENTRIES}", "older entries were dropped", f"note {MOST_ENTRIES + 49}"
        )


@pytest.mark.parametrize(
    ("key", "screen"), [("4", PlansScreen), ("5", CheckScreen), ("6", NodesScreen), ("7", LogScreen)]
)
async def test_every_command_of_a_screen_is_in_the_palette_and_does_not_fail(key, screen):
    async with console(screen=key) as (app, _, pilot):
        assert isinstance(app.screen, screen)
        await app.workers.wait_for_complete()
        offered = {command.title: command.callback for command in app.get_system_commands(app.screen)}
        for action in app.screen.declared_actions():
            title = action.title or action.label
            if title == "Change the view":  # for small terminals
                assert title not in offered
            elif "shell" not in title.lower():
                await offered[title]()
                await pilot.pause()
        while len(app.screen_stack) > 1:
            app.pop_screen()


async def test_the_plans_of_a_grid_with_nothing_chosen_answer_every_key(plans):
    (plans / "pair.yaml").write_text("plan: [")
    async with console(screen="4") as (app, _, pilot):
        await shown(app, pilot, "✗ broken")
        app.screen.query_one(GridTable).focus()
        await pilot.press("right", "left", "down", "enter", "end", "y")
        assert app.screen.query_one(PlansTable).chosen is not None
        assert app.screen.query_one(GridTable).cell is None
        assert TrialState.PENDING.value == "pending"


@pytest.mark.parametrize("screen", ["", "2", "3", "4", "5", "6", "7"])
async def test_help_and_quit_stand_in_the_last_line_of_every_screen_however_narrow(screen):
    async with console(size=(80, 24), screen=screen) as (app, _, pilot):
        await until(pilot, lambda: "q Quit" in text(app).splitlines()[-1])
        assert "? Help" in text(app).splitlines()[-1]
