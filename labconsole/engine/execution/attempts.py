"""Takes one trial of a plan, from the warm-up to the attempt that counts; repeats it while it is invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from labconsole.contracts.ports import StoredMaximum
from labconsole.engine.execution.blocks import Pilot, SetUpFailure, SetUpTracker
from labconsole.engine.execution.pending import ExecutionSession
from labconsole.engine.execution.progress import Grid, Outcome
from labconsole.engine.trial.platform import has_broken_platform
from labconsole.engine.trial.setup import Take, TrialRequest
from labconsole.errors import (
    Aborted,
    ConfigError,
    LabError,
    LeaseHeld,
    LeaseTaken,
    NodeLost,
    NodeUnreachable,
    StoreError,
)
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.order import PILOT, SetUpKey, Trial, forwards, set_up_key
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import PlanRef, Role, RunRecord
from labconsole.model.tolerances import Tolerances

ENDS_ALL = (NodeLost, NodeUnreachable, LeaseHeld, LeaseTaken, StoreError, Aborted)
"""Errors that affect every other trial, too. Any other error only prevents measuring one platform or one point."""


class ExecutionContext(Protocol):
    """The part of an execution that its trials need."""

    @property
    def plan(self) -> Plan: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def left_s(self) -> float | None: ...
    @property
    def stopping(self) -> bool: ...

    async def hold(self) -> None: ...


class ExecutableTrial(Protocol):
    """A trial to take, its place, and its observer. ``in_set_up``: it is in a block's set-up, which may break off."""

    request: DesignPoint
    numbers: tuple[int, int]
    """Repetition and number of repetitions; in its block, if the plan has blocks."""
    tolerances: Tolerances
    role: Role
    in_set_up: bool

    @property
    def reference(self) -> StoredMaximum | None: ...

    def place(self, *, warm_ups: int, attempt: int, without_run: int) -> PlanRef:
        """The record's reference to the trial's place in the plan."""
        ...

    def warms_up(self) -> None:
        """A warm-up, which is not kept, begins."""
        ...

    def begins(self) -> None:
        """An attempt begins."""
        ...

    def saw(self, record: RunRecord) -> None:
        """A run, possibly a warm-up, was taken. Raises SetUpFailure if it was in another set-up."""
        ...

    def ended(self, record: RunRecord) -> None:
        """An attempt gave a run."""
        ...

    def gave_none(self, why: str) -> None:
        """An attempt gave no run."""
        ...

    def again(self) -> None:
        """Another attempt follows."""
        ...


class GridContext(ExecutionContext, Protocol):
    """The additional part of an execution that trials of the grid need."""

    @property
    def grid(self) -> Grid: ...
    @property
    def course(self) -> SetUpTracker: ...
    @property
    def pilot(self) -> Pilot: ...

    def tell(self, trial: Trial, last: RunRecord | None, *, warm_up: bool = False) -> None: ...


class GridTrial:
    """A trial of a plan's grid."""

    def __init__(self, execution: GridContext, trial: Trial) -> None:
        plan, (point, number) = execution.plan, trial
        self._execution, self._trial = execution, trial
        self.request = plan.every_point[point].request
        self.numbers = (plan.place_of(trial)[1], plan.repetitions_of(point) if number else 1)
        self.tolerances = plan.tolerances_of(point)
        self.role: Role = "pilot" if plan.set_ups is not None and number == PILOT else plan.role
        self.in_set_up = execution.course.key is not None

    @property
    def reference(self) -> StoredMaximum | None:
        blocks = self._execution.plan.set_ups is not None
        return self._execution.pilot.reference(self._trial[0]) if blocks and forwards(self.request.background) else None

    def place(self, *, warm_ups: int, attempt: int, without_run: int) -> PlanRef:
        execution, (point, number) = self._execution, self._trial
        return execution.plan.ref(
            point,
            number,
            warm_ups=warm_ups,
            attempt=attempt,
            set_up_trials=execution.course.size(execution.pilot),
            without_run=without_run,
            fixed=execution.pilot.fixed(point, over=number != PILOT),
        )

    def warms_up(self) -> None:
        self._execution.tell(self._trial, None, warm_up=True)

    def begins(self) -> None:
        self._execution.grid.begin(self._trial)

    def saw(self, record: RunRecord) -> None:
        self._execution.course.saw(record)

    def ended(self, record: RunRecord) -> None:
        self._execution.grid.finish(self._trial, record)

    def gave_none(self, why: str) -> None:
        self._execution.grid.give_up(self._trial, why)

    def again(self) -> None:
        self._execution.outcome.redone += 1
        self._execution.grid.redo(self._trial)


class Attempts:
    """Takes trials of one execution, and knows whether the current set-up is warm."""

    def __init__(self, execution: ExecutionContext, session: ExecutionSession) -> None:
        self._execution, self._session = execution, session
        self._warm: SetUpKey | None = None
        self._warm_ups = 0
        self._fresh = False
        self._without_run = 0
        self.attempt = 1
        """Number of the current trial's attempt; attempts without a run are not counted."""

    def cold(self) -> None:
        """Nothing is set up any more: the next trial needs a warm-up."""
        self._warm = None

    def require_fresh_set_up(self) -> None:
        """Do not reuse the current set-up: the next trial begins its own."""
        self.cold()
        self._fresh = True

    async def take(self, take: Take, trial: ExecutableTrial) -> RunRecord | None:
        """Return the last attempt's record, or None if stopped before it.

        Raises LabError if the trial cannot be taken, and SetUpFailure if its whole set-up must be repeated.
        """
        execution, session = self._execution, self._session
        plan = execution.plan
        attempt = self._without_run = 0
        self.attempt = 1
        while True:
            await execution.hold()
            if execution.stopping:
                return None
            problem: LabError | None = None
            record: RunRecord | None = None
            try:
                await self._warm_up(take, trial)
                if execution.stopping:
                    return None
                trial.begins()
                await session.renew_lease(execution.left_s)
                record = await self._ask(take, trial, trial.request)
            except (*ENDS_ALL, ConfigError, SetUpFailure):
                raise
            except LabError as exc:
                if trial.in_set_up:
                    raise SetUpFailure(str(exc), exc) from exc
                problem = exc
                self.cold()
                trial.gave_none(str(exc))
            last = execution.stopping or attempt == plan.max_redo
            if record is not None:
                trial.ended(record)
                if record.verdict.status == "invalid" and (not trial.in_set_up or has_broken_platform(record)):
                    self.cold()  # the session sets the platform up again
                if last or not self._retries(record):
                    return record
                if trial.in_set_up and has_broken_platform(record):
                    raise SetUpFailure("; ".join(reason.detail for reason in record.verdict.reasons))
                self.attempt += 1
            elif problem is not None:
                if last:
                    raise problem
                self._without_run += 1
            attempt += 1
            trial.again()
            await session.settle(max(plan.settle_s or 0, plan.retry.pause_s))

    async def _ask(self, take: Take, trial: ExecutableTrial, request: DesignPoint, *, keep: bool = True) -> RunRecord:
        plan, session = self._execution.plan, self._session
        place = trial.place(warm_ups=self._warm_ups, attempt=self.attempt, without_run=self._without_run)
        fresh, self._fresh = self._fresh, False
        repetition, repetitions = trial.numbers
        record = await take(
            TrialRequest(
                request=request,
                plan=place,
                repetition=repetition,
                repetitions=repetitions,
                settings=session.settings(plan),
                tolerances=trial.tolerances,
                settle_s=plan.settle_s,
                role=trial.role,
                reference=trial.reference,
                anew=fresh,
                keep=keep,
            )
        )
        trial.saw(record)
        return record

    def _retries(self, record: RunRecord) -> bool:
        codes = self._execution.plan.retry.codes
        return record.verdict.status == "invalid" and (
            codes is None or any(reason.code in codes for reason in record.verdict.reasons)
        )

    async def _warm_up(self, take: Take, trial: ExecutableTrial) -> None:
        """Take a trial that is not kept, if the platform or a second guest was just set up."""
        execution = self._execution
        request, how = trial.request, execution.plan.warm_up
        stands = set_up_key(request, self._session.inventory)
        if how is None or self._warm == stands:
            return
        self._warm_ups = 0
        trial.warms_up()
        warmed = replace(
            request,
            target="max" if how.target == "max" else request.target,
            duration_s=how.duration_s or request.duration_s,
        )
        await self._session.renew_lease(execution.left_s)
        record = await self._ask(take, trial, warmed, keep=False)
        if trial.in_set_up and has_broken_platform(record):
            raise SetUpFailure("the warm-up: " + "; ".join(reason.detail for reason in record.verdict.reasons))
        execution.outcome.warm_ups += 1
        self._warm_ups = 1
        self._warm = stands
