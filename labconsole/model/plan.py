"""A plan: its design points, its identity, how it is to be carried out. plan_load.py reads it from a file.

A point's index is its position in the full cross product in a fixed nesting (platform, background, sources, frame size,
target), or in the list of points, whatever the order of execution: that and the hash of the plan's meaning are how a
stored run finds its place.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from labconsole.model.inventory import Inventory
from labconsole.model.plan_conduct import Command, Retry, Stop, WarmUp
from labconsole.model.plan_file import Order
from labconsole.model.plan_order import forwards, schedule
from labconsole.model.plan_points import Listed, as_matrix, distinct, point_meaning
from labconsole.model.plan_search import Configuration, Search, configurations, search_hash
from labconsole.model.record import PlanRef
from labconsole.model.request import BACKGROUND_FRAME_BYTES, Target, TrialRequest
from labconsole.model.tolerances import Tolerances


@dataclass(frozen=True, slots=True)
class Point:
    """One design point of a plan; ``index`` counts from 0."""

    index: int
    request: TrialRequest


@dataclass(frozen=True, slots=True)
class Need:
    """A platform's points beside a forwarding guest, and the plan's own points that give the maximum they need."""

    platform: str
    points: tuple[int, ...]
    given_by: tuple[int, ...]


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
    rules: tuple[str, ...] = ()
    """In words, how the matrix in the file was changed to become these points."""

    platform_tolerances: tuple[tuple[str, Tolerances], ...] = ()
    retry: Retry = field(default_factory=Retry)
    warm_up: WarmUp | None = None
    stop: Stop = field(default_factory=Stop)
    pre: tuple[Command, ...] = ()
    post: tuple[Command, ...] = ()
    search: Search | None = None
    grid: bool = True
    """False: no point is measured; they say at which configurations the search is made."""

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
        if not self.grid:
            return 0
        return self.listed[point].repetitions if self.listed else self.repetitions

    def tolerances_of(self, point: int) -> Tolerances:
        """Beyond what a run of this point is doubted."""
        return dict(self.platform_tolerances).get(self.points[point].request.platform, self.tolerances)

    def schedule(self) -> list[tuple[int, int]]:
        """(point index from 0, repetition from 1) of every trial in the order of execution."""
        if not self.grid:
            return []
        return schedule(self.points, self.order, self.seed, self.repetitions_of, self.repetitions)

    @property
    def searches(self) -> tuple[Configuration, ...]:
        """What is searched, in the order of execution."""
        return configurations(self.search, (point.request for point in self.points)) if self.search is not None else ()

    @property
    def search_hashes(self) -> tuple[str, ...]:
        """By which the trials of the searches find their place, each search its own."""
        return tuple(search_hash(self.search, each) for each in self.searches) if self.search is not None else ()

    def needs(self) -> list[Need]:
        """What has to be known before points beside a forwarding guest can be measured, by platform."""
        found = []
        for platform in self.platforms:
            own = [point for point in self.points if point.request.platform == platform]
            waiting = tuple(point.index for point in own if forwards(point.request.background))
            if waiting:
                given_by = tuple(
                    point.index for point in own
                    if point.request.background == "idle"
                    and point.request.frame_size_bytes == BACKGROUND_FRAME_BYTES
                    and point.request.sources == 1
                )  # fmt: skip
                found.append(Need(platform, waiting, given_by))
        return found

    @cached_property
    def _hash(self) -> str:
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

    def hash(self) -> str:
        """Hash of what is measured at each point index: factors in their order, duration, convention, instruments.

        Not of the name, seed, order, repetitions, waits, tolerances or how it is carried out: a finished plan can be
        extended by more repetitions, and none of these changes what a single run measures. A list of points that is a
        matrix in its order has that matrix's hash, and so has a matrix whose rules leave it one.
        """
        return self._hash

    def ref(self, point: int, repetition: int, *, warm_ups: int = 0) -> PlanRef:
        """What a run's record says about its place in this plan."""
        return PlanRef(
            name=self.name, hash=self.hash(), point=point, repetition=repetition, seed=self.seed, warm_ups=warm_ups
        )

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
