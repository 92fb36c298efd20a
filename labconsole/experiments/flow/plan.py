"""A plan of flows from guests that share one NIC, or to them: its factors, its points, and the hash of each trial.

A point is a number of guests on a platform that send at once at a given rate, with or without a rate limit. All points
with the same guests are measured in one crew, and each block sets it up again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from labconsole.model.flow_scenarios import DiskBeside, WeightSteps
from labconsole.model.plan.crews import DIFFERENT, PLACED, CrewPoint, GuestCounts, MemoryMib, Placings, PlannedCrews
from labconsole.model.strict_model import StrictModel
from labconsole.packets.flows import MAX_BINS, MAX_CELLS
from labconsole.units import format_target, parse_rate_bps

Pattern = Literal["out", "in", "ring"]
"""out: all guests send to the sink; in: the source sends to all of them; ring: each sends to the next over TCP, and
nothing leaves the UUT.
"""

Limits = tuple[int, ...]
"""Rate limits of the guests in turn, in bit/s; empty without limits."""

MOST_FLOWS = 16
LEAST_LIMIT_BPS, MOST_LIMIT_BPS = 8_000, 680 * 10**9
"""A limiter counts in bytes per second, and its queue is at most 50 ms of its rate, in 32 bits."""

SETTLED_S = 0.2
"""Time after a change of weights in which arriving packets belong to neither the old nor the new weights."""

LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES = 18, 1472
"""A shorter payload is padded to the shortest frame, a longer one is fragmented on a link of 1500 bytes."""


def _rate(value: Any) -> int:
    try:
        return parse_rate_bps(value if isinstance(value, int) else str(value))
    except ValueError as exc:
        raise ValueError(f"is not a rate | allowed: {exc}") from None


def _offered(value: Any) -> int | Literal["line"]:
    return "line" if value == "line" else _rate(value)


def _limits(value: Any) -> Limits:
    if value is None or value is False or value == "none":
        return ()
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise ValueError("lists no rate | allowed: none, a rate such as 30Mbit, or a list of rates, the guests in turn")
    rates = tuple(_rate(each) for each in values)
    if min(rates) < LEAST_LIMIT_BPS or max(rates) > MOST_LIMIT_BPS:
        problem, rate = ("low", min(rates)) if min(rates) < LEAST_LIMIT_BPS else ("high", max(rates))
        allowed = f"{LEAST_LIMIT_BPS} to {MOST_LIMIT_BPS} bit/s, which the kernel's limiters can express"
        raise ValueError(f"has too {problem} a limit, {rate} bit/s | allowed: {allowed}")
    return rates


Offered = Annotated[int | Literal["line"], PlainValidator(_offered, json_schema_input_type=int | str)]
LimitsWish = Annotated[Limits, PlainValidator(_limits, json_schema_input_type=int | str | list[int | str] | None)]
NONE = BeforeValidator(lambda value: None if value in (False, "none") else value)
WeightsWish = Annotated[WeightSteps | None, NONE]
DiskWish = Annotated[DiskBeside | None, NONE]
Late = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=3600)]


def _one_or_more(value: Any) -> Any:
    """Accept a single mapping for a factor with one value."""
    return (value,) if isinstance(value, dict) else value


class FlowFactors(StrictModel):
    """Varied factors, and common settings of every crew.

    ``offered``: payload rate per flow; ``line`` is the link's speed, and for guests that receive an equal part of the
    link's capacity. ``limits``: rate limit of each guest, in whole frames; ``greedy``: number of flows of the first
    guest, where all others have one; ``second_after_s``: delay of all other guests' start after the first's. ``bin_s``:
    averaging interval of a rate. ``pattern``: direction of the traffic; a ring varies only ``guests``, ``cpu`` and
    ``limits``, receiving guests only ``guests``, ``cpu``, ``offered`` and ``payload_bytes``. ``weights``: the guests'
    weights on the link over time, or None for no weights. ``disk``: the last guest's disk job meanwhile, and when.
    """

    pattern: Annotated[tuple[Pattern, ...], Field(min_length=1), DIFFERENT] = ("out",)
    guests: GuestCounts = (1,)
    cpu: Placings = ("any",)
    offered: Annotated[tuple[Offered, ...], Field(min_length=1, max_length=100), DIFFERENT] = ("line",)
    limits: Annotated[tuple[LimitsWish, ...], Field(min_length=1, max_length=100), DIFFERENT] = ((),)
    greedy: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=1, le=MOST_FLOWS)], ...], Field(min_length=1), DIFFERENT
    ] = (1,)
    second_after_s: Annotated[tuple[Late, ...], Field(min_length=1, max_length=100), DIFFERENT] = (0.0,)
    payload_bytes: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=LEAST_PAYLOAD_BYTES, le=MOST_PAYLOAD_BYTES)], ...],
        Field(min_length=1, max_length=100),
        DIFFERENT,
    ] = (1472,)
    weights: Annotated[
        tuple[WeightsWish, ...], BeforeValidator(_one_or_more), Field(min_length=1, max_length=100), DIFFERENT
    ] = (None,)
    disk: Annotated[
        tuple[DiskWish, ...], BeforeValidator(_one_or_more), Field(min_length=1, max_length=100), DIFFERENT
    ] = (None,)
    duration_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=3600)] = 10.0
    bin_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0.01, le=60)] = 1.0
    memory_mib: MemoryMib | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if "ring" in self.pattern and max(self.guests) < 2:
            raise ValueError("pattern ring has too few guests | allowed: two or more, each of which sends to the next")
        if "in" in self.pattern and any(self.limits):
            raise ValueError(
                "limits apply to what a guest sends, and in pattern in guests receive | allowed: none, or a separate "
                "plan for what guests receive"
            )
        if self.pattern == ("in",) and (max(self.greedy) > 1 or max(self.second_after_s) > 0):
            raise ValueError(
                "greedy and second_after_s apply to guests that send, and in pattern in guests receive | "
                "allowed: 1 and 0"
            )
        if "out" not in self.pattern and (any(self.weights) or any(self.disk)):
            raise ValueError("weights and disk apply to guests that send to the sink | allowed: none, or pattern out")
        if self.bin_s * 2 > self.duration_s:
            raise ValueError("bin_s leaves fewer than two bins in duration_s | allowed: at most half of it")
        if max(self.second_after_s) + 2 * self.bin_s > self.duration_s:
            raise ValueError(
                "second_after_s leaves no two bins in which all guests send | allowed: two bins less than duration_s"
            )
        bins, most_flows = round(self.duration_s / self.bin_s) + 2, max(self.guests) - 1 + max(self.greedy)
        if bins > MAX_BINS or bins * most_flows > MAX_CELLS:
            raise ValueError(
                f"bin_s makes {bins} bins of {most_flows} flows, too many to be counted | allowed: {MAX_BINS} bins, "
                f"and {MAX_CELLS} of all flows together"
            )
        for weights in filter(None, self.weights):
            self._check_weights(weights)
        for disk in filter(None, self.disk):
            self._check_disk(disk)
        return self

    def _check_weights(self, weights: WeightSteps) -> None:
        """Raises ValueError for weights of other guests, or for steps of too few bins."""
        if set(self.guests) != {weights.guests}:
            raise ValueError(
                f"weights are for {weights.guests} guests, but guests are {', '.join(map(str, self.guests))} | "
                "allowed: one weight for each guest"
            )
        last_s = self.duration_s - weights.every_s * (len(weights.steps) - 1)
        shortest_s = min(last_s, weights.every_s) if len(weights.steps) > 1 else self.duration_s
        if shortest_s < SETTLED_S + 3 * self.bin_s:
            raise ValueError(
                f"bin_s leaves fewer than three bins in a step of weights of {shortest_s:g} s, of which the first "
                f"{SETTLED_S:g} s do not count | allowed: at most {(shortest_s - SETTLED_S) / 3:.3f} s, or longer steps"
                if shortest_s > SETTLED_S
                else f"duration_s ends before the last step of weights does | allowed: {len(weights.steps)} steps of "
                f"{weights.every_s:g} s and more"
            )

    def _check_disk(self, disk: DiskBeside) -> None:
        """Raises ValueError for disk work that gives no result."""
        if min(self.guests) < 2:
            raise ValueError("disk leaves no guest that sends | allowed: two guests or more, the last of which works")
        if any(self.weights):
            raise ValueError("disk and weights cannot be combined | allowed: a separate plan for each")
        if disk.from_s < 3 * self.bin_s or disk.to_s + 2 * self.bin_s > self.duration_s:
            raise ValueError(
                "disk leaves too few bins | allowed: from_s at least three bins after the beginning, to_s at "
                "least two bins before the end, and work that ends in time"
            )

    @property
    def crew_disk_mib(self) -> int:
        """Disk size of the last guest in each crew, or 0 without a disk."""
        return max((each.needed_mib for each in self.disk if each is not None), default=0)


@dataclass(frozen=True, slots=True)
class FlowPoint(CrewPoint):
    """One design point."""

    offered: int | Literal["line"]
    limits: Limits
    greedy: int
    second_after_s: float
    payload_bytes: int
    pattern: Pattern = "out"
    weights: WeightSteps | None = None
    disk: DiskBeside | None = None

    @property
    def crew(self) -> Hashable:
        """See CrewPoint. Receiving guests share the NIC that leads to the source instead of the one to the sink."""
        return self.platform, self.guests, self.cpu, self.pattern == "in"

    def limit_of(self, guest: int) -> int | None:
        """Rate limit of a guest, from 0, in bit/s, or None if it has none."""
        return self.limits[guest % len(self.limits)] if self.limits else None

    def flows_of(self, guest: int) -> int:
        """Number of flows of a guest, from 0."""
        return self.greedy if guest == 0 else 1

    def words(self) -> str:
        """``lxc: 2 guests offer 100Mbit each, limits 30Mbit, 40Mbit``."""
        where = PLACED[self.cpu]
        limits = f", limit{'s' if len(self.limits) > 1 else ''} " if self.limits else ""
        limits += ", ".join(map(format_target, self.limits))
        if self.pattern == "ring":
            return f"{self.platform}: {self.guests} guests in a ring, each sends to the next over TCP{limits}{where}"
        each = "line rate" if self.offered == "line" else format_target(self.offered)
        if self.pattern == "in":
            many = f"{self.guests} guests are sent {each}" if self.guests > 1 else f"1 guest is sent {each}"
            share = " each" if self.guests > 1 and self.offered != "line" else ""
            return f"{self.platform}: {many}{share}{where}{self._format_payload()}"
        text = f"{self.platform}: {self.guests} guest{'s offer' if self.guests > 1 else ' offers'} {each}"
        text += " a flow" if self.greedy > 1 else ""
        text += f", the first in {self.greedy} flows" if self.greedy > 1 else ""
        text += limits
        text += f", {self.weights.words()}" if self.weights else ""
        text += f", {self.disk.words()}" if self.disk else ""
        text += f", all but the first {self.second_after_s:g} s later" if self.second_after_s else ""
        return text + where + self._format_payload()

    def format_factors(self) -> dict[str, str]:
        """See CrewPoint."""
        return {
            "platform": self.platform,
            "guests": str(self.guests),
            "offered": self.offered if self.offered == "line" else format_target(self.offered),
            "limits": ", ".join(map(format_target, self.limits)),
            "flows": str(self.greedy),
            "later": f"{self.second_after_s:g} s" if self.second_after_s else "",
            "cpu": self.cpu,
            "pattern": self.pattern,
            "weights": self.weights.words().removeprefix("weights ") if self.weights else "",
            "disk": self.disk.words() if self.disk else "",
            "payload": f"{self.payload_bytes} B",
        }

    def _format_payload(self) -> str:
        return "" if self.payload_bytes == MOST_PAYLOAD_BYTES else f", payload {self.payload_bytes} B"


@dataclass(frozen=True)
class PlannedFlows(PlannedCrews[FlowFactors, FlowPoint]):
    """A plan's flow trials."""

    kind: ClassVar[str] = "flow"
    Factors = FlowFactors

    @cached_property
    def points(self) -> tuple[FlowPoint, ...]:
        """The full cross product."""
        return flow_points(self.factors, self.platforms)

    def meaning_of(self, point: FlowPoint) -> dict[str, Any]:
        """See PlannedCrews."""
        factors = self.factors
        meaning: dict[str, Any] = {
            "version": 1,
            "point": [
                point.platform,
                point.guests,
                point.cpu,
                point.offered,
                point.limits,
                point.greedy,
                point.second_after_s,
                point.payload_bytes,
            ],
            "window": [factors.duration_s, factors.bin_s],
            "crew": [factors.memory_mib],
        }
        if point.pattern != "out":
            meaning["pattern"] = point.pattern
        if point.weights is not None:
            meaning["weights"] = [point.weights.every_s, point.weights.steps]
        if factors.crew_disk_mib:
            meaning["crew"].append(factors.crew_disk_mib)
        if point.disk is not None:
            meaning["disk"] = [point.disk.job, point.disk.size, point.disk.from_s, point.disk.to_s]
        return meaning

    def describe(self) -> list[tuple[str, str]]:
        """See PlannedCrews."""
        factors = self.factors
        guests = ", ".join(str(number) for number in factors.guests)
        return [("flows", f"out of {guests} guests for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}")]


VARIED: Final[Mapping[Pattern, Sequence[str]]] = {
    "out": ("offered", "limits", "greedy", "second_after_s", "payload_bytes", "weights", "disk"),
    "in": ("offered", "payload_bytes"),
    "ring": ("limits",),
}
"""The factors that guests of a pattern have besides their number and placement; all others keep their defaults."""


def flow_points(factors: FlowFactors, platforms: Sequence[str]) -> tuple[FlowPoint, ...]:
    """The full cross product of each pattern, without the impossible points of one guest: further guests' limits, a
    later start, and a ring.
    """
    found: dict[tuple[Any, ...], FlowPoint] = {}
    usual = FlowFactors()
    for pattern in (each for each in VARIED if each in factors.pattern):
        varied = [getattr(factors if name in VARIED[pattern] else usual, name) for name in VARIED["out"]]
        for platform, cpu, guests, offered, limits, greedy, late_s, payload_bytes, weights, disk in product(
            platforms, factors.cpu, factors.guests, *varied
        ):
            after_s = late_s if guests > 1 else 0.0
            key = (
                platform,
                guests,
                cpu,
                offered,
                limits[:guests],
                greedy,
                after_s,
                payload_bytes,
                pattern,
                weights,
                disk,
            )
            if key not in found and (guests > 1 or pattern != "ring"):
                found[key] = FlowPoint(len(found), *key)
    return tuple(found.values())


PLANNED = PlannedFlows
