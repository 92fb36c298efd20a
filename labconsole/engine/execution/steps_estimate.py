"""How long steps of a plan take, before any is carried out. Pure."""

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
    """What steps take on units that behave: noisy ones need more. ``each_s``: of every step."""

    trials: int
    each_s: tuple[float, ...]

    @property
    def total_s(self) -> float:
        """All of them."""
        return sum(self.each_s)


def estimate_steps(
    plan: Plan, steps: Sequence[Step], inventory: Inventory, boots_s: Mapping[str, float]
) -> StepsEstimate:
    """Traffic, waits, platforms set up and warm-ups of these steps of a plan that is resolved for its testbed."""
    around_s = (plan.drain_s or 0.0) + (plan.settle_s or 0.0) + TRIAL_OVERHEAD_S
    trials, each_s, stands = 0, [], None
    for step in steps:
        durations_s = step.durations_s(inventory)
        trials += len(durations_s)
        took_s = sum(durations_s) + len(durations_s) * around_s
        if stands != (stands := set_up_key(step.request, inventory)):
            took_s += PLATFORM_SWITCH_S + boot_s(step.request, boots_s)
            if plan.warm_up is not None and durations_s:
                took_s += around_s + (plan.warm_up.duration_s or durations_s[0])
        each_s.append(took_s)
    return StepsEstimate(trials=trials, each_s=tuple(each_s))
