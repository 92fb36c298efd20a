"""Tracks the set-ups of a plan in blocks: which is current, whether it is complete, and how often it was tried.

A set-up that breaks off is repeated completely, at most ``max_redo`` times in one execution: its first trials share a
boot of a guest that is gone. An invalid trial breaks it off only if the platform itself may be broken. Faults of the
instruments (a failed generator, witnesses that disagree, a background load that was missed) leave the guest intact, and
setting it up again would discard sound trials.
"""

from __future__ import annotations

from collections import Counter

from labconsole.engine.execution.blocks import Key, count_block_trials
from labconsole.engine.execution.pilot import Pilot
from labconsole.engine.execution.progress import Outcome
from labconsole.errors import LabError, MeasurementError
from labconsole.model.plan.blocks import PILOT
from labconsole.model.plan.order import Trial
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord


class SetUpFailure(MeasurementError):
    """The current set-up cannot be finished. ``cause``: the error behind it, or None."""

    def __init__(self, message: str, cause: LabError | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class SetUpTracker:
    """Tracks the set-ups of one execution. A plan without blocks, and the pilot, have no tracked set-ups."""

    def __init__(self, plan: Plan) -> None:
        self.key: Key | None = None
        self.again: Counter[Key] = Counter()
        self._plan = plan
        self._id: str | None = None
        self._known = False
        self._taken: list[RunRecord] = []
        self._gave_run: set[Key] = set()
        self._sizes: dict[Key, int] | None = None

    def enter(self, trial: Trial) -> bool:
        """Enter the trial's set-up; return whether the trial begins one."""
        key = self._plan.set_up_of(trial)
        if key == self.key:
            return False
        self.leave()
        self.key = key
        return key is not None

    def leave(self) -> None:
        """Leave the set-up: nothing is set up any more."""
        self.key, self._id, self._known = None, None, False
        self._taken = []

    @property
    def begun(self) -> bool:
        """Whether a trial, or a warm-up, was taken in the current set-up."""
        return self._known

    def size(self, pilot: Pilot) -> int | None:
        """Number of trials in the current set-up."""
        if self.key is None:
            return None
        if self._sizes is None:  # the pilot is over once a block begins
            self._sizes = count_block_trials(self._plan, pilot)
        return self._sizes[self.key]

    def saw(self, record: RunRecord) -> None:
        """Note a trial or a warm-up. Raises SetUpFailure if it was in another set-up."""
        if self.key is None:
            return
        self._gave_run.add(self.key)
        set_up_id = record.set_up.id if record.set_up is not None else None
        if self._known and set_up_id != self._id:
            raise SetUpFailure("the platform had to be set up again in between")
        self._id, self._known = set_up_id, True

    def counts(self, record: RunRecord) -> None:
        """Count a trial that ended its last attempt."""
        self._taken.append(record)

    def broke(self, outcome: Outcome) -> bool:
        """Withdraw the set-up's results; return whether it may be tried again."""
        assert self.key is not None
        outcome.redone += len(self._taken)
        outcome.taken -= len(self._taken)
        outcome.verdicts.subtract(record.verdict.status for record in self._taken)
        outcome.verdicts += Counter()  # drops zero counts
        gone = {record.run_id for record in self._taken}
        outcome.invalid[:] = [record for record in outcome.invalid if record.run_id not in gone]
        self.again[self.key] += 1
        tries = self.again[self.key]
        self._taken = []
        return tries <= self._plan.max_redo

    @property
    def taken(self) -> int:
        """Number of trials in the current set-up that ended their last attempt."""
        return len(self._taken)

    @property
    def gave_runs(self) -> bool:
        """Whether the platform was up at least once, so that a later set-up may succeed."""
        return self.key in self._gave_run


def describe_set_up(key: Key) -> str:
    """Block, platform and background of a set-up, for people."""
    block, (platform, background) = key
    return f"block {block}: {platform} {describe_background(background)}"


def describe_background(background: str) -> str:
    """The background that a platform is measured with, as text."""
    return "alone" if background == "none" else f"with background {background}"


def format_block(block: int, set_ups: int | None) -> str:
    """Place in the plan: ``pilot``, ``block 2 of 5``."""
    return "pilot" if block == PILOT else f"block {block} of {set_ups}"
