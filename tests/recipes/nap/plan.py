"""A plan of naps: its factors, its points, and what a trial means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from labconsole.model.plan.crews import DIFFERENT, CrewPoint, GuestCounts, MemoryMib, PlannedCrews
from labconsole.model.strict_model import StrictModel

Bed = Literal["soft", "hard"]


class NapFactors(StrictModel):
    """Varied factors, and common settings."""

    guests: GuestCounts = (1,)
    bed: Annotated[tuple[Bed, ...], Field(min_length=1), DIFFERENT] = ("soft",)
    for_s: Annotated[float, Field(strict=True, ge=1, le=60)] = 1.0
    memory_mib: MemoryMib | None = None


@dataclass(frozen=True, slots=True)
class NapPoint(CrewPoint):
    """One design point."""

    bed: Bed

    def words(self) -> str:
        """``lxc: 2 guests in a soft bed``."""
        return f"{self.platform}: {self.guests} guests in a {self.bed} bed"

    def format_factors(self) -> dict[str, str]:
        """See CrewPoint."""
        return {"platform": self.platform, "guests": str(self.guests), "bed": self.bed}


@dataclass(frozen=True)
class PlannedNaps(PlannedCrews[NapFactors, NapPoint]):
    """A plan's naps."""

    kind: ClassVar[str] = "nap"
    Factors = NapFactors

    @cached_property
    def points(self) -> tuple[NapPoint, ...]:
        """The full cross product."""
        found = [(p, n, "any", bed) for p in self.platforms for n in self.factors.guests for bed in self.factors.bed]
        return tuple(NapPoint(index, *each) for index, each in enumerate(found))

    def meaning_of(self, point: NapPoint) -> dict[str, Any]:
        """See PlannedCrews."""
        factors = self.factors
        return {
            "version": 1,
            "point": [point.platform, point.guests, point.bed],
            "for": factors.for_s,
            "crew": [factors.memory_mib],
        }

    def describe(self) -> list[tuple[str, str]]:
        """See PlannedCrews."""
        return [("naps", f"of {', '.join(map(str, self.factors.guests))} guests for {self.factors.for_s:g} s")]


PLANNED = PlannedNaps
