"""The part of a plan's execution that handles set-ups: where one begins, and what happens when it breaks off."""

from __future__ import annotations

from collections.abc import Callable

from labconsole.engine.execution.attempts import Attempts
from labconsole.engine.execution.grid import Grid, TrialState
from labconsole.engine.execution.pending import ExecutionSession
from labconsole.engine.execution.pilot import Pilot
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.set_up_tracker import SetUpFailure, SetUpTracker, describe_set_up
from labconsole.engine.execution.trial_queue import TrialQueue
from labconsole.errors import ConfigError, LabError, MeasurementError
from labconsole.model.plan.blocks import PILOT
from labconsole.model.plan.order import Configuration, Trial, configuration
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord


class BlockExecution:
    """Base of PlanExecution, which has these attributes; not used by itself.

    The methods that raise NotImplementedError are defined there, and declared here for the type checker.
    """

    plan: Plan
    grid: Grid
    outcome: Outcome
    pilot: Pilot
    course: SetUpTracker
    current: Trial | None
    _session: ExecutionSession
    _attempts: Attempts
    _todo: TrialQueue

    @property
    def stopping(self) -> bool:
        raise NotImplementedError

    def refused(self, problem: LabError) -> None:
        raise NotImplementedError

    def tell(
        self, trial: Trial, last: RunRecord | None, *, warm_up: bool = False, attempt: int = 1, broke: str = ""
    ) -> None:
        raise NotImplementedError

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
