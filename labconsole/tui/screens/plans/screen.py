"""Plans: the files, their contents, and the trials of the running one, filling a grid as they are measured.

The execution is the same as that of ``labconsole replay``. It belongs to the console and not to this screen, so the
operator may visit others meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError, LeaseHeld
from labconsole.model.plan.plan import Plan
from labconsole.model.record.summary import RunSummary
from labconsole.tui.console import clock
from labconsole.tui.console.plan_text import describe_ending, format_extent
from labconsole.tui.console.state import PlanEnd
from labconsole.tui.parts import plan_files
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.dialogs import AskText, Confirm, take_over_question
from labconsole.tui.parts.plan_files import PlanEntry, ask_and_save_session
from labconsole.tui.parts.screen import PAUSE, Application, ConsoleScreen, abort_action, back_to_bench_action
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.parts.step_screen import (
    HALTED_STATUSES,
    StepPane,
    StepScreen,
    StepSelection,
)
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.plans.grid import GridLegend, GridTable
from labconsole.tui.screens.plans.plan_details import PlanDetails
from labconsole.tui.screens.plans.plans_table import PlanNotes, PlansTable, StoreWatch, TelemetryToggle
from labconsole.tui.screens.plans.searches_table import SearchesTable, make_room

RESCAN_S = 2.0
SCAN = "plan-files"


class PlansScreen(ConsoleScreen):
    """Files on the left, the grid of the one under the cursor on the right."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "r",
            "run",
            "Run",
            "Run the plan: measure what is not in the store yet.",
            id="plan-run",
            changes=True,
            title="Run the plan",
        ),
        Action(
            "p",
            "hold",
            "Pause plan",
            "Pause the plan after the current trial, or resume it. The lease is kept.",
            id="plan-pause",
            changes=True,
            title="Pause or resume the plan",
        ),
        abort_action("plan-abort", "Abort the plan, after asking. Run it again to resume.", "Abort the plan"),
        Action(
            "f",
            "failing",
            "Next doubtful",
            "Go to the next trial that is not simply valid, or was repeated.",
            id="plan-failing",
            title="Next doubtful trial",
        ),
        Action(
            "s",
            "save",
            "Save session",
            "Save what was measured in this session as a plan file.",
            id="plan-save",
            title="Save this session as a plan",
        ),
        Action(
            "n",
            "note",
            "Note",
            "Write a note on the plan on this testbed; leave it empty to remove it.",
            id="plan-note",
            changes=True,
            title="Write a note on the plan",
        ),
        Action(
            "t",
            "telemetry",
            "Telemetry",
            "Show the plan's trials for telemetry, or its own again: each point once more, in a trial that enters "
            "no mean but shows the unit under test's processor time per packet, and why packets were dropped.",
            id="plan-telemetry",
            title="Trials for telemetry, or the plan's own",
        ),
        Action(
            "l",
            "rescan",
            "Reload",
            "Read plan files and the store again.",
            id="plan-reload",
            title="Reload plans",
            shown=False,
        ),
        back_to_bench_action("plan"),
        PAUSE,
    )
    AUTO_FOCUS = "#plans"

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._entries: dict[Path, PlanEntry] = {}
        self._executions: dict[Path, PlanExecution] = {}
        self._notes = PlanNotes(session)
        self._shown = TelemetryToggle()
        self._watch = StoreWatch(session.store)
        self._old: set[Path] = set()
        """Plans of which the store may have more by now."""
        self._painted: tuple[object, ...] = ()
        self._complaint = ""

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield self.measuring_line()
        with Container(id="plans-area"):
            with Container(id="plans-left"):
                yield PlansTable()
                with VerticalScroll(id="plan-box", can_focus=True) as box:
                    box.border_title = "Plan"
                    yield PlanDetails(self.session.inventory, self.session.boots_s)
            with Container(id="plans-right"):
                yield GridTable()
                yield SearchesTable()
                yield StepPane(id="plan-step")
                yield GridLegend(id="grid-legend")
        yield EventLines(self.state)
        yield KeyBar()

    def begin(self) -> None:
        self.set_interval(RESCAN_S, self._rescan_if_visible)
        self.rescan()

    def come_to_front(self) -> None:
        self._watch.hurry()
        self.rescan()

    # Files

    def _rescan_if_visible(self) -> None:
        if self.is_in_view and not any(each.group == SCAN and each.is_running for each in self.workers):
            self.rescan()

    def action_rescan(self) -> None:
        self._notes.forget()
        self._old.update(self._executions)
        self.rescan()

    def _in_use(self, execution: PlanExecution) -> bool:
        """Whether it runs, or was just requested to."""
        return execution.running or (self.state.requested and execution is self.state.execution)

    @work(exclusive=True, group=SCAN)
    async def rescan(self) -> None:
        """Read the directory, and query the store about new or changed plans, or all once the store has changed."""
        begun_s = clock.monotonic_s()
        try:
            if not self.state.requested and await self._watch.moved():
                self._old = set(self._executions)
            also = self.session.check_background
            found = await asyncio.to_thread(plan_files.scan, self.session.inventory, self._entries, also)
        except LabError as exc:
            self._complain(str(exc))
            return
        changed = [e for e in found if e.plan is not None and self._needs_rescan(e)]
        self._entries = {entry.path: entry for entry in found}
        for path in [p for p, c in self._executions.items() if p not in self._entries and not self._in_use(c)]:
            del self._executions[path]
        for entry in changed:
            plan = self._shown.of(entry)
            assert plan is not None
            execution = self.session.execution(plan)
            try:
                await execution.look()
            except LabError as exc:
                self._complain(str(exc))
                break
            self._notes.forget(entry.path)
            if self._needs_rescan(entry):  # again: it may have been started during the query
                self._executions[entry.path] = execution
            self._old.discard(entry.path)
        else:
            if changed:
                self._watch.looked(clock.monotonic_s() - begun_s)
            await self._notes.read(found)
            self._complaint = ""
        self._painted = ()
        self._paint_plans()

    def _needs_rescan(self, entry: PlanEntry) -> bool:
        execution = self._executions.get(entry.path)
        if execution is not None and entry.path in self._old:
            return not self._in_use(execution)
        # A running plan is shown as it was when it began, whatever happens to its file.
        return execution is None or (execution.plan != self._shown.of(entry) and not self._in_use(execution))

    def _complain(self, sentence: str) -> None:
        """Report a problem once, not at every look."""
        if sentence != self._complaint:
            self._complaint = sentence
            self.console_app.tell(sentence, "error")

    def show_runs(self, runs: Sequence[RunSummary]) -> None:
        """Query the plans again: runs were saved. A running plan reports its own."""
        if self.state.execution is None or not self._in_use(self.state.execution):
            self._old.update(p for p, c in self._executions.items() if c.status is ExecutionStatus.READY)
            self.rescan()

    # Painting

    @property
    def _chosen(self) -> tuple[PlanEntry | None, PlanExecution | None]:
        entry = self.query_one(PlansTable).chosen
        return entry, self._executions.get(entry.path) if entry is not None and entry.plan is not None else None

    def paint_clock(self) -> None:
        self._paint_plans()

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()

    def _paint_plans(self) -> None:
        """Paint if a trial or a status changed, and once a second while the time left runs down."""
        if not self.is_up:
            return
        running = self.state.execution
        second = int(clock.monotonic_s()) if running is not None and running.running else 0
        seen = (second, *(execution.revision for execution in self._executions.values()))
        if seen == self._painted:
            return
        self._painted = seen
        self.query_one(PlansTable).show(list(self._entries.values()), self._executions)
        self._show_chosen()

    @on(LineTable.Chosen, "#plans")
    def _show_chosen(self) -> None:
        execution = self._chosen[1]
        grid = self.query_one(GridTable)
        make_room(self.query_one("#plans-right"), execution.plan if execution is not None else None)
        grid.show(execution)
        self.query_one(SearchesTable).show(execution)
        self._show_search()
        self._show_trial()

    @on(LineTable.Chosen, "#searches")
    def _show_search(self) -> None:
        execution, seen = self._chosen[1], self.query_one(SearchesTable).seen
        title = seen.step.describe() if seen is not None else ""
        halted = execution is not None and execution.status in HALTED_STATUSES
        guests = execution is not None and execution.plan.guests is not None
        self.query_one(StepPane).show(seen, title, halted=halted, guests=guests)

    @on(SearchesTable.Opened)
    def open_search(self, event: SearchesTable.Opened) -> None:
        entry = self.query_one(PlansTable).chosen
        path = entry.path if entry is not None else Path()
        self.app.push_screen(
            StepScreen(self.console_app, lambda: StepSelection.of(self._executions.get(path)), event.index)
        )

    @on(LineTable.Chosen, "#grid")
    def _show_trial(self) -> None:
        entry, execution = self._chosen
        self.query_one(PlanDetails).show(entry, execution, self.query_one(GridTable).trial, self._notes.of(entry))

    # Running

    def action_run(self) -> None:
        if self.only_watches():
            return
        entry, execution = self._chosen
        if entry is not None and entry.needs:
            self.console_app.tell(f"{entry.name} is for another testbed: it needs {', '.join(entry.needs)}.", "warning")
            return
        if entry is None or entry.plan is None:
            self.console_app.tell("Choose a valid plan." if entry else "There is no plan to run.", "warning")
            return
        if self.state.requested or self.session.running:
            self.console_app.tell(f"A {self.state.what_runs} is running. Wait, or abort it.", "warning")
            return
        wanted = self._shown.of(entry) or entry.plan
        if execution is None or execution.status is not ExecutionStatus.READY or execution.plan != wanted:
            execution = self._executions[entry.path] = self.session.execution(wanted)
        self._start(entry.path, execution)

    def action_telemetry(self) -> None:
        """Switch between the plan's own trials and those for telemetry."""
        entry, execution = self._chosen
        complaint = self._shown.turn(entry, in_use=execution is not None and self._in_use(execution))
        if complaint:
            self.console_app.tell(complaint, "warning")
        else:
            self.rescan()

    def _start(self, path: Path, execution: PlanExecution, *, take_over: bool = False) -> None:
        self.state.execution = execution
        self.state.ask()
        # The app's and not this screen's worker: leaving waits for it, and it ends with the app.
        running = self._run(path, execution, take_over=take_over)
        self.app.run_worker(running, group="trial", name=f"plan {execution.plan.name}")
        self.query_one(GridTable).following = True
        self.set_focus(self.query_one(GridTable if execution.plan.grid else SearchesTable))

    async def _run(self, path: Path, execution: PlanExecution, *, take_over: bool) -> None:
        name, refusal = execution.plan.name, ""
        self.state.note(clock.wall_s(), f"plan {name} begins: {format_extent(execution.plan)}")
        try:
            outcome = await self.session.execute(execution, take_over=take_over)
        except LeaseHeld as exc:
            refusal = str(exc)
        except LabError as exc:
            self._over(PlanEnd(clock.wall_s(), "error", f"plan {name} failed: {exc}", failed=True))
        else:
            steps = outcome.steps
            lacking = outcome.doubtful or outcome.refused or steps.doubtful or steps.failed or steps.refused
            severity = "warning" if lacking or outcome.stopped or outcome.ended_by else "information"
            self._over(PlanEnd(clock.wall_s(), severity, f"plan {name}: {describe_ending(execution.plan, outcome)}"))
        finally:
            self.state.run_ended()
            self._watch.forget()
            self._old.update(p for p, c in self._executions.items() if c.status is ExecutionStatus.READY)
        if refusal:
            self._ask_take_over(path, execution, refusal)

    def _over(self, over: PlanEnd) -> None:
        self.console_app.plan_over(over)
        if self.is_in_view and not over.failed:  # shown here anyway: a toast would cover it
            self.state.note(over.at_wall_s, over.text, over.severity)
        else:
            self.console_app.tell(over.text, over.severity)

    @work(group="ask", exclusive=True)
    async def _ask_take_over(self, path: Path, execution: PlanExecution, refusal: str) -> None:
        """Ask before taking the testbed from another operator, and name them. Takes it only on a yes."""
        self.state.note(clock.wall_s(), refusal, "warning")
        if await self.app.push_screen_wait(take_over_question(refusal)) and not (
            self.state.requested or self.session.running
        ):
            again = self._executions[path] = self.session.execution(execution.plan)
            self._start(path, again, take_over=True)

    def action_hold(self) -> None:
        if self.only_watches():
            return
        execution = self.state.execution
        if execution is None or not execution.running:
            self.console_app.tell("No plan is running.")
        elif execution.status in (ExecutionStatus.PAUSED, ExecutionStatus.PAUSING):
            execution.resume()
            self.state.note(clock.wall_s(), f"plan {execution.plan.name} resumes")
        else:
            execution.pause()
            self.state.note(clock.wall_s(), f"plan {execution.plan.name} pauses after this trial; the testbed is kept")

    @work(group="ask", exclusive=True)
    async def action_abort(self) -> None:
        execution = self.state.execution
        if execution is None or not execution.running:
            self.console_app.ask_abort()
            return
        question = Confirm(
            f"Abort plan {execution.plan.name}?",
            f"Traffic stops. {self.state.kept_trials_text} Run it again to go on from here.",
        )
        if await self.app.push_screen_wait(question) and execution.running:
            self.state.stopping = True
            self.state.revision += 1
            await execution.abort()

    def action_note(self) -> None:
        """Ask for the note on the plan under the cursor."""
        if self.only_watches():
            return
        entry, _ = self._chosen
        if entry is None or entry.plan is None:
            self.console_app.tell("Choose a valid plan to write a note on.", "warning")
            return
        note = self._notes.of(entry)
        explanation = "Leave it empty to remove the note."
        take = partial(self._take_note, entry.path, entry.plan)
        self.app.push_screen(AskText(f"Note on plan {entry.plan.name}", (note and note.text) or "", explanation, take))

    async def _take_note(self, path: Path, plan: Plan, text: str) -> str:
        try:
            await self._notes.write(path, plan, text)
        except LabError as exc:
            return str(exc)
        self._show_chosen()
        self.console_app.tell(f"{'noted on' if text.strip() else 'note removed from'} plan {plan.name}")
        return ""

    def action_failing(self) -> None:
        """Go to the next failing trial after the cursor, from the top again after the last."""
        _, execution = self._chosen
        failing = [trial for trial, _ in execution.grid.failing()] if execution is not None else []
        if not failing:
            self.console_app.tell("No trial of this plan is suspect, invalid or repeated, or ended without a run.")
            return
        grid = self.query_one(GridTable)
        here = grid.trial or (-1, 0)
        self.set_focus(grid)
        grid.following = False
        grid.move_to_trial(next((trial for trial in failing if trial > here), failing[0]))

    @on(GridTable.Opened)
    def open_run(self, event: GridTable.Opened) -> None:
        self.state.wanted_run = event.run_id
        self.console_app.navigation.push_mode("runs")

    def lines_to_copy(self) -> list[str]:
        cell = self.query_one(GridTable).cell
        return [cell.run_id] if cell is not None and cell.run_id is not None else []

    # From a session to a plan

    def action_save(self) -> None:
        ask_and_save_session(self.console_app, self.session, self.app.push_screen, self.rescan)
