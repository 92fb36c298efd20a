"""Estimates how long a plan's steps take, before any of them is carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.contracts.experiment import Step
from labconsole.model.inventory import Inventory
from labconsole.model.plan.estimate import PLATFORM_SWITCH_S, TRIAL_OVERHEAD_S, boot_s
from labconsole.model.plan.order import set_up_key
from labconsole.model.plan.plan import Plan


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
