"""What is told of a plan's execution: what it does now, where it stands, how it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.errors import LabError
from labconsole.model.plan.plan import Plan, PlannedPoint
from labconsole.model.record.run import RunRecord


class ExecutionStatus(StrEnum):
    """What an execution does now. PAUSING: a pause was asked for and the running trial has to end first."""

    READY = "ready"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    WAITING = "waiting for a lost node"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


ENDED = frozenset({ExecutionStatus.DONE, ExecutionStatus.STOPPED, ExecutionStatus.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where an execution stands, told at both ends of every trial: ``last`` is None when one begins.

    ``left_s`` is estimated from the trials taken so far; None before the first. ``warm_up``: what begins is not kept.
    ``block`` 0 is the pilot, None: the plan has no blocks. ``broke``: why its set-up broke off, which is taken
    again whole.
    """

    plan: Plan
    done: int
    skipped: int
    left_out: int
    total: int
    point: PlannedPoint
    repetition: int
    left_s: float | None
    last: RunRecord | None
    warm_up: bool = False
    redone: int = 0
    block: int | None = None
    attempt: int = 1
    broke: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """A step of a plan begins (neither ``last`` nor ``record``), an attempt of one of its trials has ended (``last``),
    or it has ended itself (``record``), or has come out invalid and is taken ``again``, for that reason. ``number``
    from 1 of the ``total`` that were left. ``broke``: why its guests broke off, all of whose trials are taken again.
    """

    plan: Plan
    number: int
    total: int
    step: Step
    last: RunRecord | None = None
    record: StepRecord | None = None
    warm_up: bool = False
    again: str = ""
    broke: str = ""


@dataclass(slots=True)
class StepsOutcome:
    """How a plan's steps ended. ``skipped`` were finished before; ``refused``: what could not be run at all, in a
    sentence for each reason, ``not_measured``: how many steps those are; ``trials``: attempts that gave a run;
    ``redone``: what was repeated. ``cut``: the plan ended among its steps, and not in its grid. ``to_retake``: of those
    made, how many are of guests that broke off before their last trial, and are taken again when the plan is.
    ``exit_code``: the highest of what kept steps from being run, 0: nothing did.
    """

    made: list[StepRecord] = field(default_factory=list)
    skipped: int = 0
    trials: int = 0
    redone: int = 0
    refused: list[str] = field(default_factory=list)
    not_measured: int = 0
    exit_code: int = 0
    cut: bool = False
    to_retake: int = 0

    @property
    def verdicts(self) -> dict[str, int]:
        """Of those that are trials themselves, how many came to each verdict."""
        verdicts = [getattr(record, "verdict", None) for record in self.made]
        return dict(sorted(Counter(str(each.status) for each in verdicts if each is not None).items()))

    @property
    def doubtful(self) -> int:
        """How many of those are not simply valid."""
        return sum(number for word, number in self.verdicts.items() if word != "valid")

    @property
    def failed(self) -> list[StepRecord]:
        """Those that did not come to their end."""
        return [record for record in self.made if record.status == "failed"]


@dataclass(slots=True)
class Outcome:
    """How an execution ended. ``invalid`` counts trials that stayed invalid after all their redos.

    ``left_out``: trials that the plan's stop conditions made needless. ``refused``: what could not be measured at all,
    in a sentence each, with how many trials that are. ``stopped``: by the operator; ``ended_by``: by which condition.
    ``to_retake``: of those taken, how many are of a set-up that the end broke off, which is taken again whole.
    ``invalid_before``: trials that stayed invalid in stored set-ups, which are over. ``broken_before``: trials stored
    in set-ups that had broken off, which are taken again whole. ``problem``: what ended it, where it could not go on.
    """

    taken: int = 0
    skipped: int = 0
    redone: int = 0
    warm_ups: int = 0
    left_out: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    invalid: list[RunRecord] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)
    stopped: bool = False
    ended_by: str = ""
    invalid_before: int = 0
    broken_before: int = 0
    to_retake: int = 0
    steps: StepsOutcome = field(default_factory=StepsOutcome)
    problem: LabError | None = None

    @property
    def cut_short(self) -> bool:
        """Whether it ended before its end, and no condition of the plan's was why."""
        return self.stopped or self.problem is not None

    @property
    def doubtful(self) -> int:
        """How many trials were taken that are not simply valid."""
        return self.taken - self.verdicts["valid"]

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is there, or was needless."""
        return self.grid_complete and self.steps_complete

    @property
    def grid_complete(self) -> bool:
        """Whether every trial of the grid is there, or was needless."""
        over = (self.cut_short or self.ended_by) and not self.steps.cut
        return not (over or self.refused or self.invalid or self.invalid_before)

    @property
    def steps_complete(self) -> bool:
        """Whether every step that was asked for is there."""
        return not (self.cut_short or self.ended_by or self.steps.refused or self.steps.failed)
