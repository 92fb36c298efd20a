"""Where a series of results changes, by minimum description length: jumpavg, the CSIT project's own. Pure.

A series is cut into levels so that telling the levels and how far each result lies from its own takes the fewest bits.
jumpavg knows nothing of drift: a series that creeps is cut into levels as well. How often one without a change is cut,
and which step is found, was simulated (docs/compare.md).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

MINIMUM_RESULTS: Final = 4
"""Of a series that is cut: with fewer every cut would leave single results."""

FOUND_STEPS: Final[dict[int, float]] = {
    4: 17.8, 5: 14.7, 6: 11.7, 8: 8.3, 10: 7.0, 12: 6.0, 16: 4.7, 20: 3.9, 30: 3.0,
}  # fmt: skip
"""The step in the middle of so many results that is found in 8 of 10 series, in standard deviations of a result: of
400 simulated series of normal results each (150 from 30 on). Held by tests/unit/report/test_trends.py.
"""


LEAST_SPREAD_RATIO: Final = 1e-6
"""Of the highest result: where less than half of them differ, what else is a step."""

MEDIAN_OF_NEIGHBOURS: Final = 0.9539
"""Median of the absolute difference of two normal results, in their deviation: 0.6745 times the root of two."""

FROM_ZERO: Final = 200.0
UNITS: Final = 41.0
"""Where a series is moved to, and the unit in which its bits are counted, in deviations of a result: those of results
that vary by 0.5 %, at jumpavg's usual resolution.
"""


class Level(NamedTuple):
    """Results ``first`` to ``last``, numbered from 0, with their mean and (from two) standard deviation."""

    first: int
    last: int
    mean: float
    sd: float | None


def levels(values: Sequence[float], least_spread: float = 0.0, least_change: float = 0.0) -> list[Level]:
    """The levels of results, all above 0, in the order of their time; one where nothing changes, or of too few.

    ``least_spread``: deviation of a result that is to be reckoned with however little they vary; ``least_change``:
    neighbouring levels that differ by no more are one. Both are of results that move in steps, such as bounds.
    """
    from jumpavg import classify

    if not values:
        return []
    groups = [list(values)]
    if len(values) >= MINIMUM_RESULTS:
        # jumpavg counts bits of the values themselves: what it finds would depend on how far they lie from zero.
        spread = max(_spread(values), least_spread, LEAST_SPREAD_RATIO * max(values))
        lowest = min(values)
        moved = [float(value - lowest + FROM_ZERO * spread) for value in values]
        rest = iter(values)
        groups = [list(islice(rest, len(group.run_list))) for group in classify(moved, unit=spread / UNITS)]
    _join(groups, least_change)
    found, first = [], 0
    for held in groups:
        mean = statistics.fmean(held)
        sd = statistics.stdev(held, mean) if len(held) > 1 else None
        found.append(Level(first, first + len(held) - 1, mean, sd))
        first += len(held)
    return found


def _join(groups: list[list[float]], least_change: float) -> None:
    """Those that differ least first, until all neighbours differ by more."""
    while len(groups) > 1:
        means = [statistics.fmean(held) for held in groups]
        changes = [abs(after - before) for before, after in pairwise(means)]
        least = min(changes)
        if least > least_change:
            return
        place = changes.index(least)
        groups[place : place + 2] = [groups[place] + groups[place + 1]]


def _spread(values: Sequence[float]) -> float:
    """Standard deviation of a result, by the median of what neighbours differ by: a step moves it little."""
    return statistics.median(abs(after - before) for before, after in pairwise(values)) / MEDIAN_OF_NEIGHBOURS


def smallest_step_ratio(found: Sequence[Level], least_spread: float = 0.0, least_change: float = 0.0) -> float | None:
    """The smallest step, as a share of the last level, that a series like this one would show in 8 of 10 cases.

    By the spread within levels, and what ``levels`` was told; None where no level has two results, or there
    are too few.
    """
    results = found[-1].last + 1 if found else 0
    sizes = [size for size in FOUND_STEPS if size <= results]
    squares = [(each.last - each.first, each.sd) for each in found if each.sd is not None]
    degrees = sum(many for many, _ in squares)
    if not sizes or not degrees or not found[-1].mean > 0:
        return None
    pooled = math.sqrt(math.fsum(many * sd * sd for many, sd in squares) / degrees)
    return max(FOUND_STEPS[max(sizes)] * max(pooled, least_spread), least_change) / found[-1].mean
