"""A search's trials and bounds as they come, driven by keys, on a scripted session whose unit has a capacity."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from labconsole.contracts.picture import PicturePart, PictureTrial, StepPicture
from labconsole.engine.execution.progress import ExecutionStatus, StepState
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.dialogs import Confirm
from labconsole.tui.parts.step_screen import StepScreen, StepTrials
from labconsole.tui.screens.plans.screen import PlansScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from support.driven_console import SIZES, console, shown, text, until
from support.fake_lab_session import LabSession

pytestmark = pytest.mark.asyncio

PLAN = """\
plan: bounds
platforms: [raw]
frame_sizes: [1000]
sources: [1]
search: {goals: [ndr, pdr-5%], trial_s: 10, duration_sum_s: 10, width_ratio: 0.1}
settle_s: 0
"""
TESTS = "search: {goals: [ndr, frame-loss, back-to-back], trial_s: 10, duration_sum_s: 10, width_ratio: 0.2,\n  back_to_back: {repetitions: 1, trial_s: 0.1}}"


@pytest.fixture(autouse=True)
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "bounds.yaml").write_text(PLAN)
    return tmp_path / "plans"


class Bounded(LabSession):
    """Forwards 30 000 packets/s of a stream; each trial waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(hold=True)
        self.capacity_pps = 30_000.0
        self.lets_go = 0

    async def traffic(self, request):
        if self.lets_go > 0:
            self.lets_go -= 1
            return
        await super().traffic(request)


@asynccontextmanager
async def on_plans(size: tuple[int, int], lets_go: int = 0) -> AsyncIterator[tuple[ConsoleApp, Bounded, Pilot[int]]]:
    async with console(Bounded, size) as (app, session, pilot):
        assert isinstance(session, Bounded)
        session.lets_go = lets_go
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, PlansScreen) and app.screen.is_mounted)
        await shown(app, pilot, "ready")
        yield app, session, pilot


def status(app: ConsoleApp) -> ExecutionStatus | None:
    return app.state.execution.status if app.state.execution is not None else None


def trials_shown(app: ConsoleApp) -> list[str]:
    """The lines of trials, by their numbers."""
    return re.findall(r"[▌›│] +(\d+ +\d.*?) *│?$", text(app), re.MULTILINE)


@pytest.mark.parametrize("size", SIZES)
async def test_every_trial_of_a_running_search_is_drawn_with_the_open_interval_and_what_comes_next(size):
    async with on_plans(size, lets_go=3) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: len(session.store.records) == 3)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StepScreen))
        await shown(
            app,
            pilot,
            "▶ trial 4: load at 34\u2009766",
            "ndr (adjusted): 28\u2009200 to 42\u2009861 packets/s, 34.21 %",
            "if ✓ 38\u2009602, if ✗ about 31\u2009311",
            "at most 1\u2009997",
            "about 2 left",
        )
        rows = trials_shown(app)
        assert len(rows) == 4
        assert re.search(r"^1 +122\u2009070 +10 +75\.424 ✗✗ .*─✗$", rows[0])
        assert re.search(r"^2 +28\u2009200 +10 +0\.000 ✓✓ +✓─+┤$", rows[1])
        assert re.search(r"^3 +42\u2009861 +10 +30\.007 ✗✗ +├─*✗$", rows[2])
        assert re.search(r"^4 +34\u2009766 +10 +▶ +├─*▶", rows[3])
        assert len({row.index("├") for row in rows[2:]} | {rows[1].rindex("✓")}) == 1
        session.release.set()
        await until(pilot, lambda: status(app) is ExecutionStatus.DONE)
        await shown(app, pilot, "ended", "✓ 5 trials", "28\u2009200 to 31\u2009311", "31\u2009311 to 34\u2009766")
        assert "◐" in trials_shown(app)[4]
        await pilot.press("z")
        await shown(app, pilot, "28\u2009000" if size[0] == 80 else "30\u2009000", "›")
        await pilot.press("home", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        record = session.store.searches[0]
        assert app.state.wanted_run is None or app.state.wanted_run == record.trials[0].run_id


@pytest.mark.parametrize("size", SIZES[1:])
async def test_the_chosen_search_is_drawn_on_plans_beside_its_table(size):
    async with on_plans(size, lets_go=3) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: len(session.store.records) == 3)
        await shown(app, pilot, "▶ trial 4", "if ✓", "✗✗")
        await pilot.press("p")
        session.release.set()
        await shown(app, pilot, "‖ paused", "‖ trial 5: load at", "waits")
        await pilot.press("p")
        await until(pilot, lambda: status(app) is ExecutionStatus.DONE)
        await shown(app, pilot, "ended", "✓ 5 trials")


async def test_a_finished_search_out_of_the_store_is_drawn_by_its_record(plans):
    (plans / "bounds.yaml").write_text(PLAN.replace(PLAN.splitlines()[4], TESTS))
    async with on_plans((120, 40)) as (app, session, pilot):
        session.release.set()
        await pilot.press("r")
        await until(pilot, lambda: status(app) is ExecutionStatus.DONE)
        await pilot.press("l")
        await shown(app, pilot, "✓ stored")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StepScreen))
        await shown(app, pilot, "test", "back-to-back", "whole: – to 1 packets", "✓ ")


async def test_a_search_is_aborted_from_its_own_screen():
    async with on_plans((80, 24), lets_go=2) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: len(session.store.records) == 2)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StepScreen))
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: status(app) is ExecutionStatus.STOPPED)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PlansScreen))


async def test_rows_that_went_while_their_table_was_hidden_are_not_drawn_when_it_comes_back():
    part = PicturePart(name="ndr", unit="packets/s", low=0, high=100)
    trial = PictureTrial(part=0, at=50, duration_s=1, passed=(True,))
    running = StepPicture(parts=(part,), trials=(trial,), under_way=PictureTrial(part=0, at=75, duration_s=1))
    now: Any = SimpleNamespace(state=StepState.RUNNING, picture=running, why=None)

    class Two(App[None]):
        def compose(self):
            yield StepTrials(id="trials")

    async with Two().run_test() as pilot:
        table = pilot.app.query_one(StepTrials)
        table.show(now, "")
        await pilot.pause()
        assert table.cursor_key == 1
        table.display = False
        await pilot.pause()
        now.state, now.picture = StepState.DONE, StepPicture(parts=(part,), trials=(trial,))
        table.show(now, "")
        table.display = True
        await pilot.pause()
        assert table.trial in (None, trial)
        assert [table.render_line(y).text.split() for y in (1, 2)][1] == []
