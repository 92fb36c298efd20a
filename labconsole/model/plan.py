"""plans/*.yaml: a matrix of design points, the order in which to measure them, how long that takes. docs/plans.md.

A point's index is its position in the full cross product in a fixed nesting (platform, background, sources, frame size,
target), whatever the order of execution: that and the hash of the plan's meaning are how a stored run finds its place.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory, Name
from labconsole.model.record import PlanRef
from labconsole.model.request import (
    BACKGROUNDS,
    GENERATORS,
    MAX_DURATION_S,
    OBSERVE,
    Target,
    TrialRequest,
    check_request,
)
from labconsole.model.tolerances import Tolerances
from labconsole.model.yaml_file import key_text, line_of, load_yaml, register_keys, validate
from labconsole.units import format_target, parse_rate_bps

Order = Literal["blocked-random", "full-random", "as-listed"]

MAX_TRIALS = 1_000_000
"""A plan beyond this is a slip of the keyboard: at one second each it would take eleven days."""

TRIAL_OVERHEAD_S = 0.3
"""Budget of a trial beyond its traffic and its configured waits: arming, counting, saving."""

PLATFORM_SWITCH_S = 1.0
"""Budget for handing the unit under test to another platform. A guest that must boot takes longer."""

_FACTORS = {
    "platform": "platforms",
    "background": "backgrounds",
    "sources": "sources",
    "frame_size": "frame_sizes",
    "target": "targets",
}
"""What check_request calls a factor -> the list in the file."""


def _target(value: Any) -> Target:
    if value == "max":
        return "max"
    try:
        # As text, so that a bare number is refused: 100, meant as 100 Mbit/s, would send one packet in seven seconds.
        return parse_rate_bps(str(value))
    except ValueError as exc:
        raise ValueError(f"is not a target | allowed: {exc}, or max") from None


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in words:
            raise ValueError(f"is not one of the known words | allowed: {', '.join(words)}")
        return value

    return check


FileTarget = Annotated[Target, PlainValidator(_target, json_schema_input_type=str)]
Background = Annotated[str, AfterValidator(_one_of(BACKGROUNDS))]
# Strict: YAML's true is no count.
Count = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Seconds = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class PlanFile(BaseModel):
    """The file as written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Name
    platforms: tuple[Name, ...] = Field(min_length=1, max_length=1000)
    frame_sizes: tuple[Count, ...] = Field(min_length=1, max_length=10_000)
    targets: tuple[FileTarget, ...] = Field(min_length=1, max_length=10_000)
    sources: tuple[Count, ...] = Field(default=(1,), min_length=1, max_length=1000)
    backgrounds: tuple[Background, ...] = Field(default=("none",), min_length=1)
    duration_s: Annotated[Seconds, Field(gt=0, le=MAX_DURATION_S)]
    repetitions: Count = 1
    order: Order = "blocked-random"
    seed: Annotated[int, Field(strict=True)] = 1
    frame_size_includes_fcs: Annotated[bool, Field(strict=True)] = False
    settle_s: Annotated[Seconds, Field(ge=0, le=600)] | None = None
    drain_s: Annotated[Seconds, Field(ge=0.1, le=60)] | None = None
    generator: Annotated[str, AfterValidator(_one_of(GENERATORS))] | None = None
    observe: Annotated[str, AfterValidator(_one_of(OBSERVE))] | None = None
    max_redo: Annotated[int, Field(strict=True, ge=0, le=100)] = 2
    tolerances: Tolerances = Tolerances()


register_keys("PlanFile", None, PlanFile)
register_keys("PlanFile", "tolerances", Tolerances)


@dataclass(frozen=True, slots=True)
class Point:
    """One design point of a plan; ``index`` counts from 0."""

    index: int
    request: TrialRequest


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A matrix of design points. What is None is left to the testbed: see :meth:`resolved`."""

    name: str
    platforms: tuple[str, ...]
    frame_sizes_bytes: tuple[int, ...]
    targets_bps: tuple[Target, ...]
    sources: tuple[int, ...]
    backgrounds: tuple[str, ...]
    duration_s: float
    repetitions: int
    order: Order
    seed: int
    frame_size_includes_fcs: bool
    settle_s: float | None
    drain_s: float | None
    generator: str | None
    observe: str | None
    max_redo: int
    """How often a trial that came out invalid is tried again before the plan goes on."""

    tolerances: Tolerances

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The full cross product: platform slowest, then background, sources, frame size, target."""
        product = itertools.product(
            self.platforms, self.backgrounds, self.sources, self.frame_sizes_bytes, self.targets_bps
        )
        return tuple(
            Point(
                index,
                TrialRequest(
                    platform=platform,
                    frame_size_bytes=frame_size_bytes,
                    sources=sources,
                    target_bps=target_bps,
                    duration_s=self.duration_s,
                    background=background,
                    frame_size_includes_fcs=self.frame_size_includes_fcs,
                    generator=self.generator or "auto",
                    observe=self.observe or "quiet",
                ),
            )
            for index, (platform, background, sources, frame_size_bytes, target_bps) in enumerate(product)
        )

    @property
    def trials(self) -> int:
        """Points times repetitions."""
        return len(self.points) * self.repetitions

    def schedule(self) -> list[tuple[int, int]]:
        """(point index from 0, repetition from 1) of every trial in the order of execution.

        The same for the same plan and seed on every machine: Python promises that ``random()`` keeps its sequence for a
        seed across versions, but not that ``shuffle()`` does, so a pass is sorted by one ``random()`` per point. Each
        pass has a generator of its own: more repetitions add passes and leave the earlier ones as they were.
        """
        repetitions = range(1, self.repetitions + 1)
        if self.order == "full-random":
            keyed = [item for r in repetitions for item in self._keyed(self.points, f"{self.seed}/{r}", r)]
            return [trial for _, trial in sorted(keyed)]
        trials: list[tuple[int, int]] = []
        size = len(self.points) // len(self.platforms)
        for number, platform in enumerate(self.platforms):
            block = self.points[number * size : (number + 1) * size]
            for r in repetitions:
                if self.order == "as-listed":
                    trials += [(point.index, r) for point in block]
                else:
                    trials += [trial for _, trial in sorted(self._keyed(block, f"{self.seed}/{r}/{platform}", r))]
        return trials

    @staticmethod
    def _keyed(points: Sequence[Point], seed: str, repetition: int) -> list[tuple[float, tuple[int, int]]]:
        source = random.Random(seed)
        return [(source.random(), (point.index, repetition)) for point in points]

    def hash(self) -> str:
        """Hash of what is measured at each point index: factors in their order, duration, convention, instruments.

        Not of the name, seed, order, repetitions, waits, tolerances or max_redo: a finished plan can be extended by
        more repetitions, and none of these changes what a single run measures.
        """
        meaning = {
            "version": 1,
            "platforms": self.platforms,
            "frame_sizes_bytes": self.frame_sizes_bytes,
            "targets_bps": self.targets_bps,
            "sources": self.sources,
            "backgrounds": self.backgrounds,
            "duration_s": float(self.duration_s),
            "frame_size_includes_fcs": self.frame_size_includes_fcs,
            "generator": self.generator or "auto",
            "observe": self.observe or "quiet",
        }
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]

    def ref(self, point: int, repetition: int) -> PlanRef:
        """What a run's record says about its place in this plan."""
        return PlanRef(name=self.name, hash=self.hash(), point=point, repetition=repetition, seed=self.seed)

    def resolved(self, inventory: Inventory) -> Plan:
        """This plan with the testbed's defaults in place of what the file leaves out."""
        defaults = inventory.defaults
        return replace(
            self,
            settle_s=defaults.settle_s if self.settle_s is None else self.settle_s,
            drain_s=defaults.drain_s if self.drain_s is None else self.drain_s,
            generator=self.generator or defaults.generator,
            observe=self.observe or defaults.observe,
        )


def load_plan(path: Path, inventory: Inventory | None = None) -> Plan:
    """Read a plan; with an inventory also check it against that testbed and take over its defaults.

    Raises ConfigError naming file, line, key, value and what is allowed.
    """
    data = load_yaml(path)
    file = validate(PlanFile, data, path)
    _refuse_duplicates(file, data, path)
    _refuse_too_large(file, path)
    plan = Plan(
        name=file.plan,
        platforms=file.platforms,
        frame_sizes_bytes=file.frame_sizes,
        targets_bps=file.targets,
        sources=file.sources,
        backgrounds=file.backgrounds,
        duration_s=float(file.duration_s),
        repetitions=file.repetitions,
        order=file.order,
        seed=file.seed,
        frame_size_includes_fcs=file.frame_size_includes_fcs,
        settle_s=file.settle_s,
        drain_s=file.drain_s,
        generator=file.generator,
        observe=file.observe,
        max_redo=file.max_redo,
        tolerances=file.tolerances,
    )
    return plan if inventory is None else check_plan(plan, inventory, path, data)


def check_plan(plan: Plan, inventory: Inventory, path: Path | None = None, data: Any = None) -> Plan:
    """The plan resolved for this testbed. Raises ConfigError at the first point that cannot be asked of it."""
    plan = plan.resolved(inventory)
    for point in plan.points:
        try:
            check_request(point.request, inventory)
        except ConfigError as exc:
            location = _location(plan, point.request, exc.key or "")
            raise ConfigError(
                exc.message,
                file=str(path) if path else None,
                line=line_of(data, location) if data is not None else None,
                key=key_text(location),
                value=exc.value,
                allowed=exc.allowed,
            ) from None
    return plan


def _location(plan: Plan, request: TrialRequest, key: str) -> tuple[str | int, ...]:
    values: dict[str, tuple[Sequence[object], object]] = {
        "platform": (plan.platforms, request.platform),
        "background": (plan.backgrounds, request.background),
        "sources": (plan.sources, request.sources),
        "frame_size": (plan.frame_sizes_bytes, request.frame_size_bytes),
        "target": (plan.targets_bps, request.target_bps),
    }
    if key not in values:
        return ("duration_s",) if key == "duration" else (key,)
    listed, value = values[key]
    return (_FACTORS[key], listed.index(value))


def _refuse_duplicates(file: PlanFile, data: Any, path: Path) -> None:
    for key in _FACTORS.values():
        first: dict[object, int] = {}
        for index, value in enumerate(getattr(file, key)):
            if value in first:
                location = (key, index)
                shown = format_target(value) if key == "targets" else value
                raise ConfigError(
                    f"repeats {key}[{first[value]}]; repetitions is the key for measuring a point more often",
                    file=str(path), line=line_of(data, location), key=key_text(location), value=shown,
                )  # fmt: skip
            first[value] = index


def _refuse_too_large(file: PlanFile, path: Path) -> None:
    trials = file.repetitions
    for key in _FACTORS.values():
        trials *= len(getattr(file, key))
    if trials > MAX_TRIALS:
        raise ConfigError("the plan has too many trials", file=str(path), value=trials, allowed=f"at most {MAX_TRIALS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a plan takes. What goes wrong and is redone comes on top."""

    trials: int
    platform_switches: int
    per_trial_s: float
    total_s: float
    trials_per_platform: dict[str, int]


def estimate(plan: Plan, inventory: Inventory, schedule: Sequence[tuple[int, int]] | None = None) -> Estimate:
    """Time for the schedule (default: all of it): traffic, waits, a fixed overhead, platform switches."""
    plan = plan.resolved(inventory)
    assert plan.settle_s is not None and plan.drain_s is not None
    platforms = [
        plan.points[index].request.platform for index, _ in (plan.schedule() if schedule is None else schedule)
    ]
    switches = sum(1 for _ in itertools.groupby(platforms))
    per_trial_s = plan.duration_s + plan.drain_s + plan.settle_s + TRIAL_OVERHEAD_S
    return Estimate(
        trials=len(platforms),
        platform_switches=switches,
        per_trial_s=per_trial_s,
        total_s=len(platforms) * per_trial_s + switches * PLATFORM_SWITCH_S,
        trials_per_platform=dict(Counter(platforms)),
    )
