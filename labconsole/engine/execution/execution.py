"""One execution of a plan: skip what is done, repeat what is invalid, store every run; whole set-ups in blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from labconsole.engine.execution.attempts import ENDS_ALL, Attempts, GridTrial
from labconsole.engine.execution.blocks import (
    Pilot,
    SetUpFailure,
    SetUpTracker,
    describe_set_up,
    room_refusal,
    stored_trial,
)
from labconsole.engine.execution.hooks import Hooks
from labconsole.engine.execution.pending import (
    Dependency,
    ExecutionSession,
    PlanState,
    count_requested,
    dependencies,
    is_requested,
    load_plan_state,
)
from labconsole.engine.execution.progress import (
    ENDED,
    ExecutionStatus,
    Grid,
    Outcome,
    Progress,
    StepProgress,
    TrialState,
)
from labconsole.engine.execution.steps import Steps
from labconsole.engine.execution.stop_conditions import StopConditions, Stopwatch, TargetLimits
from labconsole.engine.trial.platform import has_broken_platform
from labconsole.engine.trial.setup import Take
from labconsole.errors import ConfigError, LabError, MeasurementError
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.estimate import Estimate, estimate
from labconsole.model.plan.order import PILOT, Configuration, Trial, configuration
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord

# -- trial queue -------------------------------------------------------------------------------------------------------
# The trials that an execution of a plan has left to take, in order, and how many of them are finished.


class TrialQueue:
    """``done`` of ``trials`` are finished; the next one is ``next``."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.done = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.done >= len(self.trials)

    @property
    def next(self) -> Trial:
        """The trial to take now."""
        return self.trials[self.done]

    @property
    def remaining(self) -> Sequence[Trial]:
        """The trials that are not finished."""
        return self.trials[self.done :]

    def leave_out(self) -> None:
        """Leave out the next trial."""
        del self.trials[self.done]

    def drop(self, gone: Callable[[Trial], bool]) -> list[Trial]:
        """Remove these trials from the rest, and return them."""
        rest = self.remaining
        dropped = [trial for trial in rest if gone(trial)]
        self.trials[self.done :] = [trial for trial in rest if not gone(trial)]
        return dropped

    def rewind(self, same: Callable[[Trial], bool]) -> list[Trial]:
        """Go back to the first of the matching trials right before the next one; return the reopened trials."""
        end = self.done
        while self.done and same(self.trials[self.done - 1]):
            self.done -= 1
        return self.trials[self.done : end]


# -- execution ---------------------------------------------------------------------------------------------------------
# Resuming goes by content: the plan's hash and the testbed's fingerprint identify the stored runs that belong to it. A
# pause keeps the testbed, with lease and platform, between two trials, so that the operator can look at something and
# continue. To release the testbed, abort; running the plan again continues where it was. runner.py leases the testbed
# for one or several plans.

RENEW_EVERY_S = 30.0
"""Interval between two announcements of how long a paused plan keeps the testbed."""


class PlanExecution:
    """Progress of a plan, its problems, and the operations pause, resume, finish and abort.

    ``detail`` is the sentence that explains the status (which node is awaited, why it failed), ``waits_until_s`` the
    end of the waiting (monotonic). ``estimate`` covers the trials left when the store was read. ``only``: the points to
    measure, or None for all. ``salt``: its steps are not resumed. ``refusal``: why begin() would refuse. ``pilot``,
    ``course``: the pilot's results of a plan in blocks, and its set-ups.
    """

    def __init__(
        self,
        plan: Plan,
        session: ExecutionSession,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        *,
        on_step: Callable[[StepProgress], None] = lambda progress: None,
        only: frozenset[int] | None = None,
        salt: str = "",
        retake: bool = False,
    ) -> None:
        self.plan, self.only, self.salt, self.retake = plan, only, salt, retake
        self.grid = Grid(plan)
        self.status = ExecutionStatus.READY
        self.detail = ""
        self.waits_until_s: float | None = None
        self.refusal: ConfigError | None = None
        self.pilot = Pilot(plan)
        self.course = SetUpTracker(plan)
        self.current: Trial | None = None
        self.outcome = Outcome()
        self.estimate: Estimate | None = None
        self.dependencies: list[Dependency] = []
        self._session, self._on_progress = session, on_progress
        self._todo = TrialQueue()
        self._total = plan.trials
        self._limits = TargetLimits(plan)
        self._attempts = Attempts(self, session)
        self.first_refusal: LabError | None = None
        self._hooks = Hooks(plan, session.inventory.testbed)
        self._begun = False
        self._watch = Stopwatch()
        self.conditions = StopConditions(plan.stop, self._watch)
        self.steps = Steps(self, session, self._attempts, on_step)
        self._aborted = self._finishing = False
        self._resumed = asyncio.Event()
        self._resumed.set()

    @property
    def revision(self) -> int:
        """Changes with every change of a cell or of the status."""
        return self.grid.revision

    @property
    def running(self) -> bool:
        """True from begin() until the end, also while paused."""
        return self._begun and self.status not in ENDED

    @property
    def spent_s(self) -> float:
        """Time spent measuring so far, without pauses."""
        return self._watch.spent_s

    @property
    def left_s(self) -> float | None:
        """Estimated time left without pauses, from the trials so far or the plan's estimate, and from the steps."""
        if self.status in ENDED or self.estimate is None:
            return None
        if self._todo.exhausted:
            return self.steps.left_s
        if not self.outcome.taken:
            return max(0.0, self.estimate.total_s - self.spent_s) + self.steps.left_s
        return self.spent_s / self.outcome.taken * len(self._todo.remaining) + self.steps.left_s

    @property
    def trials_per_s(self) -> float | None:
        """Mean trials per second so far, or None before the first has ended."""
        taken = self.outcome.taken + self.steps.trials
        return taken / self.spent_s if taken and self.spent_s > 0 else None

    @property
    def total(self) -> int:
        """Number of requested trials, including stored ones."""
        return self._total

    @property
    def place(self) -> int:
        """Number of trials left to take that are finished, in the grid and in steps, also if a node is lost."""
        return self._todo.done + self.steps.lasting

    @property
    def open_requests(self) -> list[DesignPoint]:
        """The requests of trials that are left."""
        return [self.plan.every_point[index].request for index, _ in self._todo.remaining] + self.steps.requests

    def pause(self) -> None:
        """Begin no further trial; the running one ends. The testbed stays leased and set up."""
        if self.running and self.status is not ExecutionStatus.STOPPING:
            self._resumed.clear()
            if self.status is ExecutionStatus.RUNNING:
                self.say(ExecutionStatus.PAUSING)

    def resume(self) -> None:
        """Continue after a pause."""
        self._resumed.set()
        if self.status is ExecutionStatus.PAUSING:
            self.say(ExecutionStatus.RUNNING)

    def finish(self) -> None:
        """Let the running trial end, begin no other, and release the testbed."""
        self._finishing = True
        self._resumed.set()
        if self.running:
            self.say(ExecutionStatus.STOPPING)

    async def abort(self) -> None:
        """Stop the running trial and end. Results so far are kept, and the same plan continues from there."""
        self._aborted = True
        if self.running:
            self.say(ExecutionStatus.STOPPING)
        await self._session.abort()

    async def look(self) -> None:
        """Read from the store what is measured already; begin() calls it. Raises StoreError."""
        state, self.dependencies = await asyncio.to_thread(self._look)
        try:
            self.steps.load_steps(*await asyncio.to_thread(self.steps.look))
            refusal = None
        except ConfigError as exc:
            refusal = exc
        self.grid.stored(state.done)
        for trial in state.done:
            self._limits.note(trial.point, trial.repetition, trial.lost_ratio)
        chosen = [trial for trial in state.done if is_requested(self.plan, trial, self.only)]
        self._total = count_requested(self.plan, self.only)
        self.pilot, self._todo.trials = state.pilot, state.left
        self.outcome.skipped, self.outcome.broken_before = len(chosen), state.broken
        self.outcome.invalid_before = sum(trial.status == "invalid" for trial in chosen)
        self.outcome.left_out = self._total - len(chosen) - len(state.left)
        inventory, boots_s = self._session.inventory, self._session.boots_s
        self.estimate = estimate(self.plan, inventory, boots_s, state.left)
        self.refusal = refusal or state.refusal or room_refusal(self.plan, state.left, inventory, boots_s)

    def _look(self) -> tuple[PlanState, list[Dependency]]:
        state = load_plan_state(self.plan, self._session, self.only)
        return state, dependencies(self.plan, state.left, self._session, state.pilot)

    # Called by the runner

    async def begin(self) -> None:
        """Start, or wait for the plans before it. Raises StoreError, and ConfigError if it must not begin."""
        self._begun = True
        self.conditions.begin()
        self.say(ExecutionStatus.RUNNING)
        await self.look()
        if self.refusal is not None:
            raise self.refusal

    def end(self, problem: BaseException | None = None) -> None:
        """End with this problem, by the operator, or done. Raises LabError if nothing could be measured."""
        if self.status in ENDED:
            return
        steps = self.outcome.steps
        stands = self.outcome.taken or self.outcome.skipped or self.steps.trials or steps.made or steps.skipped
        if problem is None and not stands and not self._over:
            problem = self.first_refusal
        detail = str(problem) if isinstance(problem, LabError) else self.outcome.ended_by
        status = ExecutionStatus.STOPPED if self.outcome.stopped or self.outcome.ended_by else ExecutionStatus.DONE
        if problem is not None:
            status = ExecutionStatus.FAILED if isinstance(problem, LabError) else ExecutionStatus.STOPPED
        if self.current is not None and self.grid[self.current].state is TrialState.RUNNING:
            self.grid.give_up(self.current, detail or "stopped before it had ended")
        if isinstance(problem, LabError) and problem is not self.first_refusal:
            self.outcome.problem = problem
        steps.cut = (
            (self._over or self.outcome.problem is not None) and self._todo.exhausted and bool(self.steps.remaining)
        )
        self.steps.interrupted(detail)
        self.current, self.outcome.to_retake, steps.to_retake = None, self._count_to_repeat(), self.steps.to_retake
        self._watch.stop()
        self.say(status, detail)
        if problem is self.first_refusal and isinstance(problem, LabError):
            raise problem

    def moved(self) -> None:
        """Note that something displayed has changed."""
        self.grid.revision += 1

    def refused(self, problem: LabError) -> None:
        """Note that a part of the plan cannot be measured at all."""
        self.first_refusal = self.first_refusal or problem

    def say(self, status: ExecutionStatus, detail: str = "") -> None:
        """Set the status and its explanation."""
        self.status, self.detail = status, detail
        self.moved()

    def report_recovery(self) -> None:
        """Continue after a lost node came back."""
        self.steps.back()
        self._watch.go_on()
        self.waits_until_s = None
        self.say(ExecutionStatus.RUNNING if self._resumed.is_set() else ExecutionStatus.PAUSING)

    def lost(self, reason: str, *, within_s: float) -> None:
        """A node went away: repeat the current trial or step if it is back ``within_s``, not counting the wait."""
        self._watch.hold()
        self.waits_until_s = time.monotonic() + within_s
        if not self.steps.lost(reason) and not self._todo.exhausted:
            self.outcome.redone += 1
        if self.current is not None:
            self.grid.redo(self.current)
            self.grid.give_up(self.current, reason)
        if self.course.begun:
            self._broke(SetUpFailure(reason))
        self.course.leave()
        self.say(ExecutionStatus.WAITING, reason)

    @property
    def is_stop_requested(self) -> bool:
        """Whether this execution was requested to begin no further trial."""
        return self._aborted or self._finishing

    @property
    def stopping(self) -> bool:
        """Whether to begin no further trial, by request or because the session's current work is being aborted."""
        return self.is_stop_requested or self._session.stopping

    @property
    def exhausted(self) -> bool:
        """Whether there is no further trial to take, for any reason."""
        return self._over or (self._todo.exhausted and not self.steps.remaining)

    @property
    def _over(self) -> bool:
        return self.outcome.stopped or bool(self.outcome.ended_by)

    async def take_all(self, take: Take) -> None:
        """Take trial after trial, then steps, on the leased testbed. Raises errors of trials or pre commands."""
        self._attempts.cold()
        self.course.leave()
        self._watch.start()
        await self._hooks.before(len(self._todo.trials))
        while not (self._over or self._todo.exhausted):
            trial = self.current = self._todo.next
            if (reason := self._left_out(trial)) is not None:
                self.grid.leave_out(trial, reason)
                self.outcome.left_out += 1
                self._todo.leave_out()
                continue
            self.outcome.ended_by = self.conditions.met
            if not self.outcome.ended_by and self._begins(trial):
                await self._take_next(take, trial)
        if not self._over:
            self.current = None
            self.course.leave()
            await self.steps.take_all(take)

    def _left_out(self, trial: Trial) -> str | None:
        """Why this trial is not worth taking, or None. In blocks the pilot's losses decide, else all known losses."""
        return self.pilot.left_out(trial) if self.plan.set_ups is not None else self._limits.left_out(*trial)

    async def clean_up(self) -> None:
        """Run the plan's post commands if its pre commands were begun. The outcome records failures."""
        problems = await self._hooks.after("stopped" if self._over else "done" if self.exhausted else "failed")
        if self.plan.grid:
            self.outcome.refused += [(problem, 0) for problem in problems]
        else:
            self.outcome.steps.refused += problems

    async def _take_next(self, take: Take, trial: Trial) -> None:
        session, outcome = self._session, self.outcome
        self.tell(trial, None)
        try:
            record = await self._attempts.take(take, GridTrial(self, trial))
        except ENDS_ALL:
            raise
        except SetUpFailure as exc:
            outcome.stopped = self.stopping
            await self._repeat_set_up(exc)
            return
        except LabError as exc:
            self._refuse(trial, exc)
            outcome.stopped = self.stopping
            return
        if record is None or (self.stopping and record.verdict.status == "invalid"):
            outcome.stopped = True
            if record is not None:  # stored, so reported, but not counted: it is repeated
                self.tell(trial, record, attempt=self._attempts.attempt)
            return
        self._todo.done += 1
        outcome.taken += 1
        self.course.counts(record)
        outcome.verdicts[record.verdict.status] += 1
        self.conditions.saw(record.verdict.status)
        if record.verdict.status == "invalid":
            outcome.invalid.append(record)
        else:
            self._limits.note(*trial, stored_trial(record).lost_ratio)
        if trial[1] == PILOT:
            self.pilot.note(stored_trial(record))
        self.tell(trial, record, attempt=self._attempts.attempt)
        if self.course.key is not None and has_broken_platform(record) and not self._whole():
            await self._repeat_set_up(SetUpFailure("; ".join(reason.detail for reason in record.verdict.reasons)))
        if not self.exhausted and not self.stopping:
            await session.settle(self.plan.settle_s or 0)
        if self.stopping:
            outcome.stopped = not self.exhausted

    async def hold(self) -> None:
        """Wait while paused; an abort ends the waiting."""
        if self._resumed.is_set() or self.stopping:
            return
        with self._watch.paused():
            self.say(ExecutionStatus.PAUSED)
            waits = [asyncio.ensure_future(self._resumed.wait()), asyncio.ensure_future(self._session.wait_stopping())]
            try:
                done: set[asyncio.Future[Any]] = set()
                while not done:
                    # Announce how long the testbed is leased; while the plan is paused, that moves with the clock.
                    await self._session.renew_lease(self.left_s)
                    done, _ = await asyncio.wait(waits, timeout=RENEW_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
        self.say(ExecutionStatus.STOPPING if self.stopping else ExecutionStatus.RUNNING)

    def tell(
        self, trial: Trial, last: RunRecord | None, *, warm_up: bool = False, attempt: int = 1, broke: str = ""
    ) -> None:
        """Report to the listener that a trial begins, has ended with ``last``, or that its set-up broke off."""
        block, repetition = self.plan.place_of(trial)
        self._on_progress(
            Progress(
                plan=self.plan,
                done=self.outcome.taken,
                skipped=self.outcome.skipped,
                left_out=self.outcome.left_out,
                total=self._total,
                point=self.plan.every_point[trial[0]],
                repetition=repetition,
                left_s=self.left_s if self._todo.done else None,
                last=last,
                warm_up=warm_up,
                redone=self.grid[trial].redone,
                block=block,
                attempt=attempt,
                broke=broke,
            )
        )

    # Set-ups: where one begins, and what happens when it breaks off

    def _begins(self, trial: Trial) -> bool:
        """Whether the trial can begin, as the first of a set-up or a further one; otherwise it is refused."""
        begins = self.course.enter(trial)
        if not begins and not (self.plan.set_ups is not None and trial[1] == PILOT):
            return True
        missing = self.pilot.missing(self._needs(trial)) if begins else self.pilot.lacks_reference(trial[0])
        if missing is not None:
            self._refuse(trial, MeasurementError(missing))
            return False
        if begins:
            self._attempts.require_fresh_set_up()
        return True

    def _whole(self) -> bool:
        """Whether the current set-up has no further trial."""
        return self._todo.exhausted or self.plan.set_up_of(self._todo.next) != self.course.key

    def _count_to_repeat(self) -> int:
        """Number of trials in the current set-up that must be repeated if nothing follows."""
        return 0 if self.course.key is None or self._whole() else self.course.taken

    async def _repeat_set_up(self, problem: SetUpFailure) -> None:
        """A set-up broke off in a trial: repeat it after a pause, unless it was tried often enough."""
        again = self._broke(problem)
        if again and not self.stopping:
            await self._session.settle(max(self.plan.settle_s or 0, self.plan.retry.pause_s))

    def _broke(self, problem: SetUpFailure) -> bool:
        """Withdraw the results of the current set-up; repeat it from its first trial, or refuse it."""
        course, key, trial = self.course, self.course.key, self.current
        assert key is not None and trial is not None
        again = course.broke(self.outcome)

        def same(each: Trial) -> bool:
            return self.plan.set_up_of(each) == key

        why = f"its set-up was interrupted: {problem}"
        for each in self._todo.rewind(same):
            self.grid.redo(each)
            self.grid.give_up(each, why)
        if self.grid[trial].state is not TrialState.PENDING:
            self.grid.give_up(trial, why)
        text = f"{describe_set_up(key)}: {problem}"
        if not again:
            if problem.cause is not None:
                self.refused(problem.cause)
            gone = same if course.gave_runs else lambda each: self._needs(each) == key[1]
            self._drop(gone, f"{text}; it was interrupted {course.again[key]} times", str(problem))
        course.leave()
        self.tell(trial, None, broke=str(problem))
        return again

    def _needs(self, trial: Trial) -> Configuration:
        return configuration(self.plan.every_point[trial[0]].request)

    def _refuse(self, trial: Trial, problem: LabError) -> None:
        """Leave out what cannot be measured: this point or, if a platform cannot be set up, all that needs it.

        A set-up of a block that lacked a point would never be complete.
        """
        needs = self._needs(trial)
        self.refused(problem)
        if isinstance(problem, ConfigError) and self.plan.set_ups is None:
            self._drop(lambda each: each[0] == trial[0], f"point {trial[0]}: {problem}", str(problem))
        else:
            text = f"{needs[0]} with background {needs[1]}: {problem}"
            self._drop(lambda each: self._needs(each) == needs, text, str(problem))

    def _drop(self, gone: Callable[[Trial], bool], text: str, why: str) -> None:
        dropped = self._todo.drop(gone)
        for each in dropped:
            self.grid.give_up(each, why)
        self.outcome.refused.append((text, len(dropped)))
