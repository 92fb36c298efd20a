"""Common parts of plans of multiple guests: the number of guests, and the order of trials.

A set-up is one crew of guests: all points with the same crew are measured in it, and each block sets it up again
(Kalibera and Jones, ISMM 2013).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import AfterValidator, Field

from labconsole.model.identity import content_hash
from labconsole.model.record.kind import MAX_GUESTS, Placing
from labconsole.model.strict_model import StrictModel

PLACED: Final[Mapping[Placing, str]] = {"same": ", on the same CPU", "own": ", each on a CPU of its own", "any": ""}
"""The placement as the end of a sentence."""


def different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Validate that no value is listed twice. Raises ValueError."""
    if len(set(values)) < len(values):
        raise ValueError("lists a value twice | allowed: each once; use repetitions to measure it more often")
    return values


DIFFERENT = AfterValidator(different)
GuestCounts = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=1, le=MAX_GUESTS)], ...], Field(min_length=1), DIFFERENT
]
Placings = Annotated[tuple[Placing, ...], Field(min_length=1), DIFFERENT]
MemoryMib = Annotated[int, Field(strict=True, ge=32, le=2**20)]


@dataclass(frozen=True, slots=True)
class CrewPoint(ABC):
    """A design point. ``index`` counts from 0 in the plan's product of factors."""

    index: int
    platform: str
    guests: int
    cpu: Placing

    @property
    def crew(self) -> Hashable:
        """What its guests are made of: points with an equal crew are measured in the same guests, round after round.

        None: guests are never kept for another trial.
        """
        return self.platform, self.guests, self.cpu

    @classmethod
    def from_request(cls, request: StrictModel, **other: Any) -> Self:
        """The point that a record requests. ``other``: what the request lacks, or has by another name."""
        named = {each.name: getattr(request, each.name) for each in fields(cls) if hasattr(request, each.name)}
        return cls(**{"index": 0, **named, **other})

    @abstractmethod
    def words(self) -> str:
        """The point in one line."""

    @abstractmethod
    def format_factors(self) -> dict[str, str]:
        """The factors as table columns, by heading; the most informative come first."""


F = TypeVar("F", bound=StrictModel)
P = TypeVar("P", bound=CrewPoint)


@dataclass(frozen=True)
class CrewTrial(Generic[P]):
    """One trial of a plan: a point, its block, its repetition there, and its position in the plan, all from 1."""

    point: P
    block: int
    repetition: int
    position: int


def schedule(
    every: Iterable[P], *, set_ups: int, repetitions: int, seed: int, listed: bool = False
) -> list[CrewTrial[P]]:
    """Every trial in the order of execution. A block has every crew once, and each crew has rounds of its points. The
    seed draws the order of crews and points, unless it is as ``listed``. Every second block reverses the one before it,
    so that drift affects all alike over both.
    """
    crews: dict[Hashable, list[P]] = {}
    for point in every:
        crews.setdefault(point.crew, []).append(point)
    trials: list[CrewTrial[P]] = []
    drawn: list[list[list[P]]] = []
    for block in range(1, set_ups + 1):
        draw = random.Random(f"{seed}/{block}")
        if block % 2 or listed:
            drawn = [[list(points) for _ in range(repetitions)] for points in crews.values()]
        else:
            drawn = [[points[::-1] for points in rounds[::-1]] for rounds in drawn[::-1]]
        if block % 2 and not listed:
            draw.shuffle(drawn)
            for rounds in drawn:
                for points in rounds:
                    draw.shuffle(points)
        for rounds in drawn:
            for repetition, points in enumerate(rounds, 1):
                trials += [
                    CrewTrial(point, block, repetition, len(trials) + number) for number, point in enumerate(points, 1)
                ]
    return trials


@dataclass(frozen=True)
class PlannedCrews(ABC, Generic[F, P]):
    """A plan's trials of multiple guests: how often each crew is set up, and how often it repeats every point.

    ``listed``: in the order of the file instead of a random one from the seed.
    """

    kind: ClassVar[str]
    """The key in plans, and the noun for a trial."""

    Factors: ClassVar[type[StrictModel]]
    sections: ClassVar[Mapping[str, type[StrictModel]]] = {}
    """Models of factors that are mappings themselves, by the factor's key."""

    factors: F
    platforms: tuple[str, ...]
    set_ups: int
    repetitions: int
    seed: int
    listed: bool = False
    salt: str = ""
    """An occasion's text, which gives its trials hashes of their own."""

    @property
    @abstractmethod
    def points(self) -> Sequence[P]:
        """Every design point."""

    @abstractmethod
    def meaning_of(self, point: P) -> dict[str, Any]:
        """What a trial at this point means, as JSON, without its place in the plan.

        It does not cover the plan around it: adding a platform repeats no trial.
        """

    @abstractmethod
    def describe(self) -> list[tuple[str, str]]:
        """The factors as lines of a plan's details: a label, and text."""

    def hash_of(self, trial: CrewTrial[P]) -> str:
        """Hash of one trial's meaning and identity, by which its record is found again."""
        place = {"trial": [trial.block, trial.repetition], "salt": self.salt}
        return f"{self.kind}-{content_hash({**self.meaning_of(trial.point), **place})}"

    @cached_property
    def trials(self) -> tuple[CrewTrial[P], ...]:
        """Every trial, in the order of execution."""
        return tuple(
            schedule(
                self.points, set_ups=self.set_ups, repetitions=self.repetitions, seed=self.seed, listed=self.listed
            )
        )

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """Hashes of all trials."""
        return tuple(map(self.hash_of, self.trials))

    def find_hash(self, number: int, block: int, repetition: int) -> str | None:
        """Hash of one trial of the point with this number, or None if there is none."""
        point = self._points_by_index.get(number)
        return None if point is None else self.hash_of(CrewTrial(point, block, repetition, 0))

    @cached_property
    def _points_by_index(self) -> dict[int, P]:
        return {point.index: point for point in self.points}

    @property
    def point_hashes(self) -> list[str]:
        """One hash for each point, independent of the repetitions."""
        return [self.hash_of(CrewTrial(point, 0, 0, 0)) for point in self.points]

    @cached_property
    def hashes_by_point(self) -> dict[int, list[str]]:
        """The trials' hashes by index of their point."""
        found: dict[int, list[str]] = {}
        for trial, key in zip(self.trials, self.hashes, strict=True):
            found.setdefault(trial.point.index, []).append(key)
        return found
