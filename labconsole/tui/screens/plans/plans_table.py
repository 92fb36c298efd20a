"""The plan files: their trials, their notes, trials for telemetry in place of their own, changes by other consoles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, StepState, TrialState
from labconsole.engine.protocol import RunsStore, SessionLike
from labconsole.model.plan.plan import Plan
from labconsole.model.record.annotations import RunNote
from labconsole.text.cells import UNKNOWN, format_duration, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.plan_files import DIRECTORY, PlanEntry
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.parts.table import Column, LineTable

# -- plan notes --------------------------------------------------------------------------------------------------------
# The notes on the visible plans, from the store: read in a thread, each once until it is written.


class PlanNotes:
    """Notes by the plan's file. The store keeps them by the plan's meaning on this testbed."""

    def __init__(self, session: SessionLike) -> None:
        self._session = session
        self._known: dict[Path, RunNote | None] = {}

    def of(self, entry: PlanEntry | None) -> RunNote | None:
        """The note on a plan, as far as it was read."""
        return self._known.get(entry.path) if entry is not None else None

    def forget(self, *paths: Path) -> None:
        """Read these again, or all of them if none is named."""
        for path in paths or list(self._known):
            self._known.pop(path, None)

    async def read(self, entries: Iterable[PlanEntry]) -> None:
        """Read the notes that are not known yet. Raises StoreError."""
        for entry in entries:
            if entry.plan is not None and entry.path not in self._known:
                self._known[entry.path] = await asyncio.to_thread(self._stored, entry.plan)

    async def write(self, path: Path, plan: Plan, text: str) -> None:
        """Write a note. Raises StoreError."""
        store, author = self._session.store, self._session.operator
        await asyncio.to_thread(store.set_plan_note, *self._key(plan), text, author=author)
        self._known[path] = await asyncio.to_thread(self._stored, plan)

    def _key(self, plan: Plan) -> tuple[str, str]:
        return plan.hash(), self._session.inventory.fingerprint()

    def _stored(self, plan: Plan) -> RunNote | None:
        return self._session.store.plan_note(*self._key(plan))


# -- store watch -------------------------------------------------------------------------------------------------------
# Detection of another console's changes to the store since the last look at plans: rarely, by two counts.

WATCH_EVERY_S = 10.0
WATCH_REST_RATIO = 20
"""Minimum pause, as a multiple of the time for looking at plans: a store may contain many runs."""


class StoreWatch:
    """Call ``forget`` after a measurement of this console: its own changes are known already."""

    def __init__(self, store: RunsStore) -> None:
        self._store = store
        self._seen: tuple[int, int] | None = None
        self._due_s = 0.0

    async def moved(self) -> bool:
        """Whether the counts changed. False if it is too early for a query. Raises StoreError."""
        now_s = clock.monotonic_s()
        if now_s < self._due_s:
            return False
        counted = await asyncio.to_thread(self._store.amount)
        before, self._seen, self._due_s = self._seen, counted, now_s + WATCH_EVERY_S
        return before is not None and before != counted

    def looked(self, took_s: float) -> None:
        """Note a look at all plans, and its duration."""
        self._due_s = max(self._due_s, clock.monotonic_s() + WATCH_REST_RATIO * took_s)

    def hurry(self) -> None:
        """Query at the next call, whatever the time."""
        self._due_s = 0.0

    def forget(self) -> None:
        """Take the counts of the next query, whenever that is, as known."""
        self._seen, self._due_s = None, 0.0


# -- telemetry toggle --------------------------------------------------------------------------------------------------
# The plans shown with their trials for telemetry in place of their own.


class TelemetryToggle:
    """Choices by file. A plan that no longer has points of traffic is shown unchanged."""

    def __init__(self) -> None:
        self._for_telemetry: set[Path] = set()

    def of(self, entry: PlanEntry) -> Plan | None:
        """The plan of a file, or its trials for telemetry, whichever is shown."""
        plan = entry.plan
        if plan is None or entry.path not in self._for_telemetry or not plan.telemetry_hashes:
            return plan
        return plan.for_telemetry()

    def turn(self, entry: PlanEntry | None, *, in_use: bool) -> str:
        """Show the other one. Returns a sentence why that is impossible, or ""."""
        if entry is None or entry.plan is None:
            return "Choose a valid plan."
        if in_use:
            return f"Plan {entry.name} is running. Wait, or abort it."
        if not entry.plan.telemetry_hashes:
            return f"Plan {entry.name} has no points of traffic, and only those have telemetry."
        self._for_telemetry ^= {entry.path}
        return ""


# -- plans table -------------------------------------------------------------------------------------------------------
# The plan files: how many trials each has, how many are stored already, or that it cannot be used.

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
