"""Trials of guests: their progress and outcome, and a dry run, for people or machines."""

from __future__ import annotations

from typing import Any

from labconsole.cli.output import print_json_line, print_lines, print_progress
from labconsole.cli.remaining_steps import Chosen, describe_ending, exit_status, find_remaining_steps
from labconsole.cli.text.replay import format_h_mm_ss, utc_timestamp
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.testbed import Testbed
from labconsole.model.plan.guest_kind import GuestKind, guest_kinds
from labconsole.model.plan.plan import Plan
from labconsole.report.trial_text import trial_id, trial_lines
from labconsole.store.writing import RunStore


def narrate_trial(kind: GuestKind, progress: StepProgress, *, as_json: bool) -> None:
    """Report that a trial begins, has ended, or is repeated, by itself or with everything that its guests did."""
    plan, record = progress.plan, progress.record
    made: Any = record
    head = {
        "at": utc_timestamp(),
        "plan": plan.name,
        f"{kind.name}_number": progress.number,
        kind.plural: progress.total,
    }
    if isinstance(record, kind.record.record):
        if as_json:
            print_json_line({"event": f"{kind.name}_finished", **head, kind.name: made.to_json()})
        else:
            print_lines(*trial_lines(kind, made))
    elif progress.broke:
        if as_json:
            print_json_line({"event": "set_up_broke", **head, "why": progress.broke})
        else:
            print_progress(f"  the guests failed; all trials of this set-up will be repeated: {progress.broke}")
    elif progress.again:
        if as_json:
            print_json_line({"event": f"{kind.name}_taken_again", **head, "why": progress.again})
        else:
            print_progress(f"  invalid, so it will be repeated: {progress.again}")
    elif as_json:
        print_json_line({"event": f"{kind.name}_started", **head, "requested": progress.step.describe()})
    else:
        print_progress(f"{plan.name}: {kind.name} {progress.number} of {progress.total}: {progress.step.describe()}")


def narrate_trial_outcome(kind: GuestKind, plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    """Report how a plan's trials ended and return the exit status."""
    steps = outcome.steps
    failed: list[Any] = [record for record in steps.failed if isinstance(record, kind.record.record)]
    status = exit_status(outcome)
    if as_json:
        print_json_line(
            {
                "event": f"{kind.plural}_finished",
                "at": utc_timestamp(),
                "plan": plan.name,
                "taken": len(steps.made),
                "verdicts": steps.verdicts,
                "failed": [trial_id(kind, record) for record in failed],
                "skipped": steps.skipped,
                "to_retake": steps.to_retake,
                "refused": steps.refused,
                "stopped": outcome.cut_short,
                "ended_by": outcome.ended_by or None,
                "exit_status": status,
            }
        )
        return status
    counts = f" ({', '.join(f'{count} {word}' for word, count in steps.verdicts.items())})" if steps.verdicts else ""
    ended = f"{plan.name}: {kind.plural} {describe_ending(outcome)}"
    print_lines(f"{ended}; {len(steps.made)} measured{counts}, {steps.skipped} stored before")
    if steps.to_retake:
        print_lines(f"  of guests that failed: {steps.to_retake} of those measured, which will be repeated")
    if steps.doubtful:
        print_lines("  only valid ones enter a mean; --retake repeats the blocks of the others")
    for why in steps.refused:
        print_lines(f"  not measured: {why}")
    for record in failed:
        print_lines(f"  invalid: {trial_id(kind, record)} {kind.text.request(record)}: {record.failure}")
    return status


def dry_run_guest_trials(
    plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool, retake: bool = False, salt: str = ""
) -> None:
    """List the guest trials in their order, and their approximate duration."""
    if plan.guests is None:
        return
    kind = guest_kinds()[plan.guests.kind]
    left = find_remaining_steps(kind.experiment(session.store), plan, only, session, retake=retake, salt=salt)
    for wanted in left.steps:
        if as_json:
            print_json_line(
                {"event": kind.name, "plan": plan.name, "hash": wanted.hash, "requested": wanted.describe()}
            )
        else:
            print_lines(f"{kind.name} {wanted.describe()}")
    if as_json:
        counts = {
            kind.plural: left.asked,
            "stored": left.stored,
            "remaining": len(left.steps),
            "refused": list(left.refused),
        }
        print_json_line({"event": kind.plural, "plan": plan.name, **counts, "total_s": left.reckoned.total_s})
        return
    print_lines(
        f"{plan.name}: {len(left.steps)} of {left.asked} {kind.plural} to measure ({left.stored} already stored), "
        f"about {format_h_mm_ss(left.reckoned.total_s)} with the set-ups, {kind.assumed}"
    )
    print_lines(*(f"  cannot be measured: {why}" for why in left.refused))
