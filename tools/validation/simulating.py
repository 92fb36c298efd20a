"""Simulations in chunks with seeds of their own, so that a figure is the same on any number of processes."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

SEED = 20
CHUNK = 50
CONFIDENCE = 0.99
"""Of the one-sided bound that a share of errors passes by (Clopper and Pearson, Biometrika 26, 1934)."""

ERRORS = 0.05
COVERAGE = (0.93, 0.97)

Count = Callable[..., "Counter[Any]"]


@dataclass(frozen=True)
class Cell:
    """One scenario: ``count(rng, simulations, *arguments)`` is called for each chunk, and its counters are summed.

    ``number`` goes into the seed; two cells with one number are drawn from the same numbers.
    """

    number: int
    count: Count
    arguments: tuple[Any, ...]
    simulations: int
    chunk: int = CHUNK

    def chunks(self) -> Iterable[tuple[Count, tuple[int, int, int], int, tuple[Any, ...]]]:
        for index in range(math.ceil(self.simulations / self.chunk)):
            size = min(self.chunk, self.simulations - index * self.chunk)
            yield self.count, (SEED, self.number, index), size, self.arguments


def counted(cells: Sequence[Cell], processes: int = 1) -> list[Counter[Any]]:
    """The sums of every cell, in their order."""
    jobs = [(place, *chunk) for place, cell in enumerate(cells) for chunk in cell.chunks()]
    sums: list[Counter[Any]] = [Counter() for _ in cells]
    if processes == 1:
        for place, found in map(_one, jobs):
            sums[place].update(found)
        return sums
    with ProcessPoolExecutor(processes) as pool:
        for place, found in pool.map(_one, jobs, chunksize=1):
            sums[place].update(found)
    return sums


def _one(job: tuple[int, Count, tuple[int, int, int], int, tuple[Any, ...]]) -> tuple[int, Counter[Any]]:
    place, count, seed, simulations, arguments = job
    gc.disable()  # a fifth of the time; reports hold no cycles
    try:
        return place, count(np.random.default_rng(seed), simulations, *arguments)
    finally:
        gc.enable()


def lower_bound(errors: int, of: int) -> float:
    """What the true share of errors is at least, with 99 % confidence."""
    return 0.0 if errors == 0 else float(beta.ppf(1 - CONFIDENCE, errors, of - errors + 1))


def tolerable(errors: int, of: int, most: float = ERRORS) -> bool:
    """Whether the share of errors may be ``most``: its lower bound is no higher."""
    return of > 0 and lower_bound(errors, of) <= most


def tolerable_of_reports(errors: int, of: int, squares: int, reports: int, most: float = ERRORS) -> bool:
    """As ``tolerable``, for errors that reports share: comparisons of one report have set-ups in common.

    ``squares``: sum of the squares of each report's errors. They weigh as so many fewer as reports scatter more than
    independent errors would (E. L. Korn, B. I. Graubard, Survey Methodology 24, 1998), never as more.
    """
    share = errors / of
    if not 0 < share < 1:
        return share <= most
    each = of / reports
    variance = (squares - errors * errors / reports) / (reports - 1)
    effect = max(variance / (each * share * (1 - share)), 1.0)
    return float(beta.ppf(1 - CONFIDENCE, errors / effect, (of - errors) / effect + 1)) <= most


def within(share: float, band: tuple[float, float]) -> bool:
    return band[0] <= share <= band[1]


def band_text(band: tuple[float, float]) -> str:
    return f"at least {band[0]:.0%}" if band[1] >= 1 else f"{band[0]:.0%} to {band[1]:.0%}"
