"""The progress of a plan's execution: reports, the state of every trial and step, and estimates of the steps' time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.contracts.picture import StepPicture, drawable
from labconsole.contracts.ports import StoredTrial
from labconsole.errors import ConfigError, LabError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.estimate import PLATFORM_SWITCH_S, TRIAL_OVERHEAD_S, boot_s
from labconsole.model.plan.order import set_up_key
from labconsole.model.plan.plan import Plan, PlannedPoint
from labconsole.model.record.run import RunRecord
from labconsole.model.record.verdict_codes import title

# -- reports -----------------------------------------------------------------------------------------------------------
# Reports on a plan's execution: its current activity, its progress, and how it ended.


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


# -- trials ------------------------------------------------------------------------------------------------------------
# State of every trial of a plan, for the console's grid of points and repetitions, or blocks.
#
# Only trials that are not simply pending have an entry, because a plan may have a million of them.


class TrialState(StrEnum):
    """State of one trial. STORED: measured before, so skipped; ``Cell.verdict`` has its verdict.

    LEFT_OUT: excluded by the plan's stop conditions, in view of other trials' losses.
    """

    PENDING = "pending"
    RUNNING = "running"
    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"
    STORED = "stored before"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One trial. ``redone`` counts the attempts before the last one; ``why`` contains the reasons of the last."""

    state: TrialState
    run_id: str | None = None
    verdict: str | None = None
    redone: int = 0
    why: tuple[str, ...] = ()


PENDING = Cell(state=TrialState.PENDING)


class Grid:
    """The trials of one plan, by point (from 0) and number. ``revision`` changes with every change."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.revision = 0
        self._cells: dict[tuple[int, int], Cell] = {}
        self._failing: set[tuple[int, int]] = set()
        self._counts: Counter[TrialState] = Counter({TrialState.PENDING: plan.trials})

    def __getitem__(self, trial: tuple[int, int]) -> Cell:
        return self._cells.get(trial, PENDING)

    def count(self, *states: TrialState) -> int:
        """Number of trials in one of these states."""
        return sum(self._counts[state] for state in states)

    def failing(self) -> list[tuple[tuple[int, int], Cell]]:
        """Trials that are not simply valid, or took more than one attempt, in the order of points."""
        return [(trial, self._cells[trial]) for trial in sorted(self._failing)]

    def stored(self, trials: list[StoredTrial]) -> None:
        """Replace the stored trials by these."""
        for trial_at in [at for at, cell in self._cells.items() if cell.state is TrialState.STORED]:
            self._put(trial_at, PENDING)
        for trial in trials:
            self._put(
                (trial.point, self.plan.number_of(trial.point, trial.block, trial.repetition)),
                Cell(state=TrialState.STORED, run_id=trial.run_id, verdict=trial.status),
            )

    def begin(self, trial: tuple[int, int]) -> None:
        """An attempt begins; the reasons of the previous one stay."""
        self._put(trial, replace(self[trial], state=TrialState.RUNNING))

    def finish(self, trial: tuple[int, int], record: RunRecord) -> None:
        """An attempt gave a run."""
        status = record.verdict.status
        self._put(
            trial,
            replace(
                self[trial],
                state=TrialState(status),
                run_id=record.run_id,
                verdict=status,
                why=tuple(f"{title(reason.code)}: {reason.detail}" for reason in record.verdict.reasons),
            ),
        )

    def redo(self, trial: tuple[int, int]) -> None:
        """The attempt does not count; another one follows."""
        self._put(trial, replace(self[trial], redone=self[trial].redone + 1))

    def give_up(self, trial: tuple[int, int], why: str) -> None:
        """An attempt ended without a run: the trial is pending again, with the reason."""
        self._put(trial, replace(self[trial], state=TrialState.PENDING, why=(why,)))

    def leave_out(self, trial: tuple[int, int], why: str) -> None:
        """Exclude the trial, for this reason."""
        self._put(trial, replace(self[trial], state=TrialState.LEFT_OUT, why=(why,)))

    def _put(self, trial: tuple[int, int], cell: Cell) -> None:
        self._counts[self[trial].state] -= 1
        self._counts[cell.state] += 1
        self._cells[trial] = cell
        stayed = cell.state is TrialState.STORED and cell.verdict == "invalid"
        has_reason = stayed or (cell.why and cell.state is not TrialState.LEFT_OUT)
        if cell.redone or has_reason or cell.state in (TrialState.INVALID, TrialState.SUSPECT):
            self._failing.add(trial)
        else:
            self._failing.discard(trial)
        self.revision += 1


# -- steps -------------------------------------------------------------------------------------------------------------
# A step of a plan as displayed: its state, its own report of progress, and its result.


class StepState(StrEnum):
    """State of a step. STORED: carried out before, so skipped. FAILED: not finished, or not run at all."""

    PENDING = "to do"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STORED = "stored before"


@dataclass(slots=True)
class StepView:
    """A step as displayed.

    ``shown``: the step's own picture of its progress. ``why``: what went wrong. ``refusal``: why this testbed cannot
    run it. ``estimate_s``: duration on a unit under test without problems. ``begun_s``: time that the execution had
    spent when the step first began. ``took_s``: time spent on the step, once it is done.
    """

    step: Step
    state: StepState = StepState.PENDING
    record: StepRecord | None = None
    shown: StepPicture = field(default_factory=StepPicture)
    why: str = ""
    estimate_s: float = 0.0
    begun_s: float | None = None
    took_s: float | None = None
    refusal: ConfigError | None = None
    _drawn: tuple[StepRecord, StepPicture] | None = None

    @property
    def picture(self) -> StepPicture:
        """The picture of its progress, or of its record once there is one."""
        return self.shown if self.record is None else self._recorded(self.record)

    def _recorded(self, record: StepRecord) -> StepPicture:
        if self._drawn is None or self._drawn[0] is not record:
            self._drawn = record, drawable(self.step.picture(record))
        return self._drawn[1]


# -- steps estimate ----------------------------------------------------------------------------------------------------
# Estimates how long a plan's steps take, before any of them is carried out. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsEstimate:
    """Trials and durations on units under test without problems; noisy ones need more. ``each_s``: of every step."""

    trials: int
    each_s: tuple[float, ...]

    @property
    def total_s(self) -> float:
        """Duration of all steps."""
        return sum(self.each_s)


def estimate_steps(
    plan: Plan, steps: Sequence[Step], inventory: Inventory, boots_s: Mapping[str, float]
) -> StepsEstimate:
    """Estimate traffic, waits, platform set-ups and warm-ups of these steps; the plan is resolved for its testbed."""
    around_s = (plan.drain_s or 0.0) + (plan.settle_s or 0.0) + TRIAL_OVERHEAD_S
    trials, each_s, current = 0, [], None
    for step in steps:
        durations_s = step.durations_s(inventory)
        trials += len(durations_s)
        took_s = sum(durations_s) + len(durations_s) * around_s
        if current != (current := set_up_key(step.request, inventory)):
            took_s += PLATFORM_SWITCH_S + boot_s(step.request, boots_s)
            if plan.warm_up is not None and durations_s:
                took_s += around_s + (plan.warm_up.duration_s or durations_s[0])
        each_s.append(took_s)
    return StepsEstimate(trials=trials, each_s=tuple(each_s))
