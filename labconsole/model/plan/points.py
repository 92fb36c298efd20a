"""The points of a plan: those it lists one by one, and a matrix with rules that becomes points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

from labconsole.model.design_point import INCLUDES_FCS, DesignPoint
from labconsole.model.plan.file import ExcludeEntry, IncludeEntry, Override, PlanFile
from labconsole.units import format_target

# -- points ------------------------------------------------------------------------------------------------------------
# The points of a plan that lists them one by one because they form no matrix, such as the trials of a session.

T = TypeVar("T", bound=Hashable)

FACTORS: dict[str, Callable[[DesignPoint], Any]] = {
    "platform": lambda point: point.platform,
    "background": lambda point: point.background,
    "sources": lambda point: point.sources,
    "frame_size": lambda point: point.frame.bytes,
    "target": lambda point: point.wish,
}
"""The factors of a matrix by the names in an entry of a plan's file, in their nesting: the platform is slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPoint:
    """One listed point. Its own ``generator`` and ``observe`` override those of ``point``; None is the value of the
    plan, or of the testbed.
    """

    point: DesignPoint
    repetitions: int
    generator: str | None = None
    observe: str | None = None
    where: tuple[str | int, ...] = field(default=(), compare=False)
    """The entry of the file that it comes from; empty for a combination of a matrix."""

    def take_location(self, other: ListedPoint) -> ListedPoint:
        """This point with the repetitions and the file location of an equal point listed before."""
        return replace(self, where=other.where)

    def resolved(self, generator: str, observe: str) -> DesignPoint:
        """The measured point, given the plan's defaults."""
        return replace(self.point, generator=self.generator or generator, observe=self.observe or observe)


def distinct(values: Iterable[T]) -> tuple[T, ...]:
    """Each value once, in the order of first occurrence."""
    return tuple(dict.fromkeys(values))


def find_matrix_factors(points: Sequence[DesignPoint]) -> dict[str, object] | None:
    """The factors of which these points are the full cross product in a plan's nesting, or None if they are not."""
    if len({(p.duration_s, p.frame.includes_fcs, p.generator, p.observe) for p in points}) != 1:
        return None
    factors = [distinct(map(of, points)) for of in FACTORS.values()]
    if math.prod(map(len, factors)) != len(points):
        return None
    if [tuple(of(point) for of in FACTORS.values()) for point in points] != list(itertools.product(*factors)):
        return None
    platforms, backgrounds, sources, frame_sizes, targets = factors
    first = points[0]
    return {
        "platforms": platforms,
        "frame_sizes_bytes": frame_sizes,
        "targets_bps": targets,
        "sources": sources,
        "backgrounds": backgrounds,
        "duration_s": float(first.duration_s),
        INCLUDES_FCS: first.frame.includes_fcs,
        "generator": first.generator,
        "observe": first.observe,
    }


def factors(listed: Sequence[ListedPoint]) -> dict[str, Any]:
    """The fields of a Plan that summarise its listed points."""
    return {
        "platforms": distinct(each.point.platform for each in listed),
        "frames": distinct(each.point.frame for each in listed),
        "targets_bps": distinct(each.point.wish for each in listed),
        "sources": distinct(each.point.sources for each in listed),
        "backgrounds": distinct(each.point.background for each in listed),
        "duration_s": max(each.point.duration_s for each in listed),
        "repetitions": max(each.repetitions for each in listed),
    }


# -- rules -------------------------------------------------------------------------------------------------------------
# Expands a matrix with rules into its points: overrides by platform, then exclusions, then additions.
#
# The result is a list of points like any other, so a plan means the same however it was written.

Location = tuple[str | int, ...]
Refuse = Callable[..., NoReturn]
"""Called with the place in the file, the problem, and perhaps ``value`` and ``allowed``; raises ConfigError."""

RULE_FACTORS = {
    "platform": "platforms",
    "background": "backgrounds",
    "sources": "sources",
    "frame_size": "frame_sizes",
    "target": "targets",
}
"""The matrix's name of a factor, by the name in rules."""

MAX_RULE_TESTS = 10_000_000
"""Points of the matrix times exclusions: one may name all points."""


def has_rules(file: PlanFile) -> bool:
    """Whether rules change the full matrix."""
    return bool(file.include or file.exclude or file.overrides)


def unfold(file: PlanFile, refuse: Refuse) -> tuple[tuple[ListedPoint, ...], int]:
    """The points, and the number that exclusions removed."""
    assert file.platforms is not None
    for name in file.overrides:
        if name not in file.platforms:
            refuse(("overrides", name), "is not a platform of this plan", allowed=", ".join(file.platforms))
    matrix = [listed for name in file.platforms for listed in _unfold_platform(file, name)]
    kept = _excluded(file, matrix, refuse)
    points = {listed.point: listed for listed in kept}
    for place, entry in enumerate(file.include):
        for listed in _included(file, place, entry):
            there = points.get(listed.point)
            if there is None:
                points[listed.point] = listed
            elif entry.repetitions is not None:
                points[listed.point] = listed.take_location(there)
    if not points:
        refuse(("exclude",), "leaves no points to measure")
    return tuple(points.values()), len(matrix) - len(kept)


def _unfold_platform(file: PlanFile, name: str) -> list[ListedPoint]:
    """The matrix of one platform, in the nesting of a plan: background slowest, target fastest."""
    own = file.overrides.get(name, Override())
    factors: list[Sequence[Any]] = [
        own.backgrounds or file.backgrounds,
        own.sources or file.sources,
        own.frame_sizes or file.frame_sizes or (),
        own.targets or file.targets or (),
    ]
    duration_s = file.duration_s if own.duration_s is None else own.duration_s
    assert duration_s is not None
    return [
        ListedPoint(
            point=DesignPoint(
                platform=name,
                frame=file.frame(size),
                target=file.frame(size).target(target),
                sources=sources,
                background=background,
                duration_s=float(duration_s),
            ),
            repetitions=own.repetitions or file.repetitions,
        )
        for background, sources, size, target in itertools.product(*factors)
    ]


def _excluded(file: PlanFile, matrix: list[ListedPoint], refuse: Refuse) -> list[ListedPoint]:
    """The matrix without excluded points. A rule that excludes nothing is refused as a mistake."""
    if not file.exclude:
        return matrix
    if (tests := len(file.exclude) * len(matrix)) > MAX_RULE_TESTS:
        problem = f"has {len(file.exclude)} rules for {len(matrix)} points"
        refuse(("exclude",), problem, value=tests, allowed=f"at most {MAX_RULE_TESTS}, rules times points")
    places: dict[str, dict[Any, list[int]]] = {name: {} for name in RULE_FACTORS}
    for index, listed in enumerate(matrix):
        for name, known in places.items():
            known.setdefault(FACTORS[name](listed.point), []).append(index)
    gone: set[int] = set()
    for place, rule in enumerate(file.exclude):
        where: Location = ("exclude", place)
        conditions = {name: getattr(rule, name) for name in RULE_FACTORS if getattr(rule, name) is not None}
        if not conditions:
            refuse(where, "gives no factor, so it would exclude every point", allowed=", ".join(RULE_FACTORS))
        for name, values in conditions.items():
            for value in values:
                if value not in places[name]:
                    shown = format_target(value) if name == "target" else value
                    refuse((*where, name), f"is not one of the plan's {RULE_FACTORS[name]}", value=shown)
        hit = set[int].intersection(
            *(set[int]().union(*(places[name][value] for value in values)) for name, values in conditions.items())
        )
        if not hit:
            refuse(where, "excludes nothing: no point of the matrix matches all its factors")
        gone |= hit
    return [listed for index, listed in enumerate(matrix) if index not in gone]


def _included(file: PlanFile, place: int, entry: IncludeEntry) -> list[ListedPoint]:
    assert file.platforms is not None
    made = []
    for platform, background, sources, size, target in itertools.product(
        entry.platform or file.platforms, entry.background, entry.sources, entry.frame_size, entry.target
    ):
        own = file.overrides.get(platform, Override())
        duration_s = next(each for each in (entry.duration_s, own.duration_s, file.duration_s) if each is not None)
        made.append(
            ListedPoint(
                point=DesignPoint(
                    platform=platform,
                    frame=file.frame(size),
                    target=file.frame(size).target(target),
                    sources=sources,
                    background=background,
                    duration_s=float(duration_s),
                ),
                repetitions=entry.repetitions or own.repetitions or file.repetitions,
                where=("include", place),
            )
        )
    return made


def location(file: PlanFile, listed: ListedPoint, factor: str) -> Location:
    """The file location of a point's value for a factor."""
    if listed.where:
        return (*listed.where, factor)
    if factor not in RULE_FACTORS:
        return (factor,)
    key, value = RULE_FACTORS[factor], FACTORS[factor](listed.point)
    own = getattr(file.overrides.get(listed.point.platform), key, None) if factor != "platform" else None
    if own is not None:
        return ("overrides", listed.point.platform, key, own.index(value))
    values = getattr(file, key)
    return (key, values.index(value)) if value in values else (key,)


def describe_exclusion(rule: ExcludeEntry) -> str:
    """Short human-readable form of a rule."""
    parts = []
    for name in RULE_FACTORS:
        values = getattr(rule, name)
        if values is not None:
            shown = [format_target(value) if name == "target" else str(value) for value in values]
            parts.append(f"{name.replace('_', ' ')} {' or '.join(shown)}")
    return ", ".join(parts)
