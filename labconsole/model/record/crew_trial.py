"""What records of trials of crews have in common: which trial of which plan, and what the node outside saw."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labconsole.model.strict_model import StrictModel

MAX_GUESTS = 250
"""Of a crew: a plan asks for no more, and a record of more is none."""

Guests = Annotated[int, Field(ge=1, le=MAX_GUESTS)]
Ns = Annotated[int, Field(ge=0, lt=2**63)]
Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]


class CrewTrialRef(StrictModel):
    """Which trial of which plan; ``hash`` says what it means. ``block``, ``repetition``, ``position`` from 1.

    ``attempt`` from 1, of at most ``attempts``. ``set_ups``, ``repetitions``: as the plan asked. ``plan_hash``: of the
    whole plan, under which notes on it are kept; None: it has no file.
    """

    name: str
    hash: str
    point: int
    block: int
    repetition: int
    position: int
    seed: int
    set_ups: int
    repetitions: int
    attempt: int = 1
    attempts: int = 1
    margin_ratio: float | None = None
    plan_hash: str | None = None


class ProgramRecord(StrictModel):
    """A program that guests run, as every guest that worked has it. ``unknown``: of how many it could not be told."""

    name: str
    sha256: tuple[str, ...]
    unknown: int = 0


class TimekeeperRecord(StrictModel):
    """What the node outside saw beside the marks. ``wall_moved_ns``: by how much its wall clock was set meanwhile."""

    node: str
    interface: str
    address: str
    dropped_packets: int | None
    strange_packets: int
    doubled: tuple[str, ...]
    wall_moved_ns: int
