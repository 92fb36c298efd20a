"""A plan as text: its contents, duration and progress, and the trial under the cursor."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping

from labconsole.engine.execution.blocks import describe_background, format_block
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ENDED, Cell, ExecutionStatus, TrialState
from labconsole.model.inventory import Inventory
from labconsole.model.plan.estimate import largest_capture_bytes
from labconsole.model.plan.order import PILOT
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.points import distinct
from labconsole.model.record.annotations import RunNote
from labconsole.text.cells import fit_wording, format_duration, format_rounded
from labconsole.tui.console.plan_text import format_repeats
from labconsole.tui.parts.lines import LABEL_CELLS, Lines, Span, field, whole_field
from labconsole.tui.parts.plan_files import PlanEntry
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.screens.plans.grid import LOOKS, choose_look
from labconsole.tui.screens.plans.plans_table import STATUS_LOOKS, count_planned, count_taken
from labconsole.tui.screens.plans.searches_table import describe_running_step, describe_steps
from labconsole.units import counted, format_target

FAILING_SHOWN = 8


def megabytes(size_bytes: int) -> str:
    """Format a size in megabytes."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


class PlanDetails(Lines):
    """``show`` takes the file under the cursor, its execution and the trial chosen in the grid."""

    def __init__(self, inventory: Inventory, boots_s: Mapping[str, float]) -> None:
        super().__init__(id="plan-details")
        self._inventory, self._boots_s = inventory, boots_s
        self._entry: PlanEntry | None = None
        self._execution: PlanExecution | None = None
        self._trial: tuple[int, int] | None = None
        self._note: RunNote | None = None
        self._capture_bytes: tuple[PlanEntry, int] | None = None

    def show(
        self,
        entry: PlanEntry | None,
        execution: PlanExecution | None,
        trial: tuple[int, int] | None,
        note: RunNote | None,
    ) -> None:
        """Show this plan."""
        self._entry, self._execution, self._trial, self._note = entry, execution, trial, note
        self.paint()

    def lines(self, width: int) -> list[list[Span]]:
        entry = self._entry
        if entry is None:
            text = (
                "A plan is a matrix of design points in a YAML file (docs/plans.md). Plans in the directory "
                "in which the console was started, and in plans/ there, are listed here. Press "
                "{plan-save} to save this session as a plan."
            )
            return [[(" " + line, "muted")] for line in textwrap.wrap(insert_keys(self, text), max(20, width - 2))]
        if entry.needs:
            return [
                *field("file", str(entry.path), width, "strong"),
                *field("state", "⊘ not here: it is for another testbed", width),
                *field("needs", "; ".join(entry.needs), width, "strong", rows=8),
                *field("", entry.problem.rpartition("; ")[2], width, "muted", rows=4),
            ]
        if entry.plan is None:
            return [
                *field("file", str(entry.path), width, "strong"),
                *(
                    line
                    for number, text in enumerate(entry.problem.splitlines())
                    for line in field("" if number else "error", text, width, "bad", rows=8)
                ),
                *field("", "Correct the file; the console reads it again.", width, "muted"),
            ]
        execution = self._execution
        rows = self._progress(execution, width) if execution is not None and execution.status is not _READY else []
        if execution is not None and self._trial is not None:
            rows += self._cell(execution, self._trial, width)
        if execution is not None:
            rows += self._failing(execution, width)
        return rows + self._plan(entry, execution, width)

    def _plan(self, entry: PlanEntry, execution: PlanExecution | None, width: int) -> list[list[Span]]:
        plan = entry.plan if execution is None else execution.plan
        assert plan is not None
        if self._capture_bytes is None or self._capture_bytes[0] is not entry:
            self._capture_bytes = (entry, largest_capture_bytes({p.request for p in plan.points}, self._inventory))
        kind = "listed" if plan.listed else "a full matrix"
        uneven = any(plan.repetitions_of(point.index) != plan.repetitions for point in plan.points)
        times = ("up to " if uneven else "") + (
            f"{plan.repetitions} times each" if plan.repetitions > 1 else "once each"
        )
        if plan.set_ups is not None:
            times += f" in {plan.set_ups} block{'s' if plan.set_ups > 1 else ''}"
            times += f", {format_rounded(len(plan.pilot))} in the pilot" if plan.pilot else ""
        durations = {point.request.duration_s for point in plan.points[:1000]}
        longest = f"{plan.duration_s:g} s" if len(durations) == 1 else f"up to {plan.duration_s:g} s"
        rows = field("plan", f"{plan.name}, {entry.path}", width, "strong")
        if self._note is not None and self._note.text is not None:
            rows += field("note", self._note.text, width, "accent")
            rows += field("", f"{self._note.author}, {self._note.written_at[:19]}Z", width, "muted")
        if plan.role == "telemetry":
            text = "each point once more, in a trial that enters no mean; press {plan-telemetry} for the plan's own"
            rows += field("telemetry", insert_keys(self, text), width, "accent")
        if plan.grid:
            rows += field(
                "asks for",
                f"{counted(len(plan.points), 'point')} ({kind}), {times}: {counted(plan.trials, 'trial')} of {longest}",
                width,
            )
        for label, text, tone in describe_steps(plan, execution):
            rows += field(label, text, width, tone)
        rows += field("platforms", ", ".join(plan.platforms), width)
        if plan.guests is None:
            sizes = ", ".join(str(size) for size in distinct(frame.bytes for frame in plan.frames))
            rows += field("sizes", f"{sizes} B", width, "muted")
        if plan.grid:
            rows += field("targets", ", ".join(format_target(target) for target in plan.targets_bps), width, "muted")
        if plan.guests is None:
            rows += field("sources", ", ".join(str(number) for number in plan.sources), width, "muted")
        if plan.backgrounds != ("none",):
            rows += field("2nd guest", ", ".join(plan.backgrounds), width, "muted")
        for number, rule in enumerate(plan.rules):
            rows += field("but" if number == 0 else "", rule, width, "muted")
        rows += field("order", f"{plan.order}, seed {plan.seed}", width, "muted")
        if plan.margin_ratio is not None:
            rows += field(
                "margin", f"{plan.margin_ratio * 100:.12g} %: smaller differences do not matter", width, "muted"
            )
        if plan.claims is not None:
            rows += field("claims", ", ".join(plan.claims), width, "muted")
        rows += self._format_execution_options(plan, width)
        if execution is not None and execution.refusal is not None and execution.status is _READY:
            rows += field("cannot", str(execution.refusal), width, "bad", rows=6)
        for number, need in enumerate(execution.dependencies if execution is not None else ()):
            rows += field("needs" if number == 0 else "", need.words, width, "warn" if need.missing else "muted")
        if plan.grid and execution is not None and execution.estimate is not None and execution.status is _READY:
            stored, time = execution.outcome.skipped, execution.estimate
            if stored:
                rows += field("stored", f"{counted(stored, 'trial')}, will not be repeated", width, "good")
            text = (
                f"{format_duration(time.total_s)} for {counted(time.trials, 'trial')}"
                if time.trials
                else "nothing left to do"
            )
            rows += field("takes", text, width, "strong")
        if plan.guests is None:
            disk = f"up to {megabytes(self._capture_bytes[1])} on a sink while a trial runs"
            rows += field("disk", disk, width, "muted")
        return rows

    @staticmethod
    def _format_execution_options(plan: Plan, width: int) -> list[list[Span]]:
        """Work besides measuring the points. Commands are shown in full, because they run on this machine."""
        rows: list[list[Span]] = []
        if plan.warm_up is not None:
            rows += field("warm-up", "one trial after every set-up, not saved", width, "muted")
        stop = plan.stop.model_dump(exclude_none=True)
        if stop:
            text = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in stop.items())
            rows += field("stops", text, width, "muted")
        for key in ("pre", "post"):
            for command in getattr(plan, key):
                rows += whole_field(key, f"{shlex.join(command.run)} (at most {command.timeout_s:g} s)", width, "warn")
        return rows

    def _progress(self, execution: PlanExecution, width: int) -> list[list[Span]]:
        glyph, tone = STATUS_LOOKS[execution.status]
        text = f"{glyph} {execution.status.value}"
        rows = field("state", text, width, tone)
        if execution.status is ExecutionStatus.PAUSING:
            rows += field("", "after the current trial", width, "muted")
        if execution.status is ExecutionStatus.PAUSED:
            rows += field(
                "", insert_keys(self, "lease and platform are kept; press {plan-abort} to release them"), width, "muted"
            )
        if execution.detail:
            rows += field("", execution.detail, width, "bad" if execution.status is ExecutionStatus.FAILED else "warn")
        if execution.current is not None:
            rows += self._where(execution.plan, execution.current, width)
        for label, text, step_tone in describe_running_step(execution):
            rows += field(label, text, width, step_tone)
        grid, total, done = execution.grid, count_planned(execution), count_taken(execution)
        cells = max(4, min(30, width - LABEL_CELLS - 20))
        filled = cells * done // max(1, total)
        rows.append(
            [
                (f" {'done':<{LABEL_CELLS}}", "head"),
                ("━" * filled, "accent"),
                ("─" * (cells - filled), "muted"),
                (f" {format_rounded(done)} of {format_rounded(total)}", "strong"),
            ]
        )
        spans: list[Span] = [(f" {'':<{LABEL_CELLS}}", "head")]
        for state in TALLIED:
            if grid.count(state):
                spans += [(LOOKS[state][0], LOOKS[state][1]), (f" {format_rounded(grid.count(state))}  ", "")]
        if execution.outcome.redone:
            spans.append((format_repeats(execution.outcome), "warn"))
        rows += [spans] if execution.plan.grid else []
        rate = execution.trials_per_s
        if rate is not None:
            rows += field("rate", f"{rate * 60:.1f} trials a minute", width)
        left_s = execution.left_s
        if left_s is not None:
            rows += field("left", f"about {format_duration(left_s)}", width, "strong")
        elif execution.status in ENDED:
            rows += field("took", format_duration(execution.spent_s), width)
        return [*rows, []]

    @staticmethod
    def _where(plan: Plan, trial: tuple[int, int], width: int) -> list[list[Span]]:
        """The set-up under way, for a plan in blocks."""
        block, _ = plan.place_of(trial)
        if block is None:
            return []
        request = plan.every_point[trial[0]].request
        text = f"{format_block(block, plan.set_ups)}: {request.platform} {describe_background(request.background)}"
        return field("now", text, width, "strong")

    def _cell(self, execution: PlanExecution, trial: tuple[int, int], width: int) -> list[list[Span]]:
        cell = execution.grid[trial]
        if cell.state is TrialState.PENDING and not cell.why:
            return []
        glyph, tone = choose_look(cell)
        text = f"{glyph} point {trial[0]}, {format_place(execution.plan, trial)}: {cell.state.value}"
        rows = field("trial", text + (f", {cell.verdict}" if cell.state is TrialState.STORED else ""), width, tone)
        if cell.redone:
            rows += field("", f"taken {cell.redone + 1} times", width, "warn")
        for why in cell.why[:4]:
            rows += field("", why, width, tone if cell.state is not TrialState.PENDING else "warn")
        if cell.run_id is not None:
            rows += field("run", f"{cell.run_id}  (enter opens it)", width, "muted", rows=2)
        return [*rows, []]

    def _failing(self, execution: PlanExecution, width: int) -> list[list[Span]]:
        failing = execution.grid.failing()
        if not failing:
            return []
        kinds = Counter(_kind(cell) for _, cell in failing)
        text = ", ".join(f"{format_rounded(kinds[kind])} {kind}" for kind in KINDS if kinds[kind])
        noun = "trial" if len(failing) == 1 else "trials"
        rows = [[(f" {format_rounded(len(failing))} doubtful {noun}", "warn"), (insert_keys(self, NEXT), "muted")]]
        rows += [[(f"   {row}", "")] for row in textwrap.wrap(text, max(20, width - 4))]
        for trial, cell in failing[:FAILING_SHOWN]:
            glyph, tone = choose_look(cell)
            head = f"point {trial[0]}, {format_place(execution.plan, trial, 'rep.')}: "
            text = fit_wording((head + _why(cell), head + _why(cell, brief=True)), width - 4)
            rows.append([(f"  {glyph} ", tone), (text, "")])
        return [*rows, []]


def format_place(plan: Plan, trial: tuple[int, int], repetition_word: str = "repetition") -> str:
    """Format which of a point's trials: ``repetition 2``, ``pilot``, ``block 3``, ``block 3, repetition 2``."""
    block, repetition = plan.place_of(trial)
    if block == PILOT:
        return "pilot"
    own = f"{repetition_word} {repetition}"
    if block is None:
        return own
    return f"block {block}, {own}" if plan.repetitions_of(trial[0]) > 1 else f"block {block}"


NEXT = "   press {plan-failing} for the next"
_KINDS = {
    TrialState.VALID: "valid when repeated",
    TrialState.RUNNING: "being repeated",
    TrialState.PENDING: "without a run",
}
KINDS = ("suspect", "invalid", *_KINDS.values(), "left out")
_READY = ExecutionStatus.READY
TALLIED = (
    TrialState.STORED,
    TrialState.VALID,
    TrialState.SUSPECT,
    TrialState.INVALID,
    TrialState.LEFT_OUT,
    TrialState.PENDING,
)


def _kind(cell: Cell) -> str:
    """The kind of a doubtful trial: each has one."""
    if cell.state is TrialState.STORED:
        return cell.verdict or cell.state.value
    return _KINDS.get(cell.state, cell.state.value)


def _why(cell: Cell, *, brief: bool = False) -> str:
    """The reasons of a trial's state. ``brief``: only the titles of a verdict's reasons."""
    judged = cell.state in (TrialState.SUSPECT, TrialState.INVALID)
    reasons = [why.partition(": ")[0] for why in cell.why] if brief and judged else cell.why
    again = f"repeated {cell.redone} times" if cell.redone > 1 else "repeated once" if cell.redone else ""
    return "; ".join([*reasons, *([again] if again else [])])
