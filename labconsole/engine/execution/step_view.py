"""A step of a plan as it is seen: where it stands, how far it says that it has come, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from labconsole.contracts.experiment import Step, StepRecord
from labconsole.contracts.picture import StepPicture, drawable
from labconsole.errors import ConfigError


class StepState(StrEnum):
    """Where a step stands. STORED: carried out before, so not again. FAILED: not to its end, or not at all."""

    PENDING = "to do"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STORED = "stored before"


@dataclass(slots=True)
class StepView:
    """A step as it is seen. ``shown``: how far it says that it has come; ``why``: what went wrong; ``refusal``: why
    this testbed cannot be asked it; ``estimate_s``: what it takes on a unit that behaves; ``begun_s``: what the
    execution had spent when it was first begun; ``took_s``: once it is done, what it spent on it.
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
        """How far it has come, out of its record once there is one."""
        return self.shown if self.record is None else self._recorded(self.record)

    def _recorded(self, record: StepRecord) -> StepPicture:
        if self._drawn is None or self._drawn[0] is not record:
            self._drawn = record, drawable(self.step.picture(record))
        return self._drawn[1]
