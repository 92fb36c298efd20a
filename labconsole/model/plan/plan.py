"""A plan: its design points, its identity, its execution options, its occasions. loader.py reads it from a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint, FrameSize, TargetWish
from labconsole.model.identity import content_hash
from labconsole.model.inventory import DropReasons, Inventory, PacketTiming
from labconsole.model.plan.crews import PlannedCrews
from labconsole.model.plan.execution_options import HookCommand, Retry, Stop, WarmUp
from labconsole.model.plan.file import Order
from labconsole.model.plan.order import (
    PILOT,
    PlannedSetUp,
    Trial,
    configuration,
    find_needed_pilot_points,
    forwards,
    is_reference_point,
    pilot_points,
    planned_set_ups,
    references,
    schedule,
)
from labconsole.model.plan.order import Configuration as SetUpOf
from labconsole.model.plan.points import ListedPoint, find_matrix_factors
from labconsole.model.plan.search import Configuration, Search, configurations, search_hash
from labconsole.model.record.annotations import ALLOWED_NAMES, NAME
from labconsole.model.record.run import Fixed, PlanRef, Role
from labconsole.model.tolerances import Tolerances

# -- plan --------------------------------------------------------------------------------------------------------------
# A point's index is its position in the full cross product in a fixed nesting (platform, background, sources, frame
# size, target), or in the list of points, independent of the order of execution. The index and the hash of the plan's
# meaning assign a stored run to its place.


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """One design point of a plan; ``index`` counts from 0."""

    index: int
    request: DesignPoint


@dataclass(frozen=True, slots=True)
class Need:
    """A platform's points with a forwarding second guest, and the plan's own points that give the maximum they need."""

    platform: str
    points: tuple[int, ...]
    given_by: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Design points and how to measure them. The testbed supplies None values: see :meth:`resolved`.

    A trial is (point, number): numbers count from 1 over the repetitions, and with ``set_ups`` over those of every
    block; number 0 is the pilot's. With ``listed``, the points are exactly those; the factors then have the values that
    occur, ``duration_s`` the longest duration and ``repetitions`` the largest number.
    """

    name: str
    platforms: tuple[str, ...]
    frames: tuple[FrameSize, ...]
    targets_bps: tuple[TargetWish, ...]
    sources: tuple[int, ...]
    backgrounds: tuple[str, ...]
    duration_s: float
    repetitions: int
    set_ups: int | None = None
    """Number of blocks, each with ``repetitions`` trials of each point, or None without blocks and pilot."""

    margin_ratio: float | None = None
    """The difference that does not matter, or None if the plan declares none."""

    claims: tuple[str, ...] | None = None
    """The tables of the report that may conclude, or None for all."""

    order: Order
    seed: int
    settle_s: float | None
    drain_s: float | None
    generator: str | None
    observe: str | None
    drop_reasons: DropReasons | None = None
    packet_times: PacketTiming | None = None
    max_redo: int
    """Maximum number of repeated attempts after an invalid trial before the plan continues."""

    tolerances: Tolerances
    listed: tuple[ListedPoint, ...] = ()
    rules: tuple[str, ...] = ()
    """The rules that turned the file's matrix into these points, as text."""

    platform_tolerances: tuple[tuple[str, Tolerances], ...] = ()
    retry: Retry = field(default_factory=Retry)
    warm_up: WarmUp | None = None
    stop: Stop = field(default_factory=Stop)
    pre: tuple[HookCommand, ...] = ()
    post: tuple[HookCommand, ...] = ()
    search: Search | None = None
    experiments: tuple[tuple[str, Any], ...] = ()
    """Experiments of other packages: name and factors."""
    guests: PlannedCrews[Any, Any] | None = None
    """The guest experiment, or None if the plan forwards frames."""

    grid: bool = True
    """False: no point is measured; the points are the configurations of the search."""

    role: Role = "measured"
    """The role of its trials, except the pilot's."""

    occasion: str | None = None
    """The occasion of a repeated measurement, or None if it is measured once."""
    ad_hoc: bool = False
    """Whether it comes from the command line and has no file."""

    @cached_property
    def points(self) -> tuple[PlannedPoint, ...]:
        """As listed, or the full cross product: platform slowest, then background, sources, frame size, target."""
        if self.listed:
            return tuple(
                PlannedPoint(index, listed.resolved(self.generator or "auto", self.observe or "quiet"))
                for index, listed in enumerate(self.listed)
            )
        product = itertools.product(self.platforms, self.backgrounds, self.sources, self.frames, self.targets_bps)
        return tuple(
            PlannedPoint(
                index,
                DesignPoint(
                    platform=platform,
                    frame=frame,
                    sources=sources,
                    target=frame.target(target),
                    duration_s=self.duration_s,
                    background=background,
                    generator=self.generator or "auto",
                    observe=self.observe or "quiet",
                ),
            )
            for index, (platform, background, sources, frame, target) in enumerate(product)
        )

    @cached_property
    def every_point(self) -> tuple[PlannedPoint, ...]:
        """The points, then the pilot-only points."""
        if self.set_ups is None:
            return self.points
        extra = references([point.request for point in self.points])[1]
        return self.points + tuple(
            PlannedPoint(len(self.points) + place, request) for place, request in enumerate(extra)
        )

    @cached_property
    def pilot(self) -> frozenset[int]:
        """The points that the pilot takes, once each."""
        return pilot_points([point.request for point in self.points]) if self.set_ups and self.grid else frozenset()

    @property
    def trials(self) -> int:
        """Number of trials over all points and blocks, including the pilot."""
        return sum(self.trials_of(point.index) for point in self.every_point)

    def trials_of(self, point: int) -> int:
        """Number of trials of this point, including the pilot's."""
        return self.numbers_of(point) + (point in self.pilot)

    def numbers_of(self, point: int) -> int:
        """The highest number of this point's trials."""
        return self.repetitions_of(point) * (self.set_ups or 1)

    def repetitions_of(self, point: int) -> int:
        """Repetitions of this point, in each block if there are blocks."""
        if not self.grid or point >= len(self.points):
            return 0
        return self.listed[point].repetitions if self.listed else self.repetitions

    def place_of(self, trial: Trial) -> tuple[int | None, int]:
        """(block, repetition from 1) of a trial; block 0 is the pilot, or None if the plan has no blocks."""
        point, number = trial
        if self.set_ups is None:
            return None, number
        if number == PILOT:
            return PILOT, 1
        block, repetition = divmod(number - 1, self.repetitions_of(point))
        return block + 1, repetition + 1

    def number_of(self, point: int, block: int | None, repetition: int) -> int:
        """The number of the trial at this place."""
        if self.set_ups is None:
            return repetition
        return PILOT if not block else (block - 1) * self.repetitions_of(point) + repetition

    def set_up_of(self, trial: Trial) -> tuple[int, SetUpOf] | None:
        """The block's set-up that a trial belongs to, or None for the pilot and for plans without blocks."""
        block, _ = self.place_of(trial)
        return (block, configuration(self.points[trial[0]].request)) if block else None

    def needed_pilot(self, chosen: frozenset[int] | None) -> frozenset[int]:
        """The subset of the pilot's points that the chosen points need, or all of them for None."""
        if chosen is None or not self.pilot:
            return self.pilot
        return find_needed_pilot_points(chosen, [point.request for point in self.points])

    def tolerances_of(self, point: int) -> Tolerances:
        """The tolerances for a run of this point."""
        return dict(self.platform_tolerances).get(self.every_point[point].request.platform, self.tolerances)

    def planned_set_ups(self) -> list[PlannedSetUp]:
        """The set-ups of the pilot and of every block, in the order of execution; empty without blocks."""
        if self.set_ups is None or not self.grid:
            return []
        requests = [point.request for point in self.every_point]
        return planned_set_ups(requests, self.pilot, self.order, self.seed, self.set_ups, self.repetitions_of)

    def schedule(self) -> list[Trial]:
        """(point index from 0, number) of every trial in the order of execution."""
        if not self.grid:
            return []
        if self.set_ups is not None:
            return [trial for set_up in self.planned_set_ups() for trial in set_up.trials]
        return schedule(self.points, self.order, self.seed, self.repetitions_of, self.repetitions)

    @cached_property
    def _positions(self) -> dict[Trial, int]:
        return {trial: place for place, trial in enumerate(self.schedule(), 1)}

    @property
    def searches(self) -> tuple[Configuration, ...]:
        """The configurations to search, in the order of execution."""
        return configurations(self.search, (point.request for point in self.points)) if self.search is not None else ()

    @property
    def step_count(self) -> int:
        """Number of steps outside the grid: searches, guest experiments and plug-in experiments."""
        return len((*self.searches, *self.experiments, *(self.guests.trials if self.guests is not None else ())))

    @property
    def salt(self) -> str:
        """The occasion's part of the hashes of searches and guest experiments; empty without an occasion."""
        return self.name if self.occasion is not None else ""

    @property
    def search_hashes(self) -> tuple[str, ...]:
        """The plan hashes of search trials, one for each search."""
        search = self.search
        return () if search is None else tuple(search_hash(search, each, self.salt) for each in self.searches)

    @property
    def telemetry_hashes(self) -> tuple[str, ...]:
        """The plan hashes of telemetry trials; empty without points for telemetry."""
        return (self.for_telemetry().hash(),) if self.grid and self.guests is None else ()

    @property
    def step_hashes(self) -> tuple[str, ...]:
        """The hashes of records of steps other than searches."""
        return self.guests.hashes if self.guests is not None else ()

    def needs(self) -> list[Need]:
        """The references that points with a forwarding second guest need, by platform."""
        found = []
        for platform in self.platforms:
            own = [point for point in self.points if point.request.platform == platform]
            waiting = tuple(point.index for point in own if forwards(point.request.background))
            if waiting:
                given_by = tuple(
                    point.index
                    for point in self.every_point
                    if self.role == "measured"
                    and point.request.platform == platform
                    and is_reference_point(point.request)
                    and (self.set_ups is None or point.index in self.pilot)
                )
                found.append(Need(platform, waiting, given_by))
        return found

    @cached_property
    def _hash(self) -> str:
        if self.guests is not None:
            return content_hash({"version": 3, "guests": self.guests.point_hashes})
        points = [point.request for point in self.points]
        matrix = find_matrix_factors(points)
        listed = {"version": 2, "points": [point.meaning() for point in points]}
        meaning = listed if matrix is None else {"version": 1, **matrix}
        if self.role != "measured":
            meaning = {"role": self.role, **meaning}
        if self.occasion is not None:
            meaning = {"occasion": self.occasion, **meaning}
        return content_hash(meaning)

    def hash(self) -> str:
        """Hash of the measurement at each point index: factors in their order, duration, convention, instruments.

        It covers the role of trials that enter no mean, and the occasion. It does not cover name, seed, order, set-ups,
        repetitions, margin, claims, waits, tolerances, kernel probes, or execution options. A finished plan can be
        extended by more set-ups, without blocks by more repetitions, and none of these changes the point of a run. A
        list of points that is a matrix in its order has that matrix's hash, and so has a matrix that rules leave one.
        """
        return self._hash

    def for_telemetry(self) -> Plan:
        """A plan of telemetry for each point of this plan: its trials enter no mean and show what packets cost the
        UUT's processors and why some were dropped. It has no blocks and so no pilot: a forwarding second guest's load
        is a share of a stored maximum. Raises ConfigError without points.
        """
        if self.guests is not None or not self.grid:
            raise ConfigError(f"plan {self.name} has no points of traffic, and only those have telemetry")
        once = tuple(replace(each, repetitions=1) for each in self.listed)
        stop = self.stop.model_copy(update={"raising": None, "lowering": None})
        alone = replace(self, role="telemetry", repetitions=1, listed=once, set_ups=None, search=None, stop=stop)
        return replace(alone, margin_ratio=None, claims=None)

    def ref(
        self,
        point: int,
        number: int,
        *,
        warm_ups: int = 0,
        attempt: int = 1,
        without_run: int = 0,
        set_up_trials: int | None = None,
        fixed: Fixed | None = None,
    ) -> PlanRef:
        """A run's reference to its place in this plan.

        ``without_run``: number of attempts without a run, which lowers the number of attempts that can still be stored;
        ``set_up_trials``: number of trials in its set-up; ``fixed``: the values that the pilot fixed for it.
        """
        block, repetition = self.place_of((point, number))
        return PlanRef(
            name=self.name,
            hash=self.hash(),
            point=point,
            repetition=repetition,
            seed=self.seed,
            warm_ups=warm_ups,
            block=block,
            attempt=attempt,
            attempts=self.max_redo + 1 - without_run,
            order=self.order,
            position=self._positions.get((point, number)),
            set_ups=self.set_ups,
            repetitions=self.repetitions_of(point) or None,
            set_up_trials=set_up_trials,
            margin_ratio=self.margin_ratio,
            claims=self.claims,
            fixed=fixed,
        )

    def resolved(self, inventory: Inventory) -> Plan:
        """This plan with the testbed's defaults for keys that the file leaves out."""
        defaults = inventory.defaults
        return replace(
            self,
            settle_s=defaults.settle_s if self.settle_s is None else self.settle_s,
            drain_s=defaults.drain_s if self.drain_s is None else self.drain_s,
            generator=self.generator or defaults.generator,
            observe=self.observe or defaults.observe,
        )


# -- occasions ---------------------------------------------------------------------------------------------------------
# Repeated measurement of a plan: each occasion has runs of its own. Pure.
#
# Replaying a completely measured plan takes no trials. To find out whether something changed since, an operator
# measures the same points again under the name of an occasion. Name and hash of the plan include it, so that resuming,
# places and set-ups stay within one occasion; the points keep their numbers and their order. Hashes of searches and
# guest experiments include it too.

AT: Final = "@"
"""Separator between the names of plan and occasion."""


def build_occasion_plan(plan: Plan, occasion: str) -> Plan:
    """The plan with runs of its own for an occasion. Raises ConfigError for an invalid name."""
    if NAME.fullmatch(occasion) is None:
        raise ConfigError("is not a name", key="--occasion", value=occasion, allowed=ALLOWED_NAMES)
    found = replace(plan, name=f"{plan.name}{AT}{occasion}", occasion=occasion)
    return found if found.guests is None else replace(found, guests=replace(found.guests, salt=found.salt))


def build_occasion_plans(plan: Plan, plan_names: Iterable[str | None]) -> list[Plan]:
    """The plan on every occasion in these plan names of records."""
    occasions = {occasion for name in plan_names if name and (occasion := parse_occasion(name)) is not None}
    return [build_occasion_plan(plan, occasion) for occasion in sorted(occasions)]


def parse_occasion(plan_name: str) -> str | None:
    """The occasion in a record's plan name, or None if it has none."""
    occasion = plan_name.rpartition(AT)[2] if AT in plan_name else ""
    return occasion if NAME.fullmatch(occasion) else None
