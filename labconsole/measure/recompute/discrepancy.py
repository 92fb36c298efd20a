"""The findings of verify: a number that does not follow, or two facts that contradict each other. Pure.

Also contains the arithmetic that every check needs, in which unknown values stay unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Number = int | float | str | None

RELATIVE_ERROR = 1e-9
"""Rates are floats: the order of two multiplications may change the last bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """``where``: a path into the record. ``says``: a description, or None if the two numbers are sufficient."""

    where: str
    stored: Number
    recomputed: Number = None
    says: str | None = None

    def to_json(self) -> dict[str, Number]:
        """As ``verify --json`` prints it."""
        return {"where": self.where, "stored": self.stored, "recomputed": self.recomputed, "says": self.says}

    @property
    def sentence(self) -> str:
        """Readable description, without its place."""
        return self.says or f"stored {self.stored}, the counts give {self.recomputed}"


def against(where: str, says: str, stored: Number = None) -> Discrepancy:
    """A contradiction with a description."""
    return Discrepancy(where=where, stored=stored, says=says)


def same(stored: object, again: object) -> bool:
    """Whether two numbers are equal within floating-point accuracy."""
    if isinstance(stored, float) or isinstance(again, float):
        if not isinstance(stored, int | float) or not isinstance(again, int | float):
            return False
        return math.isclose(stored, again, rel_tol=RELATIVE_ERROR, abs_tol=0.0)
    return stored == again


def differences(found: Mapping[str, tuple[Number, Number]]) -> Iterator[Discrepancy]:
    """The numbers, by place, whose stored and recomputed values differ."""
    for where, (stored, again) in found.items():
        if not same(stored, again):
            yield Discrepancy(where=where, stored=stored, recomputed=again)


def per(packets: int | None, duration_s: float | None) -> float | None:
    """Packets over a time, or None if unknown."""
    return packets / duration_s if packets is not None and duration_s else None


def minus(a: int | None, b: int | None) -> int | None:
    """a - b, or None if unknown."""
    return a - b if a is not None and b is not None else None


def share(part: int | None, whole: int | None) -> float | None:
    """A part of a whole that is not zero, or None."""
    return part / whole if part is not None and whole else None


def summed(parts: Sequence[object], name: str) -> int | float | None:
    """Sum of one attribute, or None if one of them is unknown or there are none."""
    values = [getattr(part, name) for part in parts]
    return None if not values or None in values else sum(values)


def ordered(values: Iterable[int | float]) -> bool:
    """Whether each value is at most the next."""
    return all(a <= b for a, b in pairwise(values))
