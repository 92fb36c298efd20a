"""The points of a plan that lists them one by one because they form no matrix, such as the trials of a session."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from labconsole.model.design_point import INCLUDES_FCS, DesignPoint

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
