"""What plans of guests in number have in common: how many guests, and in which order their trials are taken.

A set-up is one crew of guests: all points that need the same crew are measured in it, and it is set up anew in each
block (Kalibera and Jones, ISMM 2013).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import AfterValidator, Field

from labconsole.model.record.crew_trial import MAX_GUESTS


def different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Raises ValueError for a value that is listed twice."""
    if len(set(values)) < len(values):
        raise ValueError("lists a value twice | allowed: each once; use repetitions to measure it more often")
    return values


DIFFERENT = AfterValidator(different)
GuestCounts = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=1, le=MAX_GUESTS)], ...], Field(min_length=1), DIFFERENT
]
MemoryMib = Annotated[int, Field(strict=True, ge=32, le=2**20)]


class CrewPoint(Protocol):
    """A design point. Points with an equal ``crew`` are measured in the same guests, round after round."""

    @property
    def index(self) -> int: ...
    @property
    def platform(self) -> str: ...
    @property
    def crew(self) -> Hashable: ...
    def words(self) -> str: ...
    def in_columns(self) -> dict[str, str]:
        """What a table has columns of, by their headings: the first tell most."""
        ...


F = TypeVar("F")
P = TypeVar("P", bound=CrewPoint)


@dataclass(frozen=True)
class CrewTrial(Generic[P]):
    """One trial of a plan: a point, its block, its repetition there, and its place in the plan, all from 1."""

    point: P
    block: int
    repetition: int
    position: int


def schedule(
    every: Iterable[P], *, set_ups: int, repetitions: int, seed: int, listed: bool = False
) -> list[CrewTrial[P]]:
    """Every trial in the order of execution: block after block, in each every crew once, in each crew round after
    round of its points; crews and points in an order that the seed draws, unless they are taken as ``listed``. Every
    second block is the one before it reversed, so that over both a drift falls on all alike.
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
    """What a plan asks of guests in number: how often each crew is set up, and in each how often every point is taken.

    ``listed``: in the order of the file instead of one that the seed draws.
    """

    factors: F
    platforms: tuple[str, ...]
    set_ups: int
    repetitions: int
    seed: int
    listed: bool = False
    salt: str = ""
    """Makes trials that mean something else than any before: those of an occasion."""

    @property
    @abstractmethod
    def points(self) -> Sequence[P]:
        """Every design point."""

    @abstractmethod
    def hash_of(self, trial: CrewTrial[P]) -> str:
        """By which the record of a trial is found again."""

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
        """Of all trials."""
        return tuple(map(self.hash_of, self.trials))

    def find_hash(self, number: int, block: int, repetition: int) -> str | None:
        """Of one trial of the point of this number; None: there is none."""
        point = next((each for each in self.points if each.index == number), None)
        return None if point is None else self.hash_of(CrewTrial(point, block, repetition, 0))

    @property
    def point_hashes(self) -> list[str]:
        """What is measured at each point, however often."""
        return [self.hash_of(CrewTrial(point, 0, 0, 0)) for point in self.points]

    @cached_property
    def hashes_by_point(self) -> dict[int, list[str]]:
        """Of each point's trials, by its index."""
        found: dict[int, list[str]] = {}
        for trial, key in zip(self.trials, self.hashes, strict=True):
            found.setdefault(trial.point.index, []).append(key)
        return found
