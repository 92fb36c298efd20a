"""Scenarios of flows: weights by which guests share a link over time, and the disk job of one guest."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from labconsole.model.jobs import JOBS
from labconsole.model.strict_model import StrictModel

# -- weights -----------------------------------------------------------------------------------------------------------
# Weights by which guests share a link, and how they change over time.

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


# -- background disk job -----------------------------------------------------------------------------------------------
# The disk job of one guest while the others send: which job, and when.

Moment = Annotated[float, Field(allow_inf_nan=False, ge=0, le=3600)]
_SIZES = {"disk-read": 64, "disk-zero": 4}
"""Sizes of jobs that are repeated until their time is over, small enough to end soon after it."""

BackgroundJob = Literal["disk-mixed", "disk-read", "disk-zero"]


class DiskBeside(StrictModel):
    """The last guest works on its disk from ``from_s`` to ``to_s`` after the others began, and sends nothing."""

    job: BackgroundJob = "disk-mixed"
    from_s: Moment = 10.0
    to_s: Moment = 20.0

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if self.to_s < self.from_s + 1:
            raise ValueError("to_s is not after from_s | allowed: at least a second later")
        return self

    @property
    def early_s(self) -> float:
        """How much too early the work may end: repeated jobs end by the guest's whole seconds."""
        return 1.0 if self.job in _SIZES else 0.0

    @property
    def size(self) -> int:
        """The job's size, in its own unit."""
        return _SIZES.get(self.job, round(self.to_s - self.from_s))

    @property
    def needed_mib(self) -> int:
        """Size of the disk that the job needs."""
        work = JOBS[self.job].disk
        return 0 if work is None else work.needed_mib(self.size, 1)

    def command(self) -> str:
        """The shell command: the job, repeated if one pass does not fill the time."""
        command = JOBS[self.job].command(self.size)
        if self.job not in _SIZES:
            return command
        return (
            f"read u x </proc/uptime; e=$((${{u%.*}} + {round(self.to_s - self.from_s)})); "
            f'while read u x </proc/uptime; [ "${{u%.*}}" -lt "$e" ]; do {command} || exit 1; done'
        )

    def words(self) -> str:
        """``disk-mixed in the last from 10 to 20 s``."""
        return f"{self.job} in the last from {self.from_s:g} to {self.to_s:g} s"
