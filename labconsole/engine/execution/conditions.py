"""A plan's ``stop`` conditions on time and verdicts, which end it early."""

from __future__ import annotations

from datetime import datetime

from labconsole.engine.execution.stopwatch import Stopwatch
from labconsole.model.plan.execution_options import Stop
from labconsole.units import counted


class StopConditions:
    """The stop conditions of one execution: call ``begin``, report every trial's final verdict, then read ``met``."""

    def __init__(self, stop: Stop, watch: Stopwatch) -> None:
        self._stop, self._watch = stop, watch
        self._deadline: datetime | None = None
        self._in_a_row = 0

    def begin(self) -> None:
        """Start; a time of day is its next occurrence from now on."""
        self._deadline = self._stop.deadline(datetime.now().astimezone())

    def saw(self, status: str) -> None:
        """Note the verdict of a trial's last attempt."""
        self._in_a_row = self._in_a_row + 1 if status == "invalid" else 0

    @property
    def met(self) -> str:
        """The condition that forbids a further trial, or an empty string."""
        stop = self._stop
        if stop.invalid_in_a_row is not None and self._in_a_row >= stop.invalid_in_a_row:
            many = counted(self._in_a_row, "trial")
            return f"{many} in a row {'was' if self._in_a_row == 1 else 'were'} invalid"
        if stop.after_s is not None and self._watch.spent_s >= stop.after_s:
            return f"{stop.after_s:g} s of measuring are over"
        if self._deadline is not None and datetime.now().astimezone() >= self._deadline:
            return f"it is {self._deadline:%Y-%m-%d %H:%M}"
        return ""
