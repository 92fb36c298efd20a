"""Progress of a replay: a rich bar with rate and remaining time for people, JSON lines for machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from labconsole.cli.output import print_json_line
from labconsole.cli.text.runs import run_row
from labconsole.engine.execution.blocks import describe_background, format_block
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Progress
from labconsole.model.plan.plan import Plan
from labconsole.text.sanitize import single_line, unwrap_stream


class ReplayScreen:
    """``update`` at both ends of every trial; a context that shows the bar."""

    def __init__(self, plans: Sequence[Plan], *, as_json: bool) -> None:
        self._plans, self._as_json = list(plans), as_json
        self._executions: Sequence[PlanExecution] = ()
        self._begun: list[Plan] = []
        self._above: object = None
        self._shown = False
        if not as_json:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._console = Console(file=unwrap_stream(sys.stderr))
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=self._console,
            )
            total = sum(plan.trials for plan in plans)
            self._task = self._bar.add_task(single_line(plans[0].name), total=total, rate="", left="")

    @contextmanager
    def over(self, executions: Sequence[PlanExecution]) -> Iterator[None]:
        """Show the bar while these run."""
        self._executions = executions
        if any(execution.plan.grid for execution in executions):
            self._show()
        try:
            yield
        finally:
            self._hide()

    def _show(self) -> None:
        if not self._as_json and not self._shown:
            self._shown = True
            self._bar.start()

    def leave_grid(self, plan: Plan) -> None:
        """Hide the bar until the next trial of a grid, as the plan's searches follow."""
        self._hide()
        if self._as_json and plan.grid:
            self._started(self._execution_of(plan))

    def _hide(self) -> None:
        if self._shown:
            self._shown = False
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Report that one trial begins (``last`` is None) or has ended."""
        if self._as_json:
            self._lines(progress)
            return
        self._show()
        name = progress.plan.name if len(self._plans) == 1 else f"{progress.plan.name} ({self._place(progress.plan)})"
        running = [execution.outcome for execution in self._executions]
        taken = sum(each.taken for each in running)
        done = taken + sum(each.skipped + each.left_out + sum(n for _, n in each.refused) for each in running)
        elapsed_s = self._bar.tasks[0].elapsed or 0
        rate = f"{taken / elapsed_s * 60:.1f} runs/min" if taken and elapsed_s else ""
        left_s = self._left_s(progress)
        left = f"{format_h_mm_ss(left_s)} left" if left_s is not None else ""
        self._bar.update(
            self._task, description=single_line(name), total=max(1, self._total()), completed=done, rate=rate, left=left
        )
        request = progress.point.request
        if progress.broke:
            self._above = None
            self._print(f"the set-up was interrupted ({progress.broke}); its runs are stored but will not be used")
            return
        above = (progress.plan, progress.block, request.platform, request.background)
        if progress.block is not None and above != self._above:
            self._above = above
            where = format_block(progress.block, progress.plan.set_ups)
            self._print(f"{where}: {request.platform} {describe_background(request.background)}")
        if progress.warm_up:
            self._print(f"warm-up of {request.platform}, background {request.background}: discarded")
        if progress.last is not None:
            self._print(run_row(progress.last))

    def _print(self, text: str) -> None:
        # Plain text: a record's words come from nodes and must not be read as markup.
        self._console.print(single_line(text), markup=False, highlight=False, soft_wrap=True)

    def _place(self, plan: Plan) -> str:
        return f"{self._plans.index(plan) + 1} of {len(self._plans)}"

    def _total(self) -> int:
        return sum(execution.total for execution in self._executions)

    def _left_s(self, progress: Progress) -> float | None:
        if progress.left_s is None:
            return None
        at = self._plans.index(progress.plan)
        later = [execution.left_s for execution in self._executions[at + 1 :]]
        return progress.left_s + sum(left or 0.0 for left in later)

    # For machines

    def _lines(self, progress: Progress) -> None:
        plan, request = progress.plan, progress.point.request
        self._started(self._execution_of(plan))
        place = {"point": progress.point.index, "repetition": progress.repetition, "block": progress.block}
        head = {"plan": plan.name, **place}
        if progress.broke:
            print_json_line({"event": "set_up_broke", "at": utc_timestamp(), **head, "why": progress.broke})
            return
        if progress.last is None:
            columns = request.columns()
            print_json_line(
                {
                    "event": "trial_started",
                    "at": utc_timestamp(),
                    **head,
                    "warm_up": progress.warm_up,
                    "requested": columns,
                }
            )
            return
        print_json_line(
            {
                "event": "trial_finished",
                "at": utc_timestamp(),
                **head,
                "status": progress.last.verdict.status,
                "attempt": progress.attempt,
                "redone": progress.redone,
                "done": progress.done + progress.skipped + progress.left_out,
                "total": progress.total,
                "left_s": progress.left_s,
                "run": progress.last.to_json(),
            }
        )

    def _execution_of(self, plan: Plan) -> PlanExecution:
        return next(each for each in self._executions if each.plan is plan)

    def _started(self, execution: PlanExecution) -> None:
        plan, outcome = execution.plan, execution.outcome
        if plan in self._begun:
            return
        self._begun.append(plan)
        print_json_line(
            {
                "event": "plan_started",
                "at": utc_timestamp(),
                "plan": plan.name,
                "hash": plan.hash(),
                "role": plan.role,
                "order": plan.order,
                "seed": plan.seed,
                "blocks": plan.set_ups,
                "points": len(plan.points),
                "trials": execution.total,
                "stored": outcome.skipped,
                "remaining": execution.total - outcome.skipped - outcome.left_out,
                "estimate_s": None if execution.estimate is None else execution.estimate.total_s,
            }
        )

    def finished(self, execution: PlanExecution, exit_status: int) -> None:
        """Report to machines how a plan ended."""
        self._started(execution)
        print_json_line({"event": "plan_finished", "at": utc_timestamp(), **outcome_json(execution, exit_status)})


def outcome_json(execution: PlanExecution, exit_status: int) -> dict[str, Any]:
    """How a plan ended, as an object."""
    outcome = execution.outcome
    return {
        "plan": execution.plan.name,
        "hash": execution.plan.hash(),
        "role": execution.plan.role,
        "taken": outcome.taken,
        "skipped": outcome.skipped,
        "left_out": outcome.left_out,
        "redone": outcome.redone,
        "warm_ups": outcome.warm_ups,
        "verdicts": dict(outcome.verdicts),
        "invalid": [record.run_id for record in outcome.invalid],
        "invalid_before": outcome.invalid_before,
        "broken_before": outcome.broken_before,
        "to_retake": outcome.to_retake,
        "refused": [{"why": why, "trials": trials} for why, trials in outcome.refused],
        "stopped": outcome.cut_short and not outcome.steps.cut,
        "ended_by": None if outcome.steps.cut else outcome.ended_by or None,
        "exit_status": exit_status,
    }


def utc_timestamp() -> str:
    """The current time in UTC, as in files."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def format_h_mm_ss(seconds: float) -> str:
    """Format h:mm:ss."""
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"


def format_size(size_bytes: int) -> str:
    """Format a size for people."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"
