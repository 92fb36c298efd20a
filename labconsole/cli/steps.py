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
from labconsole.engine.execution.progress import Outcome, StepProgress, StepsEstimate, StepsOutcome, estimate_steps
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, ConfigError
from labconsole.experiments.kinds import PluginExperiment
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.guest_kind import GuestKind, guest_kinds
from labconsole.model.plan.plan import Plan
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


def describe_ending(stopped: bool, ended_by: str) -> str:
    """A short description of the ending."""
    return "stopped" if stopped else f"ended because {ended_by}" if ended_by else "done"


def describe_repetition(progress: StepProgress) -> str | None:
    """Why a step is repeated, by itself or with everything that its guests did, or None if it is not."""
    if progress.broke:
        return f"  the guests failed; all trials of this set-up will be repeated: {progress.broke}"
    return f"  invalid, so it will be repeated: {progress.again}" if progress.again else None


# -- narrators ---------------------------------------------------------------------------------------------------------
# Reports on a plan's steps, for people or machines: their progress, their outcome, and a dry run.


class StepNarrator:
    """Reports on the steps of a plan; on those of another package's experiments unless a kind of steps says more."""

    noun, plural, refusal = "step", "steps", "not done"
    numbers_trials = True
    """Whether a trial of a step is reported with the step's number."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def narrate(self, progress: StepProgress) -> None:
        """Report that a step begins, that one of its trials has ended, or that it has ended."""
        plan, step = progress.plan.name, progress.step
        head: dict[str, Any] = {"at": utc_timestamp(), "plan": plan}
        numbers = {f"{self.noun}_number": progress.number, self.plural: progress.total}
        if (run := progress.last) is not None:
            if self._as_json:
                trial_head = {**head, **numbers} if self.numbers_trials else head
                print_json_line({"event": f"{self.noun}_trial", **trial_head, "run": run.to_json()})
            else:
                print_progress(run_row(run))
        elif progress.record is not None:
            if self._as_json:
                found = self._result_json(step, progress.record)
                print_json_line({"event": f"{self.noun}_finished", **head, **numbers, **found})
            else:
                print_lines(*self._result_lines(step, progress.record))
        elif progress.warm_up:
            if not self._as_json:
                print_progress(f"warm-up of {step.request.platform}, background {step.request.background}: discarded")
        elif self._as_json:
            print_json_line({"event": f"{self.noun}_started", **head, **numbers, **self._request_json(step)})
        else:
            print_progress(f"{plan}: {self.noun} {progress.number} of {progress.total}: {step.describe()}")

    def narrate_outcome(self, plan: Plan, outcome: Outcome) -> int:
        """Report how a plan's steps ended and return the exit status."""
        steps, status = outcome.steps, exit_status(outcome)
        if self._as_json:
            head = {"event": f"{self.plural}_finished", "at": utc_timestamp(), "plan": plan.name}
            ended = {"refused": steps.refused, "stopped": outcome.cut_short, "ended_by": outcome.ended_by or None}
            print_json_line({**head, **self._count_json(steps), **ended, "exit_status": status})
            return status
        counts, *notes = self._count_lines(steps)
        ending = describe_ending(outcome.cut_short, outcome.ended_by)
        print_lines(f"{plan.name}: {self.plural} {ending}; {counts}", *notes)
        print_lines(*(f"  {self.refusal}: {why}" for why in steps.refused), *self._failure_lines(steps))
        return status

    def dry_run(
        self, plan: Plan, only: Chosen, session: Testbed[RunStore], *, retake: bool = False, salt: str = ""
    ) -> None:
        """List the steps in their order, and their approximate duration."""
        for kind in self._kinds(session):
            left = find_remaining_steps(kind, plan, only, session, retake=retake, salt=salt)
            for step in left.steps:
                if self._as_json:
                    head = {"event": self.noun, "plan": plan.name, "hash": step.hash}
                    print_json_line({**head, **self._planned_json(step)})
                else:
                    print_lines(self._planned_line(step))
            if not self._as_json:
                print_lines(*self._remaining_lines(plan, left))
            elif counts := self._remaining_json(left):
                total = {"event": self.plural, "plan": plan.name, **counts, "total_s": left.reckoned.total_s}
                print_json_line(total)

    def _kinds(self, session: Testbed[RunStore]) -> Sequence[Kind[Any]]:
        return [each for each in session.experiments if isinstance(each, PluginExperiment)]

    def _request_json(self, step: Step) -> Mapping[str, Any]:
        return {"step": step.describe()}

    def _result_json(self, step: Step, record: Any) -> Mapping[str, Any]:
        ended = {"hash": step.hash, "status": record.status, "failure": record.failure}
        return {"step": step.describe(), **ended}

    def _result_lines(self, step: Step, record: Any) -> Sequence[str]:
        found = "; ".join(step.picture(record).found) if record.failure is None else record.failure
        return [f"{step.describe()}: {found}"]

    def _count_json(self, steps: StepsOutcome) -> Mapping[str, Any]:
        return {"made": len(steps.made), "failed": len(steps.failed), "skipped": steps.skipped}

    def _count_lines(self, steps: StepsOutcome) -> Sequence[str]:
        """The numbers of a sentence, and notes on them."""
        unfinished = f", {len(steps.failed)} of them not completed" if steps.failed else ""
        return [f"{len(steps.made)} made{unfinished} by {steps.trials} trials, {steps.skipped} stored before"]

    def _failure_lines(self, steps: StepsOutcome) -> Sequence[str]:
        return ()

    def _planned_json(self, step: Any) -> Mapping[str, Any]:
        return self._request_json(step)

    def _planned_line(self, step: Any) -> str:
        description: str = step.describe()
        return description

    def _remaining_json(self, left: RemainingSteps[Any]) -> Mapping[str, Any]:
        return {}

    def _remaining_lines(self, plan: Plan, left: RemainingSteps[Any]) -> Sequence[str]:
        duration = f"{left.reckoned.trials} trials or more, about {format_h_mm_ss(left.reckoned.total_s)}"
        steps = f"{len(left.steps)} of {left.asked} steps to do ({left.stored} already stored)"
        return [f"{plan.name}: {steps}, {duration}"] if left.asked else []


class SearchNarrator(StepNarrator):
    """Reports on the searches of a plan."""

    noun, plural, refusal = "search", "searches", "not searched"
    numbers_trials = False

    def _kinds(self, session: Testbed[RunStore]) -> Sequence[Kind[Any]]:
        return [LoadSearches(session.store)]

    def _request_json(self, step: Step) -> Mapping[str, Any]:
        return {"requested": _configuration(step.request)}

    def _result_json(self, step: Step, record: Any) -> Mapping[str, Any]:
        return {"search": record.to_json()}

    def _result_lines(self, step: Step, record: Any) -> Sequence[str]:
        return search_lines(record)

    def _count_json(self, steps: StepsOutcome) -> Mapping[str, Any]:
        failed: Sequence[Any] = steps.failed
        return {
            "made": len(steps.made),
            "failed": [record.search_id for record in failed],
            "skipped": steps.skipped,
            "trials": steps.trials,
            "redone": steps.redone,
        }

    def _count_lines(self, steps: StepsOutcome) -> Sequence[str]:
        (counts,) = super()._count_lines(steps)
        return [f"{counts}, {steps.redone} redone" if steps.redone else counts]

    def _planned_json(self, step: Any) -> Mapping[str, Any]:
        wanted = {"goals": list(step.search.goals), "repetition": step.configuration.repetition}
        return {**wanted, **_configuration(step.request)}

    def _planned_line(self, step: Any) -> str:
        return f"search {step.configuration.describe()}: {', '.join(step.search.goals)}"

    def _remaining_json(self, left: RemainingSteps[Any]) -> Mapping[str, Any]:
        counts = {"searches": left.asked, "stored": left.stored, "remaining": len(left.steps)}
        return {**counts, "trials": left.reckoned.trials}

    def _remaining_lines(self, plan: Plan, left: RemainingSteps[Any]) -> Sequence[str]:
        return [
            f"{plan.name}: {len(left.steps)} of {left.asked} {'search' if left.asked == 1 else 'searches'} to make "
            f"({left.stored} already stored), {left.reckoned.trials} trials or more, "
            f"about {format_h_mm_ss(left.reckoned.total_s)} on platforms that behave"
        ]


def _configuration(point: DesignPoint) -> dict[str, Any]:
    return {
        "platform": point.platform,
        **point.frame.columns(),
        "sources": point.sources,
        "background": point.background,
    }


class GuestTrialNarrator(StepNarrator):
    """Reports on the trials of guests of a plan. Its steps are its trials, so they are repeated."""

    refusal = "not measured"

    def __init__(self, kind: GuestKind, *, as_json: bool) -> None:
        super().__init__(as_json=as_json)
        self._kind, self.noun, self.plural = kind, kind.name, kind.plural

    def narrate(self, progress: StepProgress) -> None:
        """Report that a trial begins, has ended, or is repeated, by itself or with everything that its guests did."""
        why = describe_repetition(progress)
        if why is None:
            super().narrate(progress)
        elif self._as_json:
            head = {"at": utc_timestamp(), "plan": progress.plan.name, f"{self.noun}_number": progress.number}
            event = "set_up_broke" if progress.broke else f"{self.noun}_taken_again"
            why = progress.broke or progress.again
            print_json_line({"event": event, **head, self.plural: progress.total, "why": why})
        else:
            print_progress(why)

    def _kinds(self, session: Testbed[RunStore]) -> Sequence[Kind[Any]]:
        return [self._kind.experiment(session.store)]

    def _request_json(self, step: Step) -> Mapping[str, Any]:
        return {"requested": step.describe()}

    def _result_json(self, step: Step, record: Any) -> Mapping[str, Any]:
        return {self.noun: record.to_json()}

    def _result_lines(self, step: Step, record: Any) -> Sequence[str]:
        return trial_lines(self._kind, record)

    def _count_json(self, steps: StepsOutcome) -> Mapping[str, Any]:
        return {
            "taken": len(steps.made),
            "verdicts": steps.verdicts,
            "failed": [trial_id(self._kind, record) for record in steps.failed],
            "skipped": steps.skipped,
            "to_retake": steps.to_retake,
        }

    def _count_lines(self, steps: StepsOutcome) -> Sequence[str]:
        verdicts = ", ".join(f"{count} {word}" for word, count in steps.verdicts.items())
        counts = f"{len(steps.made)} measured{f' ({verdicts})' if verdicts else ''}, {steps.skipped} stored before"
        retaken = f"  of guests that failed: {steps.to_retake} of those measured, which will be repeated"
        doubtful = "  only valid ones enter a mean; --retake repeats the blocks of the others"
        return [counts, *([retaken] if steps.to_retake else []), *([doubtful] if steps.doubtful else [])]

    def _failure_lines(self, steps: StepsOutcome) -> Sequence[str]:
        request = self._kind.text.request
        return [f"  invalid: {trial_id(self._kind, each)} {request(each)}: {each.failure}" for each in steps.failed]

    def _planned_line(self, step: Any) -> str:
        return f"{self.noun} {step.describe()}"

    def _remaining_json(self, left: RemainingSteps[Any]) -> Mapping[str, Any]:
        counts = {self.plural: left.asked, "stored": left.stored, "remaining": len(left.steps)}
        return {**counts, "refused": list(left.refused)}

    def _remaining_lines(self, plan: Plan, left: RemainingSteps[Any]) -> Sequence[str]:
        return [
            f"{plan.name}: {len(left.steps)} of {left.asked} {self.plural} to measure ({left.stored} already stored), "
            f"about {format_h_mm_ss(left.reckoned.total_s)} with the set-ups, {self._kind.assumed}",
            *(f"  cannot be measured: {why}" for why in left.refused),
        ]


def find_narrator(plan: Plan, *, as_json: bool) -> StepNarrator | None:
    """The narrator of a plan's steps, or None if it has no steps."""
    if plan.guests is not None:
        return GuestTrialNarrator(guest_kinds()[plan.guests.kind], as_json=as_json)
    if plan.experiments:
        return StepNarrator(as_json=as_json)
    return SearchNarrator(as_json=as_json) if plan.search is not None else None
