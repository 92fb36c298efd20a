"""A replay: measures the missing trials of its plans, one plan after the other, and runs a command at its end."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, Final

from labconsole.api.metrics import PlanMetrics, served
from labconsole.api.plan_files import exclusive_replay, refuse_twice
from labconsole.api.testbed import load_testbed, open_session
from labconsole.cli.commands.replay.dry_run import dry_run_trials
from labconsole.cli.commands.replay.plan_selection import apply_options, parse_points
from labconsole.cli.options import hosts_path
from labconsole.cli.output import print_error, print_lines
from labconsole.cli.session_runner import build_narrator, find_dry_run_store, run_session
from labconsole.cli.steps import describe_ending, find_narrator
from labconsole.cli.text.replay import ReplayScreen, outcome_json, utc_timestamp
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, Outcome, Progress, StepProgress
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, ConfigError, LabError
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord
from labconsole.model.yaml_file import locate_errors
from labconsole.store.writing import RunStore

# -- a command at the end ----------------------------------------------------------------------------------------------
# Runs a user's command when a replay ends: words without a shell, with the outcome as JSON on its input.

NOTIFY_OPTION: Final = "--notify"
LONGEST_S: Final = 60.0
_OUTPUT_CHARACTERS: Final = 200


def parse_notify_command(command: str | None) -> tuple[str, ...] | None:
    """Split the command into words. Raises ConfigError, before anything is measured, if it could not be run."""
    if command is None:
        return None
    try:
        arguments = tuple(shlex.split(command))
    except ValueError as exc:
        raise ConfigError(f"cannot be split into words: {exc}", key=NOTIFY_OPTION, value=command) from None
    if not arguments or shutil.which(arguments[0]) is None:
        raise ConfigError("no such program", key=NOTIFY_OPTION, value=arguments[0] if arguments else command)
    return arguments


def notify(command: Sequence[str], outcome: Mapping[str, Any]) -> None:
    """Run the command and wait for a minute at most. Its errors are reported and have no other effect. Blocking."""
    try:
        done = subprocess.run(
            command,
            input=json.dumps(outcome) + "\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        print_error(f"{NOTIFY_OPTION}: {command[0]} did not end within {LONGEST_S:g} s, and was ended")
        return
    except OSError as exc:
        print_error(f"{NOTIFY_OPTION}: {command[0]} cannot be run: {exc.strerror or exc}")
        return
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        why = f": {said[-1][:_OUTPUT_CHARACTERS]}" if said else ""
        print_error(f"{NOTIFY_OPTION}: {command[0]} ended with status {done.returncode}{why}")


# -- the replay --------------------------------------------------------------------------------------------------------


def replay(args: argparse.Namespace) -> int:
    """Measure the missing trials of every named plan, one plan after the other, under one lease."""
    with ExitStack() as opened:
        place, write = find_dry_run_store(opened, args.store) if args.dry_run else (args.store, True)
        return _replay_into(args, place, write=write)


def _replay_into(args: argparse.Namespace, place: str | None, *, write: bool) -> int:
    inventory, store = load_testbed(hosts_path(args.hosts), place, write=write)
    session = open_session(inventory, store)
    read = [load_plan(path, inventory, also=session.check_background, only=args.platforms) for path in args.plan]
    plans = [apply_options(plan, args) for plan in read]
    refuse_twice(args.plan, plans)
    chosen = [parse_points(plan, args) for plan in plans]
    if args.platforms and not any(points for points in chosen):
        known = list(dict.fromkeys(name for plan in plans for name in plan.platforms))
        raise ConfigError(
            "names no platform of the plan", key="--platforms", value=",".join(args.platforms), allowed=", ".join(known)
        )
    for path, plan, only in zip(args.plan, plans, chosen, strict=True):
        for experiment in session.experiments:
            with locate_errors(Path(path)):
                experiment.refuse(experiment.steps(plan, only), plan, inventory, session.stage)
    if args.dry_run:
        for plan, only in zip(plans, chosen, strict=True):
            dry_run_trials(plan, only, session, as_json=args.json)
            if (narrator := find_narrator(plan, as_json=args.json)) is not None:
                narrator.dry_run(plan, only, session, retake=args.retake and plan.guests is not None)
        return 0
    if args.platforms and not args.json and any(plan.set_ups is not None for plan in plans):
        print_lines(
            f"only {', '.join(args.platforms)}: the report compares these with other platforms by blocks that are "
            "measured in one go, and in the order that the plan draws"
        )
    with exclusive_replay(store, inventory, plans):
        return _replay(args, session, plans, chosen)


def _replay(
    args: argparse.Namespace,
    session: Testbed[RunStore],
    plans: Sequence[Plan],
    chosen: Sequence[frozenset[int] | None],
) -> int:
    needed: list[str] = []
    for plan, only in zip(plans, chosen, strict=True):
        for point in plan.points:
            if only is None or point.index in only:
                needed += session.nodes_of(point.request)
    screen = ReplayScreen(plans, as_json=args.json)

    def tell_step(progress: StepProgress) -> None:
        screen.leave_grid(progress.plan)
        if (narrator := find_narrator(progress.plan, as_json=args.json)) is not None:
            narrator.narrate(progress)

    metrics = PlanMetrics()

    def tell(progress: Progress) -> None:
        screen.update(progress)
        metrics.seen(progress)

    executions = [
        PlanExecution(plan, session, tell, on_step=tell_step, only=only, retake=args.retake)
        for plan, only in zip(plans, chosen, strict=True)
    ]
    runner = PlanRunner(executions, session, take_over=args.take_over)

    async def work(session: Testbed[RunStore]) -> int:
        problem: LabError | None = None
        try:
            with screen.over(executions):
                await runner.run()
        except LabError as exc:
            if not any(each.first_refusal is exc or each.spent_s > 0 for each in executions):
                raise
            problem = (
                exc  # nothing of a plan could be measured, or it could not go on: reported like every end, then raised
            )
        status = 0
        for execution in executions:
            outcome = execution.outcome
            if execution.plan.grid:
                status = max(status, _tell(screen, execution, outcome, as_json=args.json))
            narrator = find_narrator(execution.plan, as_json=args.json)
            begun = execution.plan.guests is not None or outcome.steps.cut or not outcome.cut_short
            if narrator is not None and begun:
                status = max(status, narrator.narrate_outcome(execution.plan, outcome))
        if problem is not None:
            raise problem
        stopped = any(execution.outcome.stopped for execution in executions)
        return max(status, Aborted.exit_code) if stopped else status

    nodes = list(dict.fromkeys(needed)) or [session.inventory.uut]
    notifier = _EndNotifier(executions, session.inventory.testbed, parse_notify_command(args.notify))
    try:
        with nullcontext() if args.metrics is None else served(args.metrics, "--metrics", metrics):
            status = run_session(session, nodes, work, [build_narrator(args, quiet=True)], finish=runner.finish)
    except BaseException as exc:
        status = exc.exit_code if isinstance(exc, LabError) else Aborted.exit_code
        notifier.ended(status, problem=str(exc) or type(exc).__name__)
        raise
    notifier.ended(status)
    return status


class _EndNotifier:
    """Notifies the user of how the plans ended, if requested."""

    def __init__(self, executions: Sequence[PlanExecution], testbed: str, command: Sequence[str] | None) -> None:
        self._executions, self._testbed, self._command = executions, testbed, command

    def ended(self, status: int, *, problem: str | None = None) -> None:
        if self._command is None:
            return
        through = [each.status is ExecutionStatus.DONE and each.outcome.complete for each in self._executions]
        plans = [
            outcome_json(each, 0 if done else status or 1) for each, done in zip(self._executions, through, strict=True)
        ]
        complete = status == 0 and all(through)
        notify(
            self._command,
            {
                "event": "replay_ended",
                "at": utc_timestamp(),
                "testbed": self._testbed,
                "complete": complete,
                "exit_status": status,
                "problem": problem,
                "plans": plans,
            },
        )


def _tell(screen: ReplayScreen, execution: PlanExecution, outcome: Outcome, *, as_json: bool) -> int:
    """Report how one plan ended and return its exit status."""
    stopped, ended_by = (False, "") if outcome.steps.cut else (outcome.cut_short, outcome.ended_by)
    early = Aborted.exit_code if outcome.problem is None else outcome.problem.exit_code
    status = early if stopped else 0 if outcome.grid_complete else 1
    if as_json:
        screen.finished(execution, status)
        return status
    counts = ", ".join(f"{count} {word}" for word, count in sorted(outcome.verdicts.items())) or "nothing to do"
    more = f", {outcome.left_out} left out" if outcome.left_out else ""
    more += f", {outcome.warm_ups} warm-ups discarded" if outcome.warm_ups else ""
    print_lines(
        f"{execution.plan.name}: {describe_ending(stopped, ended_by)}; {outcome.taken} measured ({counts}), "
        f"{outcome.skipped} stored before, {outcome.redone} redone{more}"
    )
    for why, trials in outcome.refused:
        print_lines(f"  not measured{f' ({trials} trials)' if trials else ''}: {why}")
    if outcome.to_retake:
        print_lines(f"  of an interrupted set-up: {outcome.to_retake} of the measured trials, which will be repeated")
    if outcome.broken_before:
        print_lines(
            f"  not counted: {outcome.broken_before} of the trials stored before, whose set-up was "
            "interrupted: it is measured again as a whole"
        )
    if outcome.invalid_before:
        print_lines(
            f"  {outcome.invalid_before} stored trials stayed invalid, and their set-ups are gone: raise set_ups"
        )
    for record in outcome.invalid:
        print_lines(f"  invalid: {_why(record)}")
    return status


def _why(record: RunRecord) -> str:
    return f"{record.run_id}: " + "; ".join(reason.detail for reason in record.verdict.reasons)
