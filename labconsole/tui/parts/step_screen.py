"""One step of a plan over the whole screen, trial by trial, during and after its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical

from labconsole.contracts.picture import StepPicture
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.execution.step_view import StepView
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.guests_table import GuestsTable
from labconsole.tui.parts.key_bar import KeyBar
from labconsole.tui.parts.measuring_line import MeasuringLine
from labconsole.tui.parts.over_time_chart import OverTimeChart
from labconsole.tui.parts.overlay import Overlay
from labconsole.tui.parts.screen import Application, frames_per_second
from labconsole.tui.parts.step_picture import StepSummary, StepTrials

HALTED_STATUSES = (ExecutionStatus.PAUSED, ExecutionStatus.WAITING)


class StepSelection(NamedTuple):
    """Steps to look at, under the noun ``name``. ``current`` is under way, or paused if ``halted``."""

    name: str
    steps: Sequence[StepView] = ()
    current: StepView | None = None
    halted: bool = False

    @classmethod
    def of(cls, execution: PlanExecution | None) -> StepSelection:
        """Return the steps of a plan that runs or ran."""
        if execution is None:
            return cls("")
        steps = execution.steps
        return cls(execution.plan.name, steps.seen, steps.current, execution.status in HALTED_STATUSES)


class StepScreen(Overlay):
    """``index``: the step shown, or None for the one under way, else the last that ended."""

    title_in_help = "a search or trial"
    CSS_PATH = "step_screen.tcss"
    ACTIONS: ClassVar = (
        Action("enter", "open", "Open run", "Open the trial under the cursor in Runs.", id="step-open", common=True),
        Action("a", "abort", "Abort", "Abort the running measurement, after asking.", id="step-abort", common=True),
        Action("left,h", "step(-1)", "Previous", "Show the previous search or trial.", id="step-previous", common=True),
        Action("right,l", "step(1)", "Next", "Show the next search or trial.", id="step-next", common=True),
        Action("escape,q", "dismiss", "Close", "Close it; what runs goes on.", id="step-close", common=True),
    )

    def __init__(self, app: Application, look: Callable[[], StepSelection], index: int | None = None) -> None:
        super().__init__()
        self.console_app, self._look, self._index = app, look, index

    def compose(self) -> ComposeResult:
        with Vertical(id="step-box"):
            yield MeasuringLine(self.console_app.state, "")
            yield StepTrials(id="step-trials")
            yield OverTimeChart(id="step-over-time")
            yield GuestsTable(id="step-guests")
            yield StepSummary(id="step-words")
            yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(StepTrials).focus()
        self.set_interval(1 / frames_per_second(self.console_app.settings), self.paint)
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        """Update."""
        self.query_one(MeasuringLine).paint()
        there = self._look()
        seen = self._seen(there)
        title = "not begun"
        if seen is not None:
            number, total = there.steps.index(seen) + 1, len(there.steps)
            place = f"{number} of {total}, " if total > 1 else ""
            when = f", {seen.record.started_at[:16].replace('T', ' ')} UTC" if seen.record is not None else ""
            title = f"{there.name}: {place}{seen.step.describe()}{when}"
        picture = seen.picture if seen is not None else StepPicture()
        trials, guests = self.query_one(StepTrials), self.query_one(GuestsTable)
        over_time = self.query_one(OverTimeChart)
        trials.show(seen, title)
        of_guests = bool(picture.guests or picture.over_time)
        if of_guests is not guests.display:
            guests.display, trials.display = of_guests, not of_guests
            self.set_focus(guests if of_guests else trials)
            self.refresh_bindings()
        over_time.display = picture.over_time is not None
        guests.show(picture)
        over_time.show(picture)
        self.query_one(StepSummary).show(seen, halted=there.halted, title=title if of_guests else "")

    def _seen(self, there: StepSelection) -> StepView | None:
        steps = there.steps
        if not steps:
            return None
        if self._index is not None:
            return steps[min(self._index, len(steps) - 1)]
        return there.current or next((each for each in reversed(steps) if each.record is not None), steps[0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable opening for a trial of guests, which is no run."""
        return action != "open" or self.query_one(StepTrials).display

    def action_step(self, by: int) -> None:
        there = self._look()
        seen = self._seen(there)
        if seen is not None:
            self._index = max(0, min(len(there.steps) - 1, there.steps.index(seen) + by))
            self.paint()

    def action_abort(self) -> None:
        self.console_app.ask_abort()

    def action_open(self) -> None:
        trial = self.query_one(StepTrials).trial
        if trial is not None and trial.run_id:
            self.dismiss()
            self.console_app.state.wanted_run = trial.run_id
            self.console_app.navigation.push_mode("runs")
