"""The steps of plans at the command line (searches, guests' trials, plug-ins' steps): their progress and outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from labconsole.cli.output import print_json_line, print_lines, print_progress
from labconsole.cli.text.replay import format_h_mm_ss, utc_timestamp
from labconsole.cli.text.runs import run_row
from labconsole.cli.text.searches import search_lines
from labconsole.contracts.experiment import Stage, Step
from labconsole.engine.crew_experiment import describe_refusals, drop_incomplete_blocks
from labconsole.engine.execution.progress import Outcome, StepProgress, StepsEstimate, estimate_steps
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, ConfigError
from labconsole.experiments.kinds import PluginExperiment
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.guest_kind import GuestKind, guest_kinds
from labconsole.model.plan.plan import Plan
from labconsole.model.record.search import SearchRecord
from labconsole.report.trial_text import trial_id, trial_lines
from labconsole.store.writing import RunStore

# -- shared parts ------------------------------------------------------------------------------------------------------
# Shared parts of the steps in a replay: how a plan's steps ended, and which of them are left.

Chosen = frozenset[int] | None
"""The selected points of a plan, or None for all."""

S = TypeVar("S", bound=Step, covariant=True)


class Kind(Protocol[S]):
    """Queries on a kind of experiment before anything is measured."""

    def refuse(
        self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]: ...
    def steps(self, plan: Plan, only: Chosen = None, salt: str = "") -> Sequence[S]: ...
    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class RemainingSteps(Generic[S]):
    """The steps that are not stored yet, and their estimated duration on well-behaved units. ``stored``: the number of
    stored ones. ``refused``: sentences on impossible steps, with reasons.
    """

    steps: Sequence[S]
    asked: int
    """The number of requested steps."""
    stored: int
    refused: Sequence[str]
    reckoned: StepsEstimate


def find_remaining_steps(
    kind: Kind[S], plan: Plan, only: Chosen, session: Testbed[RunStore], *, retake: bool = False, salt: str = ""
) -> RemainingSteps[S]:
    """The remaining steps of this kind in a plan. ``retake``: see drop_incomplete_blocks(). ``salt``: part of the
    hashes, for steps that no stored one may replace. Blocking: reads the store. Raises ConfigError.
    """
    every = kind.steps(plan, only, salt)
    refusals = kind.refuse(every, plan, session.inventory, session.stage)
    askable = [each for each in every if each.hash not in refusals]
    stored = kind.stored(askable, session.inventory.fingerprint())
    if retake:
        stored = drop_incomplete_blocks(askable, stored)
    todo = [each for each in askable if each.hash not in stored]
    sentences = describe_refusals(every, refusals)
    estimated = estimate_steps(plan, todo, session.inventory, session.boots_s)
    return RemainingSteps(todo, len(every), sum(each.hash in stored for each in askable), sentences, estimated)


def exit_status(outcome: Outcome) -> int:
    """The exit status for how a plan's steps ended."""
    if outcome.problem is not None:
        return outcome.problem.exit_code
    return Aborted.exit_code if outcome.stopped else 0 if outcome.steps_complete else 1


def describe_ending(outcome: Outcome) -> str:
    """A short description of the ending."""
    return "stopped" if outcome.cut_short else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"


# -- guest trials ------------------------------------------------------------------------------------------------------
# Trials of guests: their progress and outcome, and a dry run, for people or machines.


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


# -- searches ----------------------------------------------------------------------------------------------------------
# The searches of a replay: their progress and outcome, for people or machines, and a dry run.


def narrate_search(progress: StepProgress, *, as_json: bool) -> None:
    """Report that a search begins, that one of its trials has ended, or that it has ended."""
    plan, record = progress.plan, progress.record
    if progress.last is not None:
        if as_json:
            print_json_line(
                {"event": "search_trial", "at": utc_timestamp(), "plan": plan.name, "run": progress.last.to_json()}
            )
        else:
            print_progress(run_row(progress.last))
        return
    head = {"at": utc_timestamp(), "plan": plan.name, "search_number": progress.number, "searches": progress.total}
    if isinstance(record, SearchRecord):
        if as_json:
            print_json_line({"event": "search_finished", **head, "search": record.to_json()})
        else:
            print_lines(*search_lines(record))
    elif progress.warm_up:
        if not as_json:
            request = progress.step.request
            print_progress(f"warm-up of {request.platform}, background {request.background}: discarded")
    elif as_json:
        print_json_line({"event": "search_started", **head, "requested": _configuration(progress.step.request)})
    else:
        description = progress.step.describe()
        print_progress(f"{plan.name}: search {progress.number} of {progress.total}: {description}")


def narrate_search_outcome(plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    """Report how a plan's searches ended and return the exit status."""
    steps = outcome.steps
    failed = [record for record in steps.failed if isinstance(record, SearchRecord)]
    status = exit_status(outcome)
    if as_json:
        print_json_line(
            {
                "event": "searches_finished",
                "at": utc_timestamp(),
                "plan": plan.name,
                "made": len(steps.made),
                "failed": [record.search_id for record in failed],
                "skipped": steps.skipped,
                "trials": steps.trials,
                "redone": steps.redone,
                "refused": steps.refused,
                "stopped": outcome.cut_short,
                "ended_by": outcome.ended_by or None,
                "exit_status": status,
            }
        )
        return status
    unfinished = f", {len(failed)} of them not completed" if failed else ""
    print_lines(
        f"{plan.name}: searches {describe_ending(outcome)}; {len(steps.made)} made{unfinished} by {steps.trials} "
        f"trials, {steps.skipped} stored before{f', {steps.redone} redone' if steps.redone else ''}"
    )
    for why in steps.refused:
        print_lines(f"  not searched: {why}")
    return status


def _configuration(point: DesignPoint) -> dict[str, Any]:
    return {
        "platform": point.platform,
        **point.frame.columns(),
        "sources": point.sources,
        "background": point.background,
    }


def dry_run_searches(plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool) -> None:
    """Print the searches that would run, and their duration on well-behaved units."""
    if plan.search is None:
        return
    left = find_remaining_steps(LoadSearches(session.store), plan, only, session)
    for wanted in left.steps:
        if as_json:
            print_json_line(
                {
                    "event": "search",
                    "plan": plan.name,
                    "hash": wanted.hash,
                    "goals": list(wanted.search.goals),
                    "repetition": wanted.configuration.repetition,
                    **_configuration(wanted.request),
                }
            )
        else:
            print_lines(f"search {wanted.configuration.describe()}: {', '.join(wanted.search.goals)}")
    if as_json:
        print_json_line(
            {
                "event": "searches",
                "plan": plan.name,
                "searches": left.asked,
                "stored": left.stored,
                "remaining": len(left.steps),
                "trials": left.reckoned.trials,
                "total_s": left.reckoned.total_s,
            }
        )
        return
    print_lines(
        f"{plan.name}: {len(left.steps)} of {left.asked} {'search' if left.asked == 1 else 'searches'} to make "
        f"({left.stored} already stored), "
        f"{left.reckoned.trials} trials or more, about {format_h_mm_ss(left.reckoned.total_s)} on platforms that behave"
    )


# -- plug-ins' steps ---------------------------------------------------------------------------------------------------
# Steps of other packages' experiments in a replay: their progress and outcome, and a dry run.


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
            print_progress(f"warm-up of {request.platform}, background {request.background}: discarded")
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
    unfinished = f", {len(steps.failed)} of them not completed" if steps.failed else ""
    print_lines(
        f"{plan.name}: steps {describe_ending(outcome)}; {len(steps.made)} made{unfinished} by {steps.trials} trials, "
        f"{steps.skipped} stored before"
    )
    for why in steps.refused:
        print_lines(f"  not done: {why}")
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
                f"{plan.name}: {len(left.steps)} of {left.asked} steps to do ({left.stored} already stored), "
                f"{left.reckoned.trials} trials or more, about {format_h_mm_ss(left.reckoned.total_s)}"
            )
