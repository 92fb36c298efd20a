"""The points of a plan that lists them one by one, because they are no matrix: what was done in a session, say."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from labconsole.model.request import Target, TrialRequest

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One listed point. ``generator`` and ``observe`` None: as the plan says, or the testbed."""

    platform: str
    frame_size_bytes: int
    target_bps: Target
    sources: int
    background: str
    duration_s: float
    repetitions: int
    frame_size_includes_fcs: bool
    generator: str | None = None
    observe: str | None = None
    where: tuple[str | int, ...] = field(default=(), compare=False)
    """The entry of the file that it comes from; empty: a combination of a matrix."""

    def with_place_of(self, other: Listed) -> Listed:
        """This point as a word on one that is there already: measured so often, found where that one is."""
        return replace(self, where=other.where)

    def request(self, generator: str, observe: str) -> TrialRequest:
        """The trial to ask for, given what the plan says in general."""
        return TrialRequest(
            platform=self.platform,
            frame_size_bytes=self.frame_size_bytes,
            sources=self.sources,
            target_bps=self.target_bps,
            duration_s=self.duration_s,
            background=self.background,
            frame_size_includes_fcs=self.frame_size_includes_fcs,
            generator=self.generator or generator,
            observe=self.observe or observe,
        )


def distinct(values: Iterable[T]) -> tuple[T, ...]:
    """Each value once, in the order of first occurrence."""
    return tuple(dict.fromkeys(values))


def as_matrix(requests: Sequence[TrialRequest]) -> dict[str, object] | None:
    """The factors of which these requests are the full cross product in a plan's nesting, or None if they are not."""
    if not requests:
        return None
    first = requests[0]
    shared = (first.duration_s, first.frame_size_includes_fcs, first.generator, first.observe)
    factors = (
        distinct(r.platform for r in requests),
        distinct(r.background for r in requests),
        distinct(r.sources for r in requests),
        distinct(r.frame_size_bytes for r in requests),
        distinct(r.target_bps for r in requests),
    )
    size = 1
    for values in factors:
        size *= len(values)
    if size != len(requests):
        return None
    asked = [
        (r.platform, r.background, r.sources, r.frame_size_bytes, r.target_bps)
        for r in requests
        if (r.duration_s, r.frame_size_includes_fcs, r.generator, r.observe) == shared
    ]
    if asked != list(itertools.product(*factors)):
        return None
    platforms, backgrounds, sources, frame_sizes, targets = factors
    return {
        "platforms": platforms,
        "frame_sizes_bytes": frame_sizes,
        "targets_bps": targets,
        "sources": sources,
        "backgrounds": backgrounds,
        "duration_s": float(first.duration_s),
        "frame_size_includes_fcs": first.frame_size_includes_fcs,
        "generator": first.generator,
        "observe": first.observe,
    }


def point_meaning(request: TrialRequest) -> list[object]:
    """What is measured at a point, for the hash of a plan that is no matrix."""
    return [
        request.platform, request.background, request.sources, request.frame_size_bytes, request.target_bps,
        float(request.duration_s), request.frame_size_includes_fcs, request.generator, request.observe,
    ]  # fmt: skip
