"""Plans from the command line or the console: one search, or guests at a few design points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import Inventory
from labconsole.model.plan.crews import PlannedCrews
from labconsole.model.plan.file import ANY_FRAME_BYTES
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import Search
from labconsole.model.plan.writer import plan_from_requests
from labconsole.model.strict_model import StrictModel, describe_problem

# -- one search --------------------------------------------------------------------------------------------------------
# One search of one configuration, from the command line or the console instead of a plan's file.

PLAN_NAME = "search"
"""Plan name of such a search's trials."""

_PURPOSE = "search: "


def one_search(request: DesignPoint, search: Search, inventory: Inventory) -> Plan:
    """A plan with only this search. Raises ConfigError."""
    return replace(plan_from_requests(PLAN_NAME, [(request, 1)], inventory), seed=0, search=search, grid=False)


def search_purpose(plan: Plan) -> str:
    """Purpose that other consoles see while such a search runs."""
    return _PURPOSE + plan.points[0].request.format_without_load()


def is_one_search(plan_name: str, purpose: str) -> bool:
    """Whether another console's trial belongs to such a search, and not to a plan of the same name."""
    return plan_name == PLAN_NAME and purpose.startswith(_PURPOSE)


def build_search(
    goals: Sequence[str],
    *,
    trial_s: float | None = None,
    duration_sum_s: float | None = None,
    width_ratio: float | None = None,
    repetitions: int | None = None,
    max_trials: int | None = None,
) -> Search:
    """Build goals and tests with overridden defaults: ``trial_s`` for all of them, ``repetitions`` for bursts and
    latency. Raises ConfigError with the parameter as its key.
    """
    every = {} if trial_s is None else {"trial_s": trial_s}
    times = {} if repetitions is None else {"repetitions": repetitions}
    usual = {"duration_sum_s": duration_sum_s, "width_ratio": width_ratio, "max_trials": max_trials}
    given: dict[str, Any] = {
        **every,
        **{key: value for key, value in usual.items() if value is not None},
        "goals": tuple(dict.fromkeys(goals)),
        "frame_loss": every,
        "back_to_back": {**every, **times},
        "latency": {**every, **times},
    }
    try:
        return Search.model_validate(given)
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        steps = [str(step) for step in problem["loc"] if isinstance(step, str)]
        message, allowed = describe_problem(problem)
        key = steps[-1] if steps else "duration_sum_s" if "duration_sum_s" in message else "goals"
        value = problem["input"] if isinstance(problem["input"], (str, int, float)) else None
        raise ConfigError(message, key=key, value=value, allowed=allowed) from None


# -- guests ------------------------------------------------------------------------------------------------------------
# A plan of a guest experiment for a few design points, from the command line.

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
