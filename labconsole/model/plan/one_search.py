"""One search of one configuration, from the command line or the console instead of a plan's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import Search
from labconsole.model.plan.writer import plan_from_requests
from labconsole.model.validation_message import describe_problem

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
