"""Weights by which guests share a link, and how they change over time."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from labconsole.model.strict_model import StrictModel

MOST_WEIGHT, MOST_STEPS = 1000, 1000
Weights = tuple[int, ...]
"""Weights of the guests in turn: each is due its weight's share of the sum."""


def _weights(value: Any) -> Weights:
    parts = value.split(":") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or len(parts) < 2:
        raise ValueError("are not weights | allowed: one for each guest, such as 30:1")
    try:
        found = tuple(int(each) for each in parts if not isinstance(each, (bool, float)))
    except (TypeError, ValueError):
        found = ()
    if len(found) != len(parts) or not all(1 <= each <= MOST_WEIGHT for each in found):
        raise ValueError(f"are not weights | allowed: whole numbers from 1 to {MOST_WEIGHT}, such as 30:1")
    return found


def weights_text(weights: Weights) -> str:
    """``30:1``."""
    return ":".join(map(str, weights))


class WeightSteps(StrictModel):
    """Weights in steps of ``every_s`` each, from when the guests begin to send; the last step lasts to the end."""

    every_s: Annotated[float, Field(allow_inf_nan=False, gt=0, le=3600)] = 1.0
    steps: Annotated[
        tuple[Annotated[Weights, BeforeValidator(_weights, json_schema_input_type=str | list[int])], ...],
        Field(min_length=1, max_length=MOST_STEPS),
    ]

    @model_validator(mode="after")
    def _alike(self) -> Self:
        if len({len(each) for each in self.steps}) > 1:
            raise ValueError("steps have different numbers of guests | allowed: the same number of weights in each")
        return self

    @property
    def guests(self) -> int:
        """Number of guests that share the link."""
        return len(self.steps[0])

    def words(self) -> str:
        """``weights 30:1 to 1:30 in 9 steps of 1 s``."""
        if len(self.steps) == 1:
            return f"weights {weights_text(self.steps[0])}"
        ends = f"{weights_text(self.steps[0])} to {weights_text(self.steps[-1])}"
        return f"weights {ends} in {len(self.steps)} steps of {self.every_s:g} s"

    def rates_bps(self, link_bps: int, most_bps: tuple[int, ...]) -> list[list[int]]:
        """Each guest's due rate in each step of a link of ``link_bps``, at most its own maximum."""
        return [
            [min(most, link_bps * weight // sum(step)) for weight, most in zip(step, most_bps, strict=True)]
            for step in self.steps
        ]
