"""Reports on a plan's execution: its current activity, its progress, and how it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.errors import LabError
from labconsole.model.plan.plan import Plan, PlannedPoint
from labconsole.model.record.run import RunRecord


class ExecutionStatus(StrEnum):
    """Current activity of an execution. PAUSING: a pause was requested, and the running trial has to end first."""

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
    """Progress of an execution, reported at the beginning and end of every trial: ``last`` is None at the beginning.

    ``left_s`` is estimated from the trials taken so far, or None before the first. ``warm_up``: the beginning trial is
    not kept. ``block`` is 0 in the pilot, or None if the plan has no blocks. ``broke``: why its set-up broke off, which
    is then repeated completely.
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
    """Progress of a plan's step, numbered from 1 of the ``total`` steps that were left.

    The step begins (neither ``last`` nor ``record``), an attempt of one of its trials has ended (``last``), the step
    has ended (``record``), or it was invalid and is repeated for the reason ``again``. ``broke``: why its guests broke
    off, all of whose trials are repeated.
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
    """How a plan's steps ended.

    ``skipped``: finished before. ``refused``: what could not be run at all, one sentence per reason; ``not_measured``:
    the number of these steps. ``trials``: attempts that gave a run. ``redone``: number of repetitions. ``cut``: the
    plan ended within its steps, not in its grid. ``to_retake``: finished steps whose guests broke off before their last
    trial, which are repeated with the plan. ``exit_code``: the highest one of what prevented steps, or 0.
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
        """Number of steps by verdict, of those that are single trials."""
        verdicts = [getattr(record, "verdict", None) for record in self.made]
        return dict(sorted(Counter(str(each.status) for each in verdicts if each is not None).items()))

    @property
    def doubtful(self) -> int:
        """Number of those that are not simply valid."""
        return sum(number for word, number in self.verdicts.items() if word != "valid")

    @property
    def failed(self) -> list[StepRecord]:
        """The steps that did not finish."""
        return [record for record in self.made if record.status == "failed"]


@dataclass(slots=True)
class Outcome:
    """How an execution ended. ``invalid`` lists trials that stayed invalid after all their repetitions.

    ``left_out``: trials that the plan's stop conditions made needless. ``refused``: what could not be measured at all,
    one sentence each, with the number of trials. ``stopped``: by the operator; ``ended_by``: the condition that ended
    it. ``to_retake``: taken trials of a set-up that the end broke off, which is repeated completely.
    ``invalid_before``: trials that stayed invalid in stored, completed set-ups. ``broken_before``: trials stored in
    set-ups that broke off, which are repeated completely. ``problem``: the error after which it could not continue.
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
        """Whether it ended early for another reason than a condition of the plan."""
        return self.stopped or self.problem is not None

    @property
    def doubtful(self) -> int:
        """Number of taken trials that are not simply valid."""
        return self.taken - self.verdicts["valid"]

    @property
    def complete(self) -> bool:
        """Whether every requested trial and step exists, or was needless."""
        return self.grid_complete and self.steps_complete

    @property
    def grid_complete(self) -> bool:
        """Whether every trial of the grid exists, or was needless."""
        over = (self.cut_short or self.ended_by) and not self.steps.cut
        return not (over or self.refused or self.invalid or self.invalid_before)

    @property
    def steps_complete(self) -> bool:
        """Whether every requested step exists."""
        return not (self.cut_short or self.ended_by or self.steps.refused or self.steps.failed)
