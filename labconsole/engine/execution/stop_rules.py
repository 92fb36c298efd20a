"""Which targets of a plan are left out in view of known losses: RFC 2544's loss sweep, and no needless overload.

The rules use results alone, never the times of trials: an interrupted plan leaves out the same trials as an
uninterrupted one.
"""

from __future__ import annotations

import math

from labconsole.model.design_point import DesignPoint, Target
from labconsole.model.plan.plan import Plan
from labconsole.units import format_target


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
