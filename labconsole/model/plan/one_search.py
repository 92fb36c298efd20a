"""One search of one configuration, asked for at the command line or in the console instead of in a plan's file."""

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
"""What the trials of such a search have as their plan's name."""

_PURPOSE = "search: "


def one_search(request: DesignPoint, asked: Search, inventory: Inventory) -> Plan:
    """The plan that makes this search, and nothing else. Raises ConfigError."""
    return replace(plan_from_requests(PLAN_NAME, [(request, 1)], inventory), seed=0, search=asked, grid=False)


def search_purpose(plan: Plan) -> str:
    """What others are told while such a search runs."""
    return _PURPOSE + plan.points[0].request.format_without_load()


def is_one_search(plan_name: str, purpose: str) -> bool:
    """Whether another console's trial is such a search's, and not of a plan that happens to have this name."""
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
    """Goals and tests with what is to be other than usual: ``trial_s`` of all of them, ``repetitions`` of bursts and
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
