"""Whether a plan in blocks has time for another block before it is to stop; an incomplete block would be lost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from labconsole.engine.execution.blocks import first_block
from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.estimate import estimate
from labconsole.model.plan.order import Trial
from labconsole.model.plan.plan import Plan


def room_refusal(
    plan: Plan, left: list[Trial], inventory: Inventory, boots_s: Mapping[str, float]
) -> ConfigError | None:
    """The error if no block, with the rest of the pilot, fits before the plan is to stop; None if one fits."""
    if plan.set_ups is None or not left:
        return None
    now = datetime.now().astimezone()
    needed_s = estimate(plan, inventory, boots_s, first_block(plan, left)).total_s
    deadline = plan.stop.deadline(now)
    for key, room_s, value in (
        ("stop.after_s", plan.stop.after_s, plan.stop.after_s),
        ("stop.at", None if deadline is None else (deadline - now).total_seconds(), plan.stop.at),
    ):
        if room_s is not None and room_s < needed_s:
            return ConfigError(
                f"leaves {_format_duration(max(0.0, room_s))} to plan {plan.name}, and its next block takes about "
                f"{_format_duration(needed_s)} with what is left of the pilot: stop later, or make a block shorter "
                "(fewer repetitions, points or platforms; --platforms selects some of them)",
                key=key,
                value=value,
            )
    return None


def _format_duration(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"
