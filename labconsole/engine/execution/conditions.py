"""When a plan ends before all of it is measured: its ``stop`` conditions that look at the clock and at verdicts."""

from __future__ import annotations

from datetime import datetime

from labconsole.engine.execution.stopwatch import Stopwatch
from labconsole.model.plan.execution_options import Stop
from labconsole.units import counted


class StopConditions:
    """Of one execution: ``begin`` it, tell the verdict of every trial that came to its last attempt, ask ``met``."""

    def __init__(self, stop: Stop, watch: Stopwatch) -> None:
        self._stop, self._watch = stop, watch
        self._deadline: datetime | None = None
        self._in_a_row = 0

    def begin(self) -> None:
        """A time of day is the next one from now on."""
        self._deadline = self._stop.deadline(datetime.now().astimezone())

    def saw(self, status: str) -> None:
        """A trial of this verdict stands, or stays invalid."""
        self._in_a_row = self._in_a_row + 1 if status == "invalid" else 0

    @property
    def met(self) -> str:
        """Which of them says to begin no further trial; empty when none does."""
        stop = self._stop
        if stop.invalid_in_a_row is not None and self._in_a_row >= stop.invalid_in_a_row:
            return f"{counted(self._in_a_row, 'trial')} in a row came out invalid"
        if stop.after_s is not None and self._watch.spent_s >= stop.after_s:
            return f"{stop.after_s:g} s of measuring are over"
        if self._deadline is not None and datetime.now().astimezone() >= self._deadline:
            return f"it is {self._deadline:%Y-%m-%d %H:%M}"
        return ""
