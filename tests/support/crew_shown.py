"""A step with a crew of guests under way on the Bench: what it shows is put in its place."""

from __future__ import annotations

from textual.pilot import Pilot

from labconsole.contracts.picture import PictureGuest, StepPicture
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.dialogs import AskSearch
from labconsole.tui.parts.step_screen import StepScreen
from labconsole.tui.screens.bench.screen import BenchScreen
from support.driven_console import until
from support.fake_lab_session import LabSession


def bounded() -> LabSession:
    session = LabSession(hold=True)
    session.capacity_pps = 30_000.0
    return session


async def step_under_way(app: ConsoleApp, pilot: Pilot[int], guests: tuple[PictureGuest, ...]) -> None:
    """Any step will do: what it shows is put in its place."""
    await pilot.press("f")
    await until(pilot, lambda: isinstance(app.screen, AskSearch))
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, StepScreen))
    await pilot.press("escape")
    await until(pilot, lambda: isinstance(app.screen, BenchScreen))
    execution = app.state.execution
    assert execution is not None
    await until(pilot, lambda: execution.steps.current is not None)
    seen = execution.steps.current
    assert seen is not None
    seen.shown = StepPicture(guests=guests)
