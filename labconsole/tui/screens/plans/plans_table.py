"""The plan files: how many trials each has, how many are stored already, or that it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.grid import TrialState
from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.execution.step_view import StepState
from labconsole.text.cells import UNKNOWN, format_duration, format_rounded, safe
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.plan_files import DIRECTORY, PlanEntry
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.parts.table import Column, LineTable

USABLE_STATES = (TrialState.STORED, TrialState.VALID, TrialState.SUSPECT)

STATUS_LOOKS = {
    ExecutionStatus.READY: ("○", "muted"),
    ExecutionStatus.RUNNING: ("▶", "accent"),
    ExecutionStatus.PAUSING: ("‖", "warn"),
    ExecutionStatus.PAUSED: ("‖", "warn"),
    ExecutionStatus.WAITING: ("◌", "warn"),
    ExecutionStatus.STOPPING: ("■", "warn"),
    ExecutionStatus.DONE: ("✓", "good"),
    ExecutionStatus.STOPPED: ("■", "warn"),
    ExecutionStatus.FAILED: ("✗", "bad"),
}


def count_taken(execution: PlanExecution) -> int:
    """Count the trials of the grid, searches and jobs that are stored."""
    return execution.grid.count(*USABLE_STATES) + execution.steps.count(StepState.STORED, StepState.DONE)


def count_planned(execution: PlanExecution) -> int:
    """Count the trials, searches and jobs of the plan, and the steps of other packages' kinds."""
    plan = execution.plan
    return plan.trials + (len(execution.steps.seen) if plan.experiments else plan.step_count)


class PlansTable(LineTable):
    """One row per file. The cursor stays on its file. A search counts as one trial."""

    EMPTY = "No plan files; {plan-save} makes one."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "file", 20, right=False, grow_to=40),
        Column("state", "state", 10, right=False, grow_to=12),
        Column("done", "done", 6, rank=1),
        Column("trials", "trials", 6, rank=2),
        Column("left", "to go", 12, right=False, rank=3),
    )

    @property
    def empty_text(self) -> str:
        return insert_keys(self, self.EMPTY)

    def __init__(self) -> None:
        super().__init__(id="plans")
        self._entries: dict[Path, PlanEntry] = {}
        self._executions: dict[Path, PlanExecution] = {}
        self.border_title = "Plans"

    def show(self, entries: Sequence[PlanEntry], executions: dict[Path, PlanExecution]) -> None:
        """Take the present files and the state of their execution."""
        # First the plans that can run, then those to correct, then those for other testbeds.
        ordered = sorted(entries, key=lambda entry: 0 if entry.plan is not None else 2 if entry.needs else 1)
        self._entries = {entry.path: entry for entry in ordered}
        self._executions = executions
        self._cells.clear()
        self.paint()

    @property
    def chosen(self) -> PlanEntry | None:
        """The file under the cursor."""
        return self._entries.get(self.cursor_key)

    def keys(self) -> list[Path]:
        return list(self._entries)

    def cell_name(self, key: Path, width: int) -> Span:
        name = key.name.removesuffix(".yaml")
        return safe(name if key.parent == DIRECTORY else f"./{name}", width), ""

    def cell_state(self, key: Path, width: int) -> Span:
        if self._entries[key].plan is None:
            return ("⊘ not here", "muted") if self._entries[key].needs else ("✗ broken", "bad")
        execution = self._executions.get(key)
        if execution is None:
            return "…", "muted"
        glyph, tone = STATUS_LOOKS[execution.status]
        if execution.status is ExecutionStatus.READY and (there := count_taken(execution)):
            whole = there + execution.steps.refusals == count_planned(execution)
            return ("✓ stored", "good") if whole else ("◐ begun", "")
        if execution.status is ExecutionStatus.DONE and execution.outcome.doubtful:
            return "? done", "warn"  # the counts next to it say of what kind
        word = "waiting" if execution.status is ExecutionStatus.WAITING else execution.status.value
        return f"{glyph} {word}"[:width], tone

    def cell_trials(self, key: Path, width: int) -> Span:
        execution, plan = self._executions.get(key), self._entries[key].plan
        plan = plan if execution is None else execution.plan
        if plan is None:
            return "", ""
        return format_rounded(plan.trials + plan.step_count if execution is None else count_planned(execution)), ""

    def cell_done(self, key: Path, width: int) -> Span:
        execution = self._executions.get(key)
        if self._entries[key].plan is None:
            return "", ""
        return (format_rounded(count_taken(execution)), "") if execution is not None else (UNKNOWN, "muted")

    def cell_left(self, key: Path, width: int) -> Span:
        execution = self._executions.get(key)
        if execution is None or self._entries[key].plan is None:
            return "", ""
        left_s = execution.left_s
        return (safe(format_duration(left_s), width), "muted") if left_s else ("", "")
