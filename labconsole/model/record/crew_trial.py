"""Common parts of guest trial records: the trial's place in its plan, and the timekeeper's observations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labconsole.model.strict_model import StrictModel
from labconsole.packets.flows import MAX_BINS

MAX_GUESTS = 250
"""Of a crew: a plan asks for no more, and a record of more is none."""

Guests = Annotated[int, Field(ge=1, le=MAX_GUESTS)]
Bin = Annotated[int, Field(ge=0, le=2 * MAX_BINS)]
"""The number of a bin. There is room for guests that send longer than they should: bins are counted up to the first
``MAX_BINS``.
"""

Ns = Annotated[int, Field(ge=0, lt=2**63)]
Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]


class CrewTrialRef(StrictModel):
    """A trial's place in its plan; ``hash`` identifies its meaning. ``block``, ``repetition``, ``position`` from 1.

    ``attempt`` from 1, of at most ``attempts``. ``set_ups``, ``repetitions``: as in the plan. ``plan_hash``: of the
    whole plan, the key of notes on it, or None without a file.
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
    """A program of the guests, as in every guest that worked. ``unknown``: number of guests that did not report it."""

    name: str
    sha256: tuple[str, ...]
    unknown: int = 0


class TimekeeperRecord(StrictModel):
    """The timekeeper's observations besides the marks. ``wall_moved_ns``: adjustment of its wall clock meanwhile."""

    node: str
    interface: str
    address: str
    dropped_packets: int | None
    strange_packets: int
    doubled: tuple[str, ...]
    wall_moved_ns: int


class GuestEntry(StrictModel):
    """How the console entered an installed guest. ``tries``: attempts to enter, including the successful one;
    ``gap_s``: from the start of the last failed attempt to that of the successful one, which bounds how much earlier
    the guest may have been up, or None if the first one succeeded. ``mark_tries``: its pings, a second each, until it
    found the timekeeper, or None if not reported. ``joined_s``: from its start command until its NIC was on
    labconsole's bridge, before which no mark arrives, or None for the operator's bridge.
    """

    tries: Annotated[int, Field(ge=1)]
    gap_s: Annotated[float, Field(ge=0)] | None
    mark_tries: Annotated[int, Field(ge=1)] | None
    joined_s: Annotated[float, Field(ge=0)] | None


class EmptyJobs(StrictModel):
    """Jobs that do nothing, in the same crew before its first trial: the time of marks and shell."""

    each_s: tuple[Seconds, ...]
    mean_s: Seconds
    sd_s: Seconds
