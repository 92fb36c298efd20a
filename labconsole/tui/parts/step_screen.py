"""One step of a plan over the whole screen, trial by trial, while it runs and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.execution.steps import StepSeen
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.key_bar import KeyBar
from labconsole.tui.parts.measuring_line import MeasuringLine
from labconsole.tui.parts.screen import Application, frames_per_second
from labconsole.tui.parts.step_picture import StepTrials, StepWords

HELD = (ExecutionStatus.PAUSED, ExecutionStatus.WAITING)


class StepScreen(HasActions, ModalScreen[None]):
    """``wanted``: which step of the execution; the one under way, else the last, where that is None."""

    CSS_PATH = "step_screen.tcss"
    ACTIONS: ClassVar = (
        Action("enter", "open", "Open run", "Open the trial under the cursor in Runs.", id="step-open", common=True),
        Action("a", "abort", "Abort", "Abort what runs, after asking.", id="step-abort", common=True),
        Action("left,h", "step(-1)", "Previous", "Show the search before.", id="step-previous", shown=False,
               common=True),
        Action("right,l", "step(1)", "Next", "Show the next search.", id="step-next", shown=False, common=True),
        Action("escape,q", "dismiss", "Close", "Close it; what runs goes on.", id="step-close", common=True),
    )  # fmt: skip

    def __init__(self, app: Application, execution: Callable[[], PlanExecution | None], index: int | None) -> None:
        super().__init__()
        self.console_app, self._execution, self._index = app, execution, index

    def compose(self) -> ComposeResult:
        with Vertical(id="step-box"):
            yield MeasuringLine(self.console_app.state, "")
            yield StepTrials(id="step-trials")
            yield StepWords(id="step-words")
            yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(StepTrials).focus()
        self.set_interval(1 / frames_per_second(self.console_app.settings), self.paint)
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        """Look again."""
        self.query_one(MeasuringLine).paint()
        execution = self._execution()
        seen = self._seen(execution)
        title = "not begun"
        if execution is not None and seen is not None:
            number, total = execution.steps.seen.index(seen) + 1, len(execution.steps.seen)
            title = f"{execution.plan.name}: {f'{number} of {total}, ' if total > 1 else ''}{seen.step.describe()}"
        held = execution is not None and execution.status in HELD
        self.query_one(StepTrials).show(seen, title)
        self.query_one(StepWords).show(seen, held=held)

    def _seen(self, execution: PlanExecution | None) -> StepSeen | None:
        if execution is None or not execution.steps.seen:
            return None
        steps = execution.steps.seen
        if self._index is not None:
            return steps[min(self._index, len(steps) - 1)]
        return execution.steps.current or next((each for each in reversed(steps) if each.record is not None), steps[0])

    def action_step(self, by: int) -> None:
        execution = self._execution()
        seen = self._seen(execution)
        if execution is not None and seen is not None:
            steps = execution.steps.seen
            self._index = max(0, min(len(steps) - 1, steps.index(seen) + by))
            self.paint()

    def action_abort(self) -> None:
        self.console_app.ask_abort()

    def action_open(self) -> None:
        trial = self.query_one(StepTrials).trial
        if trial is not None and trial.run_id:
            self.dismiss()
            self.console_app.state.wanted_run = trial.run_id
            self.console_app.trail.lead_to("runs")
