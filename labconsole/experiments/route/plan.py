"""A plan of guests that forward: its factors, its points, and the hash of each trial.

A point is a number of routers on a platform that forward at once, each the packets to its own MAC address, with a
number of routes in each. All points with the same routers are measured in one crew, and each block sets it up again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, model_validator

from labconsole.model.plan.crews import DIFFERENT, PLACED, CrewPoint, GuestCounts, MemoryMib, Placings, PlannedCrews
from labconsole.model.strict_model import StrictModel
from labconsole.packets.flows import MAX_BINS, MAX_CELLS

Target = int | Literal["max"]
"""Packets/s to all routers together; max: as many as the source can send."""

MOST_ROUTERS, MOST_ROUTES, MOST_FILTERS = 64, 500_000, 10_000
MOST_DESTINATIONS = 16_384
BIN_S = 0.1
"""Bin width of packet counts at the sink."""

LEAST_PPS, MOST_PPS = 1, 10**9
_PPS = re.compile(r"^\s*(\d{1,12}(?:\.\d{1,9})?)\s*([kM]?)(?:pps|packets/s)\s*$")
_SI = {"": 1, "k": 10**3, "M": 10**6}


def _target(value: Any) -> Target:
    if value == "max":
        return "max"
    found = _PPS.match(str(value))
    pps = round(float(found[1]) * _SI[found[2]]) if found else 0
    if not LEAST_PPS <= pps <= MOST_PPS:
        raise ValueError("is not a packet rate | allowed: max, or a rate such as 130kpps, 20000pps or 1.5Mpps")
    return pps


def format_target_pps(target: Target) -> str:
    """The target as a plan writes it."""
    if target == "max":
        return "max"
    return f"{target / 1000:g}kpps" if target >= 1000 else f"{target}pps"


TargetWish = Annotated[Target, PlainValidator(_target, json_schema_input_type=str)]


def _destinations(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MOST_DESTINATIONS or value & (value - 1):
        raise ValueError(f"is not a number of destinations | allowed: a power of two from 1 to {MOST_DESTINATIONS}")
    return value


class RouteFactors(StrictModel):
    """Varied factors, and common settings of every crew.

    ``routes``: prefixes of each router besides those that the traffic takes; ``destinations``: number of addresses that
    the traffic is spread over, each with a route of its own; ``filters``: rules of a router's packet filter that match
    nothing, a cost for each packet; ``targets``: rates sent to all routers together.
    """

    guests: GuestCounts = (1,)
    cpu: Placings = ("any",)
    routes: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=0, le=MOST_ROUTES)], ...],
        Field(min_length=1, max_length=100),
        DIFFERENT,
    ] = (0,)
    destinations: Annotated[
        tuple[Annotated[int, PlainValidator(_destinations, json_schema_input_type=int)], ...],
        Field(min_length=1, max_length=15),
        DIFFERENT,
    ] = (1,)
    filters: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=0, le=MOST_FILTERS)], ...],
        Field(min_length=1, max_length=100),
        DIFFERENT,
    ] = (0,)
    targets: Annotated[tuple[TargetWish, ...], Field(min_length=1, max_length=100), DIFFERENT] = ("max",)
    frame_sizes: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=64, le=1518)], ...], Field(min_length=1, max_length=100), DIFFERENT
    ] = (64,)
    duration_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=600)] = 10.0
    memory_mib: MemoryMib | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if max(self.guests) > MOST_ROUTERS:
            raise ValueError(f"guests are too many routers | allowed: at most {MOST_ROUTERS}")
        bins = round(self.duration_s / BIN_S) + 2
        if bins > MAX_BINS or bins * max(self.guests) > MAX_CELLS:
            raise ValueError(
                f"duration_s makes {bins} bins of {max(self.guests)} routers, too many to be counted | allowed: "
                f"{MAX_BINS} bins, and {MAX_CELLS} of all routers together"
            )
        slow = [target for target in self.targets if target != "max" and target < max(self.guests)]
        if slow:
            raise ValueError("targets leave a router less than a packet a second | allowed: 1 packet/s for each router")
        return self


@dataclass(frozen=True, slots=True)
class RoutePoint(CrewPoint):
    """One design point."""

    routes: int
    destinations: int
    filters: int
    target: Target
    frame_bytes: int

    def words(self) -> str:
        """``lxc: 2 routers, 1000 routes each, 130kpps in all, 64 B, on the same CPU``."""
        return self.format_load() + PLACED[self.cpu]

    def format_load(self) -> str:
        """The point without the placement."""
        rate = "as much as the source can" if self.target == "max" else f"{format_target_pps(self.target)} in all"
        text = f"{self.platform}: {self.guests} router{'s' if self.guests > 1 else ''}, "
        text += f"{self.routes} route{'' if self.routes == 1 else 's'}"
        text += " each" if self.guests > 1 else ""
        text += f", to {self.destinations} destinations" if self.destinations > 1 else ""
        text += f", {self.filters} filter rule{'s' if self.filters > 1 else ''}" if self.filters else ""
        return f"{text}, {rate}, {self.frame_bytes} B"

    def format_factors(self) -> dict[str, str]:
        """See CrewPoint."""
        return {
            "platform": self.platform,
            "guests": str(self.guests),
            "routes": str(self.routes),
            "target": format_target_pps(self.target),
            "frame": f"{self.frame_bytes} B",
            "filters": str(self.filters),
            "destinations": str(self.destinations),
            "cpu": self.cpu,
        }


@dataclass(frozen=True)
class PlannedRoutes(PlannedCrews[RouteFactors, RoutePoint]):
    """A plan's router trials."""

    kind: ClassVar[str] = "route"
    Factors = RouteFactors

    @cached_property
    def points(self) -> tuple[RoutePoint, ...]:
        """The full cross product."""
        return route_points(self.factors, self.platforms)

    def meaning_of(self, point: RoutePoint) -> dict[str, Any]:
        """See PlannedCrews."""
        return {
            "version": 1,
            "point": [
                point.platform,
                point.guests,
                point.cpu,
                point.routes,
                point.destinations,
                point.filters,
                point.target,
                point.frame_bytes,
            ],
            "window": [self.factors.duration_s, BIN_S],
            "crew": [self.factors.memory_mib],
        }

    def describe(self) -> list[tuple[str, str]]:
        """See PlannedCrews."""
        factors = self.factors
        guests, many = (", ".join(map(str, each)) for each in (factors.guests, factors.routes))
        sent = ", ".join(map(format_target_pps, factors.targets))
        return [
            ("routers", f"{guests} at once for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}"),
            ("routes", f"{many} in each; {sent} of {', '.join(map(str, factors.frame_sizes))} B"),
        ]


def route_points(factors: RouteFactors, platforms: Sequence[str]) -> tuple[RoutePoint, ...]:
    """The full cross product."""
    found = (
        (platform, guests, cpu, routes, destinations, filters, target, frame_bytes)
        for platform in platforms
        for cpu in factors.cpu
        for guests in factors.guests
        for routes in factors.routes
        for destinations in factors.destinations
        for filters in factors.filters
        for target in factors.targets
        for frame_bytes in factors.frame_sizes
    )
    return tuple(RoutePoint(index, *each) for index, each in enumerate(found))


PLANNED = PlannedRoutes
