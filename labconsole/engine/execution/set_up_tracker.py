"""The set-ups of a plan in blocks as they are taken: which one is under way, whether it is whole, how often tried.

A set-up that breaks off is taken again whole, at most ``max_redo`` times in one execution: its first trials share a
boot of a guest that is gone. An invalid trial breaks it only where the platform itself may be broken; what went wrong
in the instruments (a generator that failed, witnesses that disagree, a background that was missed) leaves the guest as
it stands, and setting it up anew would throw sound trials away.
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
    """The set-up under way cannot be finished. ``cause``: the error behind it, where there is one."""

    def __init__(self, message: str, cause: LabError | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class SetUpTracker:
    """Of one execution of a plan. A plan without blocks, and the pilot, are never in a set-up of this kind."""

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
        """Whether this trial begins a set-up, which it then does."""
        key = self._plan.set_up_of(trial)
        if key == self.key:
            return False
        self.leave()
        self.key = key
        return key is not None

    def leave(self) -> None:
        """Nothing stands any more."""
        self.key, self._id, self._known = None, None, False
        self._taken = []

    @property
    def begun(self) -> bool:
        """Whether a trial, or a warm-up, was taken in the set-up under way."""
        return self._known

    def size(self, pilot: Pilot) -> int | None:
        """How many trials the set-up under way holds."""
        if self.key is None:
            return None
        if self._sizes is None:  # the pilot is over once a block begins
            self._sizes = count_block_trials(self._plan, pilot)
        return self._sizes[self.key]

    def saw(self, record: RunRecord) -> None:
        """A trial or a warm-up was taken in it. Raises SetUpBroke when that was in another setting-up."""
        if self.key is None:
            return
        self._gave_run.add(self.key)
        stood = record.set_up.id if record.set_up is not None else None
        if self._known and stood != self._id:
            raise SetUpFailure("the platform had to be set up anew in between")
        self._id, self._known = stood, True

    def counts(self, record: RunRecord) -> None:
        """A trial of it came to its last attempt."""
        self._taken.append(record)

    def broke(self, outcome: Outcome) -> bool:
        """Take back what it gave; whether it is to be tried again."""
        assert self.key is not None
        outcome.redone += len(self._taken)
        outcome.taken -= len(self._taken)
        outcome.verdicts.subtract(record.verdict.status for record in self._taken)
        outcome.verdicts += Counter()  # drops what is zero
        gone = {record.run_id for record in self._taken}
        outcome.invalid[:] = [record for record in outcome.invalid if record.run_id not in gone]
        self.again[self.key] += 1
        tries = self.again[self.key]
        self._taken = []
        return tries <= self._plan.max_redo

    @property
    def taken(self) -> int:
        """How many trials of the set-up under way came to their last attempt."""
        return len(self._taken)

    @property
    def gave_runs(self) -> bool:
        """Whether the platform stood at least once: not every later set-up of it is in vain then."""
        return self.key in self._gave_run


def describe_set_up(key: Key) -> str:
    """For people: ``block 2: qemu-virtio beside idle``."""
    block, (platform, background) = key
    return f"block {block}: {platform} {describe_background(background)}"


def describe_background(background: str) -> str:
    """What a platform is measured beside."""
    return "alone" if background == "none" else f"beside {background}"


def format_block(block: int, set_ups: int | None) -> str:
    """Where in the plan: ``pilot``, ``block 2 of 5``."""
    return "pilot" if block == PILOT else f"block {block} of {set_ups}"
