"""A plan of starts of guests: its factors, its points, and by what each trial is known.

A point is a number of guests that are started at once on a platform, cold or hot. Every trial starts its guests anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from labconsole.model.plan.crews import DIFFERENT, CrewTrial, GuestCounts, MemoryMib, PlannedCrews
from labconsole.model.strict_model import StrictModel

Start = Literal["cold", "hot"]
"""cold: nothing of the guests' files is in the UUT's page cache; hot: all of them are."""

HASH_PREFIX = "boot-"
LONGEST_S = 1800
"""As long as an agent waits for a guest (wire/guests.py)."""


class BootFactors(StrictModel):
    """What is varied, and what every guest has.

    ``limit_s``: a guest that takes longer does not come. ``memory_mib``: what each has; None: the platform's.
    """

    guests: GuestCounts = (1,)
    start: Annotated[tuple[Start, ...], Field(min_length=1), DIFFERENT] = ("hot",)
    limit_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=LONGEST_S)] = 300.0
    memory_mib: MemoryMib | None = None


@dataclass(frozen=True, slots=True)
class BootPoint:
    """One design point. ``index`` counts from 0 in the plan's product of factors."""

    index: int
    platform: str
    guests: int
    start: Start
    crew: ClassVar[None] = None
    """No guests are kept for another trial."""

    def words(self) -> str:
        """``lxc: 5 guests, cold``."""
        return f"{self.platform}: {self.guests} guest{'s' if self.guests > 1 else ''}, {self.start}"

    def in_columns(self) -> dict[str, str]:
        """See CrewPoint."""
        return {"platform": self.platform, "guests": str(self.guests), "start": self.start}


BootTrial = CrewTrial[BootPoint]


@dataclass(frozen=True)
class PlannedBoots(PlannedCrews[BootFactors, BootPoint]):
    """What a plan has started, and how often: ``set_ups`` times ``repetitions`` at every point."""

    noun: ClassVar[str] = "boot"

    @cached_property
    def points(self) -> tuple[BootPoint, ...]:
        """The full cross product."""
        return boot_points(self.factors, self.platforms)

    def hash_of(self, trial: CrewTrial[BootPoint]) -> str:
        """See boot_hash()."""
        return boot_hash(self.factors, trial, self.salt)


def boot_points(factors: BootFactors, platforms: Sequence[str]) -> tuple[BootPoint, ...]:
    """Platform slowest, then start, then the number of guests."""
    found: list[BootPoint] = []
    for platform in platforms:
        for start in factors.start:
            for guests in factors.guests:
                found.append(BootPoint(len(found), platform, guests, start))
    return tuple(found)


def boot_hash(factors: BootFactors, trial: BootTrial, salt: str = "") -> str:
    """Hash of what one trial measures and which one it is, for resume; ``salt`` makes one that nobody resumes."""
    point = trial.point
    meaning = {
        "version": 1,
        "point": [point.platform, point.guests, point.start],
        "crew": [factors.memory_mib],
        "trial": [trial.block, trial.repetition],
        "salt": salt,
    }
    return HASH_PREFIX + hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]
