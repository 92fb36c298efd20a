"""plans/*.yaml: a matrix or a list of design points, the order in which to measure them, how long that takes.

A point's index is its position in the full cross product in a fixed nesting (platform, background, sources, frame size,
target), or in the list of points, whatever the order of execution: that and the hash of the plan's meaning are how a
stored run finds its place. docs/plans.md.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan_file import MATRIX_KEYS, MATRIX_NEEDS, Order, PlanFile
from labconsole.model.plan_points import Listed, as_matrix, distinct, point_meaning
from labconsole.model.record import PlanRef
from labconsole.model.request import Target, TrialRequest, check_request
from labconsole.model.tolerances import Tolerances
from labconsole.model.yaml_file import key_text, line_of, load_yaml, validate
from labconsole.units import format_target

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


@dataclass(frozen=True, slots=True)
class Point:
    """One design point of a plan; ``index`` counts from 0."""

    index: int
    request: TrialRequest


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Design points and how to measure them. What is None is left to the testbed: see :meth:`resolved`.

    With ``listed``, the points are exactly those; the factors then hold the values that occur, ``duration_s`` the
    longest duration and ``repetitions`` the most.
    """

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
    listed: tuple[Listed, ...] = ()

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """As listed, or the full cross product: platform slowest, then background, sources, frame size, target."""
        if self.listed:
            return tuple(
                Point(index, listed.request(self.generator or "auto", self.observe or "quiet"))
                for index, listed in enumerate(self.listed)
            )
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
        """Over all points, how often each is repeated."""
        return sum(self.repetitions_of(point.index) for point in self.points)

    def repetitions_of(self, point: int) -> int:
        """How often this point is measured."""
        return self.listed[point].repetitions if self.listed else self.repetitions

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
        for platform, block in self._blocks().items():
            for r in repetitions:
                if self.order == "as-listed":
                    trials += [(point.index, r) for point in block if r <= self.repetitions_of(point.index)]
                else:
                    trials += [trial for _, trial in sorted(self._keyed(block, f"{self.seed}/{r}/{platform}", r))]
        return trials

    def _blocks(self) -> dict[str, list[Point]]:
        """The points of each platform, platforms in the order in which they first occur."""
        blocks: dict[str, list[Point]] = {}
        for point in self.points:
            blocks.setdefault(point.request.platform, []).append(point)
        return blocks

    def _keyed(self, points: Sequence[Point], seed: str, repetition: int) -> list[tuple[float, tuple[int, int]]]:
        """A number is drawn for every point, also one that is not repeated so often: the others keep theirs."""
        source = random.Random(seed)
        drawn = [(source.random(), (point.index, repetition)) for point in points]
        return [item for item in drawn if repetition <= self.repetitions_of(item[1][0])]

    def hash(self) -> str:
        """Hash of what is measured at each point index: factors in their order, duration, convention, instruments.

        Not of the name, seed, order, repetitions, waits, tolerances or max_redo: a finished plan can be extended by
        more repetitions, and none of these changes what a single run measures. A list of points that is a matrix in
        its order has that matrix's hash.
        """
        requests = [point.request for point in self.points] if self.listed else []
        meaning: dict[str, object] | None = as_matrix(requests) if self.listed else {
            "platforms": self.platforms,
            "frame_sizes_bytes": self.frame_sizes_bytes,
            "targets_bps": self.targets_bps,
            "sources": self.sources,
            "backgrounds": self.backgrounds,
            "duration_s": float(self.duration_s),
            "frame_size_includes_fcs": self.frame_size_includes_fcs,
            "generator": self.generator or "auto",
            "observe": self.observe or "quiet",
        }  # fmt: skip
        if meaning is None:
            meaning = {"version": 2, "points": [point_meaning(request) for request in requests]}
        else:
            meaning = {"version": 1, **meaning}
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
    _refuse_half_and_half(file, data, path)
    _refuse_duplicates(file, data, path)
    _refuse_too_large(file, path)
    plan = _listed_plan(file, data, path) if file.points is not None else _matrix_plan(file)
    return plan if inventory is None else check_plan(plan, inventory, path, data)


def _matrix_plan(file: PlanFile) -> Plan:
    assert file.platforms is not None and file.frame_sizes is not None and file.targets is not None
    assert file.duration_s is not None
    return Plan(
        platforms=file.platforms,
        frame_sizes_bytes=file.frame_sizes,
        targets_bps=file.targets,
        sources=file.sources,
        backgrounds=file.backgrounds,
        duration_s=float(file.duration_s),
        repetitions=file.repetitions,
        **_how(file),
    )


def _how(file: PlanFile) -> dict[str, Any]:
    """What both kinds of plan say in the same words."""
    names = ("order", "seed", "frame_size_includes_fcs", "settle_s", "drain_s", "generator", "observe", "max_redo")
    return {"name": file.plan, "tolerances": file.tolerances} | {name: getattr(file, name) for name in names}


def _listed_plan(file: PlanFile, data: Any, path: Path) -> Plan:
    listed: list[Listed] = []
    for index, entry in enumerate(file.points or ()):
        duration_s = file.duration_s if entry.duration_s is None else entry.duration_s
        if duration_s is None:
            raise _complaint(data, path, ("points", index, "duration_s"), "is required, here or at the top of the file")
        fcs = entry.frame_size_includes_fcs
        listed.append(
            Listed(
                platform=entry.platform,
                frame_size_bytes=entry.frame_size,
                target_bps=entry.target,
                sources=entry.sources,
                background=entry.background,
                duration_s=float(duration_s),
                repetitions=entry.repetitions or file.repetitions,
                frame_size_includes_fcs=file.frame_size_includes_fcs if fcs is None else fcs,
                generator=entry.generator,
                observe=entry.observe,
            )
        )
    plan = Plan(listed=tuple(listed), **factors(listed), **_how(file))
    first: dict[TrialRequest, int] = {}
    for point in plan.points:
        if point.request in first:
            message = f"repeats points[{first[point.request]}]; repetitions is the key for measuring a point more often"
            raise _complaint(data, path, ("points", point.index), message)
        first[point.request] = point.index
    return plan


def factors(listed: Sequence[Listed]) -> dict[str, Any]:
    """The fields of a Plan that sum its listed points up."""
    return {
        "platforms": distinct(each.platform for each in listed),
        "frame_sizes_bytes": distinct(each.frame_size_bytes for each in listed),
        "targets_bps": distinct(each.target_bps for each in listed),
        "sources": distinct(each.sources for each in listed),
        "backgrounds": distinct(each.background for each in listed),
        "duration_s": max(each.duration_s for each in listed),
        "repetitions": max(each.repetitions for each in listed),
    }


def _complaint(data: Any, path: Path, location: tuple[str | int, ...], message: str) -> ConfigError:
    return ConfigError(message, file=str(path), line=line_of(data, location), key=key_text(location))


def check_plan(plan: Plan, inventory: Inventory, path: Path | None = None, data: Any = None) -> Plan:
    """The plan resolved for this testbed. Raises ConfigError at the first point that cannot be asked of it."""
    plan = plan.resolved(inventory)
    for point in plan.points:
        try:
            check_request(point.request, inventory)
        except ConfigError as exc:
            location = _location(plan, point, exc.key or "")
            raise ConfigError(
                exc.message,
                file=str(path) if path else None,
                line=line_of(data, location) if data is not None else None,
                key=key_text(location),
                value=exc.value,
                allowed=exc.allowed,
            ) from None
    return plan


def _location(plan: Plan, point: Point, key: str) -> tuple[str | int, ...]:
    if plan.listed:
        return ("points", point.index, "duration_s" if key == "duration" else key)
    request = point.request
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


def _refuse_half_and_half(file: PlanFile, data: Any, path: Path) -> None:
    """Either the factors of a matrix or points, and whichever it is, whole."""
    if file.points is None:
        for key in MATRIX_NEEDS:
            if getattr(file, key) is None:
                instead = "" if key == "duration_s" or file.platforms else " (or points, instead of a matrix)"
                raise ConfigError("is required" + instead, file=str(path), key=key)
        return
    for key in MATRIX_KEYS:
        if key in file.model_fields_set:
            raise _complaint(data, path, (key,), "does not go with points, each of which says its own")


def _refuse_duplicates(file: PlanFile, data: Any, path: Path) -> None:
    for key in _FACTORS.values():
        first: dict[object, int] = {}
        for index, value in enumerate(getattr(file, key) or ()):
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
    if file.points is not None:
        trials = sum(entry.repetitions or file.repetitions for entry in file.points)
    else:
        for key in _FACTORS.values():
            trials *= len(getattr(file, key))
    if trials > MAX_TRIALS:
        raise ConfigError("the plan has too many trials", file=str(path), value=trials, allowed=f"at most {MAX_TRIALS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a plan takes. What goes wrong and is redone comes on top. ``per_trial_s`` is the mean."""

    trials: int
    platform_switches: int
    per_trial_s: float
    total_s: float
    trials_per_platform: dict[str, int]


def estimate(plan: Plan, inventory: Inventory, schedule: Sequence[tuple[int, int]] | None = None) -> Estimate:
    """Time for the schedule (default: all of it): traffic, waits, a fixed overhead, platform switches."""
    plan = plan.resolved(inventory)
    assert plan.settle_s is not None and plan.drain_s is not None
    requests = [plan.points[index].request for index, _ in (plan.schedule() if schedule is None else schedule)]
    switches = sum(1 for _ in itertools.groupby(request.platform for request in requests))
    around_s = plan.drain_s + plan.settle_s + TRIAL_OVERHEAD_S
    traffic_s = sum(request.duration_s for request in requests)
    return Estimate(
        trials=len(requests),
        platform_switches=switches,
        per_trial_s=around_s + (traffic_s / len(requests) if requests else plan.duration_s),
        total_s=traffic_s + len(requests) * around_s + switches * PLATFORM_SWITCH_S,
        trials_per_platform=dict(Counter(request.platform for request in requests)),
    )
