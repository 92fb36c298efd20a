"""Which targets of a plan are left out because of what others lost: RFC 2544's loss sweep, and no overload in vain.

Decided from results alone, never from when they were taken: a plan that was interrupted leaves out what it would have
left out unbroken.
"""

from __future__ import annotations

import math

from labconsole.model.design_point import DesignPoint, Target
from labconsole.model.plan.plan import Plan
from labconsole.units import format_target


def rate(target: Target) -> float:
    """For ordering: max is above every rate."""
    return math.inf if target == "max" else float(target)


class TargetLimits:
    """``note`` what a trial lost, ask ``left_out`` before one is begun. ``passes``: how often each point is taken at
    most, as by a pilot; None: as often as the plan repeats it.
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
        """A trial stands in place of what was noted before; ``loss_ratio`` is what its platform lost. One of which that
        is not known says nothing."""
        if not self._active:
            return
        if loss_ratio is None:
            self._losses.pop((point, repetition), None)
        else:
            self._losses[point, repetition] = loss_ratio

    def left_out(self, point: int, repetition: int) -> str | None:
        """Why this trial is not worth taking, None while it is."""
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
                return f"left out: {target} loses more than {rule.loss_ratio * 100:g} % already"
        return None

    def _nothing_more(self, higher: list[int], repetition: int) -> str | None:
        """Somewhere above, ``lossless`` neighbouring targets lost nothing in this repetition."""
        rule = self._plan.stop.lowering
        if rule is None:
            return None
        in_a_row = 0
        for index in higher:
            lost = self._losses.get((index, repetition))
            # Below 0: a few frames of the unit under test's own left it by the same port.
            in_a_row = in_a_row + 1 if lost is not None and lost <= 0 else 0
            if in_a_row >= rule.lossless:
                return f"left out: {rule.lossless} higher targets in a row lost nothing"
        return None
