"""The steps of other packages' kinds of experiment in a replay: how each goes and ended, and what would be taken."""

from __future__ import annotations

import sys

from labconsole.cli.output import json_line, plain_lines
from labconsole.cli.steps import Chosen, exit_status, how_ended, left_of
from labconsole.cli.text.replay import minutes, now
from labconsole.cli.text.runs import run_row
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.testbed import Testbed
from labconsole.experiments.kinds import OutsideExperiment
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore


def tell_outside(progress: StepProgress, *, as_json: bool) -> None:
    """A step begins, a trial of it has ended, or it has ended itself."""
    plan, record = progress.plan, progress.record
    head = {"at": now(), "plan": plan.name, "step_number": progress.number, "steps": progress.total}
    if progress.last is not None:
        if as_json:
            json_line({"event": "step_trial", **head, "run": progress.last.to_json()})
        else:
            sys.stderr.write(run_row(progress.last) + "\n")
        return
    words = progress.step.describe()
    if record is not None:
        if as_json:
            ended = {"hash": progress.step.hash, "status": record.status, "failure": record.failure}
            json_line({"event": "step_finished", **head, "step": words, **ended})
        else:
            found = progress.step.picture(record).found
            plain_lines(f"{words}: {'; '.join(found) if record.failure is None else record.failure}")
    elif progress.warm_up:
        if not as_json:
            request = progress.step.request
            sys.stderr.write(f"warm-up of {request.platform}, background {request.background}: thrown away\n")
    elif as_json:
        json_line({"event": "step_started", **head, "step": words})
    else:
        sys.stderr.write(f"{plan.name}: step {progress.number} of {progress.total}: {words}\n")


def tell_all_outside(plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    """How a plan's steps of this kind ended, and its exit status."""
    steps, status = outcome.steps, exit_status(outcome)
    if as_json:
        ended = {"made": len(steps.made), "failed": len(steps.failed), "skipped": steps.skipped}
        more = {"refused": steps.refused, "stopped": outcome.cut_short, "ended_by": outcome.ended_by or None}
        json_line({"event": "steps_finished", "at": now(), "plan": plan.name, **ended, **more, "exit_status": status})
        return status
    unfinished = f", {len(steps.failed)} of them not to their end" if steps.failed else ""
    plain_lines(
        f"{plan.name}: steps {how_ended(outcome)}; {len(steps.made)} made{unfinished} by {steps.trials} trials, "
        f"{steps.skipped} stored before"
    )
    for why in steps.refused:
        plain_lines(f"  not taken: {why}")
    return status


def outside_dry_run(plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool) -> None:
    """What would be taken, and how long that takes on units that behave."""
    if not plan.experiments:
        return
    for experiment in session.experiments:
        if not isinstance(experiment, OutsideExperiment):
            continue
        left = left_of(experiment, plan, only, session)
        for step in left.steps:
            words = step.describe()
            if as_json:
                json_line({"event": "step", "plan": plan.name, "hash": step.hash, "step": words})
            else:
                plain_lines(words)
        if left.asked and not as_json:
            plain_lines(
                f"{plan.name}: {len(left.steps)} of {left.asked} steps to take ({left.stored} stored already), "
                f"{left.reckoned.trials} trials or more, about {minutes(left.reckoned.total_s)}"
            )
