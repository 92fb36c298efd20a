"""Steps of other packages' experiments in a replay: their progress and outcome, and a dry run."""

from __future__ import annotations

from labconsole.cli.output import print_json_line, print_lines, print_progress
from labconsole.cli.remaining_steps import Chosen, describe_ending, exit_status, find_remaining_steps
from labconsole.cli.text.replay import format_h_mm_ss, utc_timestamp
from labconsole.cli.text.runs import run_row
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.testbed import Testbed
from labconsole.experiments.kinds import PluginExperiment
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore


def narrate_plugin_step(progress: StepProgress, *, as_json: bool) -> None:
    """Report that a step begins, that one of its trials has ended, or that it has ended."""
    plan, record = progress.plan, progress.record
    head = {"at": utc_timestamp(), "plan": plan.name, "step_number": progress.number, "steps": progress.total}
    if progress.last is not None:
        if as_json:
            print_json_line({"event": "step_trial", **head, "run": progress.last.to_json()})
        else:
            print_progress(run_row(progress.last))
        return
    description = progress.step.describe()
    if record is not None:
        if as_json:
            ended = {"hash": progress.step.hash, "status": record.status, "failure": record.failure}
            print_json_line({"event": "step_finished", **head, "step": description, **ended})
        else:
            found = progress.step.picture(record).found
            print_lines(f"{description}: {'; '.join(found) if record.failure is None else record.failure}")
    elif progress.warm_up:
        if not as_json:
            request = progress.step.request
            print_progress(f"warm-up of {request.platform}, background {request.background}: thrown away")
    elif as_json:
        print_json_line({"event": "step_started", **head, "step": description})
    else:
        print_progress(f"{plan.name}: step {progress.number} of {progress.total}: {description}")


def narrate_plugin_outcome(plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    """Report how a plan's steps of this kind ended and return its exit status."""
    steps, status = outcome.steps, exit_status(outcome)
    if as_json:
        ended = {"made": len(steps.made), "failed": len(steps.failed), "skipped": steps.skipped}
        more = {"refused": steps.refused, "stopped": outcome.cut_short, "ended_by": outcome.ended_by or None}
        print_json_line(
            {
                "event": "steps_finished",
                "at": utc_timestamp(),
                "plan": plan.name,
                **ended,
                **more,
                "exit_status": status,
            }
        )
        return status
    unfinished = f", {len(steps.failed)} of them not to their end" if steps.failed else ""
    print_lines(
        f"{plan.name}: steps {describe_ending(outcome)}; {len(steps.made)} made{unfinished} by {steps.trials} trials, "
        f"{steps.skipped} stored before"
    )
    for why in steps.refused:
        print_lines(f"  not taken: {why}")
    return status


def dry_run_plugin_steps(plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool) -> None:
    """Print the steps that would run, and their duration on well-behaved units."""
    if not plan.experiments:
        return
    for experiment in session.experiments:
        if not isinstance(experiment, PluginExperiment):
            continue
        left = find_remaining_steps(experiment, plan, only, session)
        for step in left.steps:
            description = step.describe()
            if as_json:
                print_json_line({"event": "step", "plan": plan.name, "hash": step.hash, "step": description})
            else:
                print_lines(description)
        if left.asked and not as_json:
            print_lines(
                f"{plan.name}: {len(left.steps)} of {left.asked} steps to take ({left.stored} stored already), "
                f"{left.reckoned.trials} trials or more, about {format_h_mm_ss(left.reckoned.total_s)}"
            )
