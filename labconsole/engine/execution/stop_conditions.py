"""What ends a plan, or leaves out a target: time that runs, verdicts, and losses that are known already."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from labconsole.model.design_point import DesignPoint, Target
from labconsole.model.plan.execution_options import Stop
from labconsole.model.plan.plan import Plan
from labconsole.units import counted, format_target

# -- stopwatch ---------------------------------------------------------------------------------------------------------
# A stopwatch that can be paused.


class Stopwatch:
    """Call ``start`` and ``stop`` once each; time within ``hold`` and ``go_on``, or ``paused``, does not count."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._ended: float | None = None
        self._paused_s = 0.0
        self._paused_since: float | None = None

    def start(self) -> None:
        """Start, unless it was started before."""
        if self._started is None:
            self._started = time.monotonic()

    def stop(self) -> None:
        """Stop for good."""
        self._ended = time.monotonic()

    def hold(self) -> None:
        """Stop counting time until ``go_on``."""
        if self._paused_since is None:
            self._paused_since = time.monotonic()

    def go_on(self) -> None:
        """Count time again, if it was on hold."""
        if self._paused_since is not None:
            self._paused_s += time.monotonic() - self._paused_since
            self._paused_since = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context in which time does not count."""
        self.hold()
        try:
            yield
        finally:
            self.go_on()

    @property
    def spent_s(self) -> float:
        """Counted time until now or, after ``stop``, until then."""
        if self._started is None:
            return 0.0
        now = self._ended if self._ended is not None else time.monotonic()
        paused_s = self._paused_s + (max(0.0, now - self._paused_since) if self._paused_since is not None else 0.0)
        return now - self._started - paused_s


# -- conditions --------------------------------------------------------------------------------------------------------
# A plan's ``stop`` conditions on time and verdicts, which end it early.


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


# -- targets that are left out -----------------------------------------------------------------------------------------
# Which targets of a plan are left out in view of known losses: RFC 2544's loss sweep, and no needless overload.
#
# The rules use results alone, never the times of trials: an interrupted plan leaves out the same trials as an
# uninterrupted one.


def rate(target: Target) -> float:
    """A sort key for targets; max is above every rate."""
    return math.inf if target == "max" else float(target)


class TargetLimits:
    """Collects losses by ``note``, and answers ``left_out`` before a trial begins.

    ``passes``: maximum number of trials per point, as in a pilot; None means the plan's repetitions.
    """

    def __init__(self, plan: Plan, passes: int | None = None) -> None:
        self._plan, self._passes = plan, passes
        self._losses: dict[tuple[int, int], float] = {}
        self._settings: dict[DesignPoint, list[int]] = {}
        self._active = plan.stop.raising is not None or plan.stop.lowering is not None
        if self._active:
            for point in plan.points:
                self._settings.setdefault(point.request.setting(), []).append(point.index)
            for indexes in self._settings.values():
                indexes.sort(key=lambda index: rate(plan.points[index].request.target))

    def note(self, point: int, repetition: int, loss_ratio: float | None) -> None:
        """Note a trial's loss on its platform, replacing an earlier one. An unknown loss has no influence."""
        if not self._active:
            return
        if loss_ratio is None:
            self._losses.pop((point, repetition), None)
        else:
            self._losses[point, repetition] = loss_ratio

    def left_out(self, point: int, repetition: int) -> str | None:
        """Why this trial is not worth taking, or None."""
        if not self._active:
            return None
        ladder = self._settings[self._plan.points[point].request.setting()]
        place = ladder.index(point)
        return self._too_much(ladder[:place]) or self._nothing_more(ladder[place + 1 :], repetition)

    def _too_much(self, lower: list[int]) -> str | None:
        rule = self._plan.stop.raising
        if rule is None:
            return None
        for index in lower:
            taken = self._passes or self._plan.repetitions_of(index)
            losses = [self._losses.get((index, r)) for r in range(1, taken + 1)]
            enough = min(rule.repetitions, self._passes or rule.repetitions)
            if sum(loss is not None and loss > rule.loss_ratio for loss in losses) >= enough:
                target = format_target(self._plan.points[index].request.wish)
                return f"left out: {target} already loses more than {rule.loss_ratio * 100:g} %"
        return None

    def _nothing_more(self, higher: list[int], repetition: int) -> str | None:
        """Applies if ``lossless`` neighbouring targets above lost nothing in this repetition."""
        rule = self._plan.stop.lowering
        if rule is None:
            return None
        in_a_row = 0
        for index in higher:
            lost = self._losses.get((index, repetition))
            # Negative if a few frames of the unit under test itself left by the same port.
            in_a_row = in_a_row + 1 if lost is not None and lost <= 0 else 0
            if in_a_row >= rule.lossless:
                return f"left out: {rule.lossless} higher targets in a row lost nothing"
        return None
