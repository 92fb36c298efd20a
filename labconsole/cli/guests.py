"""Trials of guests: how each trial went, how all of them ended, and what would be done, for people
or machines.
"""

from __future__ import annotations

import sys
from typing import Any

from labconsole.cli.output import json_line, plain_lines
from labconsole.cli.steps import Chosen, exit_status, how_ended, left_of
from labconsole.cli.text.of_guests import KindShown, kind_of
from labconsole.cli.text.replay import minutes, now
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.testbed import Testbed
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore


def tell_trial(kind: KindShown, progress: StepProgress, *, as_json: bool) -> None:
    """A trial begins, has ended, or is taken again, by itself or with all that its guests did."""
    plan, record = progress.plan, progress.record
    made: Any = record
    head = {"at": now(), "plan": plan.name, f"{kind.name}_number": progress.number, kind.plural: progress.total}
    if kind.has(record):
        if as_json:
            json_line({"event": f"{kind.name}_finished", **head, kind.name: made.to_json()})
        else:
            plain_lines(*kind.lines(made))
    elif progress.broke:
        if as_json:
            json_line({"event": "set_up_broke", **head, "why": progress.broke})
        else:
            sys.stderr.write(f"  the guests broke off, so all their trials are taken again: {progress.broke}\n")
    elif progress.again:
        if as_json:
            json_line({"event": f"{kind.name}_taken_again", **head, "why": progress.again})
        else:
            sys.stderr.write(f"  invalid, so it is taken again: {progress.again}\n")
    elif as_json:
        json_line({"event": f"{kind.name}_started", **head, "requested": progress.step.describe()})
    else:
        sys.stderr.write(
            f"{plan.name}: {kind.name} {progress.number} of {progress.total}: {progress.step.describe()}\n"
        )


def tell_trials(kind: KindShown, plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    """How a plan's trials ended, and the exit status that goes with it."""
    steps = outcome.steps
    failed: list[Any] = [record for record in steps.failed if kind.has(record)]
    status = exit_status(outcome)
    if as_json:
        json_line(
            {
                "event": f"{kind.plural}_finished",
                "at": now(),
                "plan": plan.name,
                "taken": len(steps.made),
                "verdicts": steps.verdicts,
                "failed": [kind.id_of(record) for record in failed],
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
    ended = f"{plan.name}: {kind.plural} {how_ended(outcome)}"
    plain_lines(f"{ended}; {len(steps.made)} taken{counts}, {steps.skipped} stored before")
    if steps.to_retake:
        plain_lines(f"  of guests that broke off: {steps.to_retake} of those taken, which will be taken again")
    if steps.doubtful:
        plain_lines("  only valid ones enter a mean; --retake takes the blocks of the others again")
    for why in steps.refused:
        plain_lines(f"  not measured: {why}")
    for record in failed:
        plain_lines(f"  invalid: {kind.id_of(record)} {kind.words(record)}: {record.failure}")
    return status


def guests_dry_run(
    plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool, retake: bool = False, salt: str = ""
) -> None:
    """What would be asked of guests, in the order in which it would, and about how long that takes."""
    kind = kind_of(plan)
    if kind is None:
        return
    left = left_of(kind.experiment(session.store), plan, only, session, retake=retake, salt=salt)
    for wanted in left.steps:
        if as_json:
            json_line({"event": kind.name, "plan": plan.name, "hash": wanted.hash, "requested": wanted.describe()})
        else:
            plain_lines(f"{kind.name} {wanted.describe()}")
    if as_json:
        counts = {
            kind.plural: left.asked, "stored": left.stored, "remaining": len(left.steps), "refused": list(left.refused)
        }  # fmt: skip
        json_line({"event": kind.plural, "plan": plan.name, **counts, "total_s": left.reckoned.total_s})
        return
    plain_lines(
        f"{plan.name}: {len(left.steps)} of {left.asked} {kind.plural} to take ({left.stored} stored already), about "
        f"{minutes(left.reckoned.total_s)} with the set-ups, {kind.guess}"
    )
    plain_lines(*(f"  cannot be measured: {why}" for why in left.refused))
