"""The steps of a plan outside its grid: each is an experiment of several trials, carried out one after the other.

A step's trials are taken like those of the grid, with the same pause, stop conditions, warm-ups and retries. A step
that cannot finish is stored as failed, and the next one begins. A step that is interrupted, by the operator or by a
lost node, is repeated and continues from its stored trials.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from labconsole.contracts.experiment import Stage, StepRecord, TrialPlace
from labconsole.contracts.picture import StepPicture, drawable
from labconsole.contracts.ports import StoredMaximum
from labconsole.engine.crew_experiment import (
    count_steps_in_broken_blocks,
    count_trials,
    describe_refusals,
    drop_incomplete_blocks,
    find_steps_in_broken_blocks,
)
from labconsole.engine.execution.attempts import ENDS_ALL, Attempts, ExecutionContext
from labconsole.engine.execution.pending import ExecutionSession
from labconsole.engine.execution.progress import StepProgress, StepState, StepView, estimate_steps
from labconsole.engine.execution.stop_conditions import StopConditions
from labconsole.engine.trial.setup import Take
from labconsole.errors import Aborted, ConfigError, LabError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.order import configuration
from labconsole.model.record.run import PlanRef, Role, RunRecord, Status


class HasExperiments(ExecutionContext, Protocol):
    """The part of an execution that its steps need."""

    @property
    def only(self) -> frozenset[int] | None: ...
    @property
    def salt(self) -> str: ...
    @property
    def retake(self) -> bool: ...
    @property
    def conditions(self) -> StopConditions: ...
    @property
    def spent_s(self) -> float: ...

    def moved(self) -> None: ...
    def refused(self, problem: LabError) -> None: ...


class Steps:
    """The steps of one execution of a plan, in order."""

    def __init__(
        self,
        execution: HasExperiments,
        session: ExecutionSession,
        attempts: Attempts,
        on_step: Callable[[StepProgress], None],
    ) -> None:
        self.execution, self.session, self.attempts = execution, session, attempts
        self.seen: list[StepView] = []
        self.reckoned_trials = 0
        self.trials = 0
        """Number of trials that ended their last attempt in this execution."""
        self.stage: Stage | None = None
        """Manages crews; None until a step has requested it."""
        self._on_step = on_step
        self._requested: list[StepView] = []
        self._broke, self._broken = "", list[StepView]()

    # Open steps

    def look(self) -> tuple[list[StepView], int]:
        """Load the stored steps, and estimate the number of trials of the others. Blocking.

        Raises ConfigError for what this testbed cannot do.
        """
        plan, session = self.execution.plan, self.session
        seen: list[StepView] = []
        fingerprint = session.inventory.fingerprint()
        for experiment in session.experiments:
            steps = experiment.steps(plan, self.execution.only, self.execution.salt)
            refusals = experiment.refuse(steps, plan, session.inventory, session.stage)
            askable = [each for each in steps if each.hash not in refusals]
            stored = experiment.stored(askable, fingerprint)
            if self.execution.retake:
                stored = drop_incomplete_blocks(askable, stored)
            for step in steps:
                record, problem = stored.get(step.hash), refusals.get(step.hash)
                if record is None and problem is not None:
                    seen.append(StepView(step, StepState.FAILED, why=str(problem), refusal=problem))
                    continue
                state = StepState.PENDING if record is None else StepState.STORED
                seen.append(StepView(step, state, record))
        left = [each for each in seen if each.state is StepState.PENDING]
        estimate = estimate_steps(plan, [each.step for each in left], session.inventory, session.boots_s)
        for each, took_s in zip(left, estimate.each_s, strict=True):
            each.estimate_s = took_s
        return seen, estimate.trials

    def load_steps(self, seen: list[StepView], estimated_trials: int) -> None:
        """Take over what ``look`` found."""
        self.seen, self.reckoned_trials = seen, estimated_trials
        self._requested = [each for each in seen if each.state is StepState.PENDING]
        self.execution.outcome.steps.skipped = sum(each.state is StepState.STORED for each in seen)
        refusals = {each.step.hash: each.refusal for each in seen if each.refusal is not None}
        self.execution.outcome.steps.refused = describe_refusals((each.step for each in seen), refusals)
        self.execution.outcome.steps.not_measured = self.refusals

    @property
    def remaining(self) -> list[StepView]:
        """The steps that are not finished, including the current one."""
        return [each for each in self._requested if each.state in (StepState.PENDING, StepState.RUNNING)]

    @property
    def asked(self) -> int:
        """Number of steps to carry out."""
        return len(self._requested)

    def number_of(self, seen: StepView) -> int:
        """The place of one of these steps, from 1."""
        return next(number for number, each in enumerate(self._requested, 1) if each is seen)

    @property
    def refusals(self) -> int:
        """Number of steps that this testbed cannot run."""
        return sum(each.refusal is not None for each in self.seen)

    def count(self, *states: StepState) -> int:
        """Number of steps in one of these states."""
        return sum(each.state in states for each in self.seen)

    @property
    def current(self) -> StepView | None:
        """The current step, or None."""
        return next((each for each in self._requested if each.state is StepState.RUNNING), None)

    @property
    def left_s(self) -> float:
        """Estimated time left, at the pace of the finished steps.

        If the current step reports how many trials it has left, the duration of its trials so far applies.
        """
        pace = self._pace
        return sum(self._estimate_left_s(seen, pace) for seen in self.remaining)

    @property
    def _pace(self) -> float:
        """Actual duration of the finished steps relative to their estimate."""
        done = [each for each in self._requested if each.took_s is not None and each.estimate_s > 0]
        return sum(each.took_s or 0.0 for each in done) / sum(each.estimate_s for each in done) if done else 1.0

    def _estimate_left_s(self, seen: StepView, pace: float) -> float:
        spent_s, taken, left = self.spent_s(seen), len(seen.picture.trials), seen.picture.left_trials
        if spent_s > 0 and taken and left is not None:
            return spent_s / taken * left
        return max(0.0, pace * seen.estimate_s - spent_s)

    def spent_s(self, seen: StepView) -> float:
        """Time spent on a step since it first began."""
        return 0.0 if seen.begun_s is None else self.execution.spent_s - seen.begun_s

    @property
    def requests(self) -> list[DesignPoint]:
        """The requests whose platforms the remaining steps need."""
        return [each.step.request for each in self.remaining]

    # Carrying out

    async def take_all(self, take: Take) -> None:
        """Take step after step while the testbed is leased. Raises errors that affect every other step, too."""
        try:
            await self._take_each(take)
        finally:
            if self.stage is not None:
                await self.stage.leave()

    async def _take_each(self, take: Take) -> None:
        execution, outcome = self.execution, self.execution.outcome
        while (seen := next(iter(self.remaining), None)) is not None and not (outcome.stopped or outcome.ended_by):
            bench = StepBench(self, seen, take)
            try:
                self.raise_if_over()
                if seen.begun_s is None:
                    seen.begun_s = execution.spent_s
                self._say(seen, StepState.RUNNING)
                self.tell(seen)
                record = await seen.step.take(bench)
            except LabError as exc:
                if isinstance(exc, ENDS_ALL) and not (isinstance(exc, Aborted) and self._over):
                    raise
                if not self._over:
                    self._refuse(seen, exc, alone=isinstance(exc, ConfigError) or exc is not bench.problem)
                    continue
                outcome.stopped = not outcome.ended_by
                self._say(seen, StepState.PENDING)
            else:
                outcome.steps.made.append(record)
                seen.record, seen.why = record, record.failure or ""
                if record.status == "done":
                    seen.took_s = self.spent_s(seen)
                self._say(seen, StepState.DONE if record.status == "done" else StepState.FAILED)
                self.tell(seen, record=record)

    @property
    def _over(self) -> bool:
        return self.execution.stopping or bool(self.execution.outcome.ended_by)

    def raise_if_over(self) -> None:
        """Raises Aborted if no further trial may begin."""
        if not self.execution.stopping:
            self.execution.outcome.ended_by = self.execution.conditions.met
        if self._over:
            raise Aborted("the plan was ended")

    def interrupted(self, reason: str) -> bool:
        """Make an interrupted current step pending again; return whether there is one."""
        seen = self.current
        if seen is not None:
            seen.why = reason
            self._say(seen, StepState.PENDING)
        return seen is not None

    def lost(self, reason: str) -> bool:
        """A node was lost: make the current step pending again; return whether there is one."""
        self._broke, self._broken = reason, self._steps_sharing_guests
        self.execution.outcome.steps.redone += self.current is not None
        return self.interrupted(reason)

    def back(self) -> None:
        """The node is back: finished steps whose guests were lost with it become pending, too."""
        outcome, again, self._broken = self.execution.outcome.steps, self._broken, []
        for seen in again:
            outcome.made[:] = [record for record in outcome.made if record is not seen.record]
            self.trials -= count_trials(seen.step, seen.record)
            seen.record, seen.took_s, seen.begun_s, seen.why = None, None, None, self._broke
            seen.shown = StepPicture()
            self._say(seen, StepState.PENDING)
        outcome.redone += len(again)
        if again:
            self.tell(again[0], broke=self._broke)

    @property
    def _steps_sharing_guests(self) -> list[StepView]:
        """The finished steps that share guests with the current one."""
        made = [each for each in self._requested if each.record is not None]
        lacking = [] if self.current is None else [self.current.step]
        broken = {each.hash for each in find_steps_in_broken_blocks((each.step for each in made), lacking)}
        return [each for each in made if each.step.hash in broken]

    @property
    def lasting(self) -> int:
        """Number of ``trials`` that stay valid if a node is lost now."""
        return self.trials - sum(count_trials(each.step, each.record) for each in self._steps_sharing_guests)

    @property
    def to_retake(self) -> int:
        """Number of finished steps whose guests broke off, if nothing follows."""
        made = [each.step for each in self._requested if each.record is not None]
        return count_steps_in_broken_blocks(made, [each.step for each in self._requested if each.record is None])

    def tell(
        self,
        seen: StepView,
        *,
        last: RunRecord | None = None,
        record: StepRecord | None = None,
        warm_up: bool = False,
        again: str = "",
        broke: str = "",
    ) -> None:
        """Report to the listener."""
        self._on_step(
            StepProgress(
                plan=self.execution.plan,
                number=self.number_of(seen),
                total=self.asked,
                step=seen.step,
                last=last,
                record=record,
                warm_up=warm_up,
                again=again,
                broke=broke,
            )
        )

    def _say(self, seen: StepView, state: StepState) -> None:
        seen.state = state
        self.execution.moved()

    def _refuse(self, seen: StepView, problem: LabError, *, alone: bool) -> None:
        """Leave out what cannot be measured: this step or, if a platform cannot be set up, all that need it."""
        self.execution.refused(problem)
        outcome = self.execution.outcome.steps
        outcome.exit_code = max(outcome.exit_code, problem.exit_code)
        needs = configuration(seen.step.request)
        for each in [seen] if alone else self.remaining:
            if configuration(each.step.request) == needs:
                each.why = str(problem)
                outcome.refused.append(f"{each.step.describe()}: {problem}")
                outcome.not_measured += 1
                self._say(each, StepState.FAILED)


class StepTrial:
    """A trial that a step requests."""

    reference: StoredMaximum | None = None
    role: Role = "measured"
    numbers = (1, 1)
    in_set_up = False

    def __init__(self, steps: Steps, seen: StepView, request: DesignPoint, place: TrialPlace) -> None:
        plan = steps.execution.plan
        self.request = request
        self.tolerances = dict(plan.platform_tolerances).get(request.platform, plan.tolerances)
        self._steps, self._seen, self._place = steps, seen, place

    def place(self, *, warm_ups: int, attempt: int, without_run: int) -> PlanRef:
        granted = self._steps.execution.plan.max_redo + 1 - without_run
        return self._place(warm_ups=warm_ups, attempt=attempt, attempts=granted)

    def warms_up(self) -> None:
        self._steps.tell(self._seen, warm_up=True)

    def begins(self) -> None:
        """Nothing to report: a step is reported at its own beginning."""

    def saw(self, record: RunRecord) -> None:
        """Accept any set-up, because there are no blocks."""

    def ended(self, record: RunRecord) -> None:
        self._steps.execution.outcome.steps.trials += 1
        self._steps.tell(self._seen, last=record)

    def gave_none(self, why: str) -> None:
        self._seen.why = why

    def again(self) -> None:
        self._steps.execution.outcome.steps.redone += 1


class StepBench:
    """The testbed as one step uses it: contracts.experiment.Bench."""

    def __init__(self, steps: Steps, seen: StepView, take: Take) -> None:
        self._steps, self._seen, self._take = steps, seen, take
        self.problem: LabError | None = None
        """The error that prevented a trial."""

    @property
    def inventory(self) -> Inventory:
        return self._steps.session.inventory

    @property
    def operator(self) -> str:
        return self._steps.session.operator

    @property
    def spent_s(self) -> float:
        return self._steps.spent_s(self._seen)

    @property
    def stage(self) -> Stage:
        self._steps.stage = self._steps.session.stage
        return self._steps.stage

    async def begin(self) -> None:
        steps, execution = self._steps, self._steps.execution
        steps.raise_if_over()
        await execution.hold()
        steps.raise_if_over()
        await steps.session.renew_lease(execution.left_s)
        step = self._seen.step
        steps.session.announce_guest_trial(
            step.request, step.describe(), None if execution.salt else execution.plan.name
        )

    async def over(self, status: Status, *, again: str = "") -> None:
        steps, execution = self._steps, self._steps.execution
        plan, settle_s = execution.plan, execution.plan.settle_s or 0
        execution.outcome.steps.trials += 1
        if again and execution.stopping:
            return  # no further trial begins
        self._seen.why = again
        if again:
            execution.outcome.steps.redone += 1
            steps.tell(self._seen, again=again)
            await steps.session.settle(max(settle_s, plan.retry.pause_s))
            return
        steps.trials += 1
        execution.conditions.saw(status)
        if not execution.stopping:
            await steps.session.settle(settle_s)

    async def trial(self, request: DesignPoint, place: TrialPlace) -> RunRecord:
        steps, execution = self._steps, self._steps.execution
        steps.raise_if_over()
        try:
            record = await steps.attempts.take(self._take, StepTrial(steps, self._seen, request, place))
        except LabError as exc:
            self.problem = exc
            raise
        if record is None or (execution.stopping and record.verdict.status == "invalid"):
            raise Aborted("the plan was ended")
        steps.trials += 1
        self._seen.why = ""
        execution.conditions.saw(record.verdict.status)
        if not execution.stopping:
            await steps.session.settle(execution.plan.settle_s or 0)
        return record

    def show(self, picture: StepPicture) -> None:
        self._seen.shown = drawable(picture)
        self._steps.execution.moved()
