"""A search of the Bench's set-up, from the key to the result, on a scripted session whose unit has a capacity."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot

from labconsole.engine.execution.execution import PlanExecution
from labconsole.errors import LeaseHeld
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.dialogs import AskSearch, Confirm
from labconsole.tui.parts.fields import Field
from labconsole.tui.parts.step_screen import StepScreen
from labconsole.tui.screens.bench.screen import BenchScreen
from support import fake_lab_session
from support.driven_console import SIZES, console, shown, until
from support.fake_lab_session import LabSession
from support.fake_session import make_record

pytestmark = pytest.mark.asyncio


def bounded() -> LabSession:
    """Forwards 30 000 packets/s of a stream; trials wait until they are let go."""
    session = LabSession(hold=True)
    session.capacity_pps = 30_000.0
    return session


async def asked(app: ConsoleApp, pilot: Pilot[int]) -> None:
    await pilot.press("f")
    await until(pilot, lambda: isinstance(app.screen, AskSearch))


async def typed(app: ConsoleApp, pilot: Pilot[int], field: str, value: str) -> None:
    app.screen.query_one(f"#search-{field}", Field).focus()
    await pilot.press(*(["backspace"] * 6), *("full_stop" if each == "." else each for each in value))


@pytest.mark.parametrize("size", SIZES)
async def test_the_set_up_is_searched_shown_told_and_saved(size):
    async with console(bounded, size) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await asked(app, pilot)
        await shown(app, pilot, "Find the highest load of raw, 64 B", "trials or more", "NDR, no loss")
        await typed(app, pilot, "width", "20")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StepScreen))
        await shown(app, pilot, "▶ trial 1: load at", "search", "at most 2\u2009000")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, StepScreen))
        session.release.set()
        await until(pilot, lambda: not app.state.requested)
        await shown(app, pilot, "ended", "ndr (adjusted)")
        (record,) = session.store.searches
        assert record.requested.frame_size_bytes == 64
        assert record.goals[0].lower_bound_pps is not None
        assert any("background none: ndr (adjusted) " in note.text for note in app.state.notes)
        assert app.state.plan_over is not None


async def test_every_search_is_a_new_one_which_nothing_resumes():
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        session.release.set()
        made = session.store.searches

        async def again(before: int) -> None:
            await asked(app, pilot)
            await typed(app, pilot, "width", "20")
            await pilot.press("enter")
            await until(pilot, lambda: len(made) > before and not app.state.requested)
            await until(pilot, lambda: isinstance(app.screen, StepScreen))
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(app.screen, BenchScreen))

        await again(0)
        await again(1)
        await pilot.press("F")
        await shown(app, pilot, "stored searches: 1 of 2, raw, 64 B", "UTC", "ndr (adjusted)", "✓", "✗")
        await pilot.press("right")
        await shown(app, pilot, "stored searches: 2 of 2, raw, 64 B")
        await pilot.press("escape")
        first, second = made
        assert first.plan.hash != second.plan.hash
        assert {trial.run_id for trial in first.trials}.isdisjoint(trial.run_id for trial in second.trials)


async def test_a_stored_search_whose_settings_mean_nothing_here_is_left_out():
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await pilot.press("F")
        await shown(app, pilot, "No search is stored of this testbed yet.")
        session.release.set()
        await asked(app, pilot)
        await typed(app, pilot, "width", "20")
        await pilot.press("enter")
        await until(pilot, lambda: bool(session.store.searches) and not app.state.requested)
        await pilot.press("escape")
        (record,) = session.store.searches
        session.store.searches.append(record.model_copy(update={"settings": {"goals": ["of another world"]}}))
        goals_of_others = {**record.settings, "goals": ["frame-loss"]}
        session.store.searches.append(record.model_copy(update={"settings": goals_of_others}))
        await pilot.press("F")
        await shown(app, pilot, "stored searches: 1 of 2, raw, 64 B")


async def test_what_cannot_be_asked_stays_open_and_says_why():
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await asked(app, pilot)
        await typed(app, pilot, "trial_s", "1")
        await pilot.press("enter")
        await shown(app, pilot, "✗ trial s", "too short for ndr")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        assert not session.store.records
        await asked(app, pilot)
        await pilot.press("right")
        await shown(app, pilot, "PDR, some loss", "loss %")
        await typed(app, pilot, "loss", "0")
        await pilot.press("enter")
        await shown(app, pilot, "✗ loss %", "is not a goal")


async def test_a_partial_drop_rate_is_searched_for_with_its_loss():
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        session.release.set()
        await asked(app, pilot)
        await pilot.press("right")
        await typed(app, pilot, "loss", "10")
        await pilot.press("enter")
        await until(pilot, lambda: len(session.store.searches) == 1)
        assert [goal.goal for goal in session.store.searches[0].goals] == ["pdr-10%"]


async def test_an_abort_keeps_the_trials_and_says_so():
    async with console(bounded) as (app, session, pilot):
        await asked(app, pilot)
        await pilot.press("enter")
        await shown(app, pilot, "▶ trial 1")
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await shown(app, pilot, "Abort the search?")
        await pilot.press("y")
        await until(pilot, lambda: not app.state.requested)
        assert any("its trials are kept as runs" in note.text for note in app.state.notes)


@pytest.mark.parametrize("key", ["7", "escape", "enter"])
async def test_a_key_while_the_dialog_still_looks_ends_nothing(monkeypatch: pytest.MonkeyPatch, key: str):
    async with console(bounded) as (app, session, pilot):
        await asked(app, pilot)
        gate, look = asyncio.Event(), PlanExecution.look

        async def slow(execution: PlanExecution) -> None:
            await gate.wait()
            await look(execution)

        monkeypatch.setattr(PlanExecution, "look", slow)
        await pilot.press("enter", key)
        gate.set()
        await pilot.pause()
        await until(pilot, lambda: not isinstance(app.screen, AskSearch) or key == "7")
        assert app.is_running
        session.release.set()
        await until(pilot, lambda: not app.state.requested)


@pytest.mark.parametrize(("rights", "words"), [(4, "loss at every load"), (5, "bursts of")])
async def test_what_other_goals_found_is_told_in_their_own_unit(rights: int, words: str):
    async with console(bounded) as (app, session, pilot):
        assert isinstance(session, LabSession)
        session.release.set()
        await asked(app, pilot)
        await pilot.press(*(["right"] * rights))
        await typed(app, pilot, "trial_s", "1")
        await pilot.press("enter")
        await until(pilot, lambda: bool(session.store.searches) and not app.state.requested)
        told = [note.text for note in app.state.notes if words in note.text]
        assert told
        assert "packets packets" not in told[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("weak", [True, False])
async def test_a_bound_that_the_generator_set_is_told_as_soon_as_it_is_drawn(weak, size, monkeypatch):
    def sent_in_part(request, run_id, **more):
        record = make_record(request, run_id, **more)
        total = record.total
        assert total.offered_packets is not None
        sent = {"offered_packets": total.offered_packets // 2, "measured_packets": total.offered_packets // 2}
        return record.model_copy(update={"total": total.model_copy(update=sent)})

    if weak:
        monkeypatch.setattr(fake_lab_session, "make_record", sent_in_part)
    gate = asyncio.Semaphore(0)
    async with console(bounded, size) as (app, session, pilot):
        monkeypatch.setattr(session, "traffic", lambda request: gate.acquire())
        await asked(app, pilot)
        await typed(app, pilot, "width", "20")
        await pilot.press("enter")
        await shown(app, pilot, "▶ trial 1: load at")
        gate.release()
        picture = await shown(app, pilot, "▶ trial 2: load at", "bounds")
        assert ("upper bound set by the generator" in " ".join(picture.split())) is weak
        await session.abort()
        gate.release()
        await until(pilot, lambda: not app.state.requested)


async def test_while_something_runs_no_search_begins():
    async with console(bounded) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        await pilot.press("f")
        await until(pilot, lambda: any("A trial is running." in note.text for note in app.state.notes))
        assert isinstance(app.screen, BenchScreen)
        session.release.set()


async def test_a_console_that_only_watches_refuses():
    async with console(bounded) as (app, session, pilot):
        session.read_only = True
        await pilot.press("f")
        await pilot.pause()
        assert isinstance(app.screen, BenchScreen)
        assert not session.running


async def test_somebody_elses_testbed_is_taken_over_only_after_asking():
    def held() -> LabSession:
        session = bounded()
        session.held = LeaseHeld("uut", "eve@desk")
        session.release.set()
        return session

    async with console(held) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await asked(app, pilot)
        await typed(app, pilot, "width", "20")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: len(session.store.searches) == 1)
        await until(pilot, lambda: isinstance(app.screen, StepScreen))
        await shown(app, pilot, "ended")


async def test_the_palette_finds_the_search_by_its_name_and_its_dialog_says_what_a_load_may_take() -> None:
    async with console(LabSession) as (app, _, pilot):
        await pilot.press("ctrl+p", *"search")
        await shown(app, pilot, "Search for the highest load")
        await pilot.press("escape", "escape", "f")
        await shown(app, pilot, "per load s", "of trials at one load")
