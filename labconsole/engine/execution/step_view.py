"""A step of a plan as displayed: its state, its own report of progress, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.contracts.picture import StepPicture, drawable
from labconsole.errors import ConfigError


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
