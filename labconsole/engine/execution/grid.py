"""State of every trial of a plan, for the console's grid of points and repetitions, or blocks.

Only trials that are not simply pending have an entry, because a plan may have a million of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from labconsole.contracts.ports import StoredTrial
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord
from labconsole.model.record.verdict_codes import title


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
