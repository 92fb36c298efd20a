"""A plan of guest boots: its factors, its points, and the hash of each trial.

A point is a number of guests started at once on a platform, cold or hot. Every trial starts new guests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from labconsole.model.plan.crews import DIFFERENT, CrewPoint, GuestCounts, MemoryMib, PlannedCrews
from labconsole.model.strict_model import StrictModel

Start = Literal["cold", "hot"]
"""cold: nothing of the guests' files is in the UUT's page cache; hot: all of them are."""

LONGEST_S = 1800
"""Maximum time an agent waits for a guest (wire/guests.py)."""


class BootFactors(StrictModel):
    """Varied factors, and common settings of every guest.

    ``limit_s``: boot time after which a guest counts as missing. ``memory_mib``: memory of each, or None for the
    platform's default.
    """

    guests: GuestCounts = (1,)
    start: Annotated[tuple[Start, ...], Field(min_length=1), DIFFERENT] = ("hot",)
    limit_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=LONGEST_S)] = 300.0
    memory_mib: MemoryMib | None = None


@dataclass(frozen=True, slots=True)
class BootPoint(CrewPoint):
    """One design point."""

    start: Start

    @property
    def crew(self) -> None:
        """See CrewPoint."""

    def words(self) -> str:
        """``lxc: 5 guests, cold``."""
        return f"{self.platform}: {self.guests} guest{'s' if self.guests > 1 else ''}, {self.start}"

    def format_factors(self) -> dict[str, str]:
        """See CrewPoint."""
        return {"platform": self.platform, "guests": str(self.guests), "start": self.start}


@dataclass(frozen=True)
class PlannedBoots(PlannedCrews[BootFactors, BootPoint]):
    """A plan's guest boots: ``set_ups`` times ``repetitions`` trials at every point."""

    kind: ClassVar[str] = "boot"
    Factors = BootFactors

    @cached_property
    def points(self) -> tuple[BootPoint, ...]:
        """The full cross product."""
        return boot_points(self.factors, self.platforms)

    def meaning_of(self, point: BootPoint) -> dict[str, Any]:
        """See PlannedCrews."""
        return {
            "version": 1,
            "point": [point.platform, point.guests, point.start],
            "crew": [self.factors.memory_mib],
        }

    def describe(self) -> list[tuple[str, str]]:
        """See PlannedCrews."""
        guests = ", ".join(str(number) for number in self.factors.guests)
        return [("starts", f"of {guests} guests; {', '.join(self.factors.start)}")]


def boot_points(factors: BootFactors, platforms: Sequence[str]) -> tuple[BootPoint, ...]:
    """Platform slowest, then start, then the number of guests."""
    found: list[BootPoint] = []
    for platform in platforms:
        for start in factors.start:
            for guests in factors.guests:
                found.append(BootPoint(len(found), platform, guests, "any", start))
    return tuple(found)


PLANNED = PlannedBoots
