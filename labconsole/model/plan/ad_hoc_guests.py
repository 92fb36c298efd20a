"""A plan of a guest experiment for a few design points, from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import Inventory
from labconsole.model.plan.crews import PlannedCrews
from labconsole.model.plan.normalization import ANY_FRAME_BYTES
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.writer import plan_from_requests
from labconsole.model.strict_model import StrictModel
from labconsole.model.validation_message import describe_problem

Factors = TypeVar("Factors", bound=StrictModel)

MAX_TRIALS = 100_000


def build_guest_plan(
    planned: type[PlannedCrews[Any, Any]],
    platforms: Sequence[str],
    factors: StrictModel,
    inventory: Inventory,
    *,
    set_ups: int = 1,
    repetitions: int = 1,
) -> Plan:
    """Build a plan of this one guest experiment, named after its kind. Raises ConfigError."""
    for platform in platforms:
        if platform not in inventory.platforms:
            raise ConfigError(
                "is not in the inventory", key="--platforms", value=platform, allowed=", ".join(inventory.platforms)
            )
    if len(set(platforms)) < len(platforms):
        raise ConfigError("lists a platform twice", key="--platforms", value=",".join(platforms), allowed="each once")
    at_no_load = [
        (
            DesignPoint(platform=platform, frame=FrameSize(ANY_FRAME_BYTES), sources=1, target="max", duration_s=1.0),
            1,
        )
        for platform in platforms
    ]
    guests = planned(factors, tuple(platforms), set_ups, repetitions, seed=0)
    at_points = plan_from_requests(guests.kind, at_no_load, inventory)
    plan = replace(at_points, seed=0, guests=guests, grid=False, ad_hoc=True)
    if (trials := len(guests.points) * set_ups * repetitions) > MAX_TRIALS:
        raise ConfigError(f"asks for {trials} trials", key="--repetitions", allowed=f"at most {MAX_TRIALS}; or a plan")
    return plan


def parse_factors(of: type[Factors], given: Mapping[str, Any]) -> Factors:
    """Parse factors by the names of a plan; None values are left out. Raises ConfigError with the name as its key, and
    for nested factors with the inner name after a dot: jobs.size.
    """
    try:
        return of.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        message, allowed = describe_problem(problem)
        value = problem["input"]
        if isinstance(value, list):
            value = ",".join(map(str, value))
        elif not isinstance(value, (str, int, float)):
            value = None
        names = [step for step in problem["loc"] if isinstance(step, str)]
        raise ConfigError(message, key=".".join(names) or None, value=value, allowed=allowed) from None
