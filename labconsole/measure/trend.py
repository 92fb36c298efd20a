"""Where a series of results changes, whether order matters, and the smallest change it would have shown. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations, islice, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

# -- order test --------------------------------------------------------------------------------------------------------
# Whether the order of results matters: a permutation test for one change, or for a temporary level.
#
# For any results whose order is meaningless, whatever their distribution, it finds a change with a probability of at
# most LARGEST_P. The statistic is that of circular binary segmentation (A. B. Olshen et al., Biostatistics 5, 2004),
# weighted in favour of a lasting change over a temporary level, since that needs two changes.

ORDER_RESULTS: Final = 9
"""The number of results from which a single order can be rare enough.

Of eight results in halves 2 of 70 orders are the clearest.
"""

LARGEST_P: Final = 1 / 40
SHUFFLES: Final = 999
SEED: Final = 44
LEFT_AGAIN: Final = 0.9
"""The factor for the sum of squares that a temporary level explains."""

Rows = npt.NDArray[np.float64]


def order_p(values: Sequence[float], fewest: int) -> float:
    """The share of shuffled orders, of 999 and this one, that divide the results at least as clearly as their own does.

    ``fewest``: the smallest group to divide off. A reversed series has the same value.
    """
    own = np.asarray(values, dtype=np.float64)
    shuffled = np.random.default_rng(SEED).permuted(np.tile(np.sort(own), (SHUFFLES, 1)), axis=1)
    clear = _clearness(np.vstack([own, shuffled]) - own.mean(), fewest)
    return float(np.mean(clear >= clear[0] * (1 - 1e-9)))


def _clearness(rows: Rows, fewest: int) -> Rows:
    """For each row, with a mean of zero, the largest sum of squares between a section of it and the rest."""
    count = rows.shape[1]
    sums = np.concatenate([np.zeros((len(rows), 1)), rows.cumsum(axis=1)], axis=1)
    clearest = np.zeros(len(rows))
    for length in range(fewest, count - fewest + 1):
        squares = (sums[:, length:] - sums[:, :-length]) ** 2 * (count / (length * (count - length)))
        squares[:, 1:-1] *= LEFT_AGAIN
        np.maximum(clearest, squares.max(axis=1), out=clearest)
    return clearest


def clearest_places(values: Sequence[float], places: Sequence[int]) -> tuple[int, ...]:
    """The one or two of these places that divide the results best.

    A place is the number of the first result after it.
    """
    own = np.asarray(values, dtype=np.float64)
    count, sums = len(own), np.concatenate([[0.0], (own - own.mean()).cumsum()])

    def clearness(cut: tuple[int, ...]) -> float:
        first, last = (0, cut[0]) if len(cut) == 1 else cut
        between = float(sums[last] - sums[first]) ** 2 * count / ((last - first) * (count - last + first))
        return between if len(cut) == 1 else LEFT_AGAIN * between

    return max([*((place,) for place in places), *combinations(places, 2)], key=clearness)


# -- trend -------------------------------------------------------------------------------------------------------------
# Finds where a series of results changes, by minimum description length, with the CSIT project's jumpavg.
#
# A series is divided into levels so that describing the levels and each result's distance from its own takes the fewest
# bits. jumpavg assumes a normal distribution, and treats a single distant result, or a pair of different counts, as a
# level. Therefore results that are too few for a level are outliers, a spread has the results' known resolution as its
# lower limit, and the remaining changes must depend on the order of the results (trend.py). What is found, and how
# often without a cause: docs/compare.md.

MINIMUM_RESULTS: Final = 4
"""Of a series that is looked at: among fewer no result lies apart from the others."""

CUT_RESULTS: Final = 6
"""Of a series that is cut. Nights of two kinds part four or five results into two and two, or two and three, in one
series of eight.
"""

LEAST_SPREAD_RATIO: Final = 1e-6
"""Relative to the highest result: a smaller spread is due to floating point."""

EQUAL_CHANGE_RATIO: Final = 0.002
"""The least change, relative to the highest result, if half of all neighbours are equal within their resolution.

Such a series does not show how far a result may differ from the others.
"""

FAR_SPREADS: Final = 5.0
FAR_SPREADS_OF_ONE: Final = 32.0
"""The distance of an outlier from its level, in spreads of the series.

For n results it is the first constant plus the n-th part of the second, since few results determine their spread
poorly. Of normal series at most 1 in 100 has one.
"""

CLEAR_ERRORS: Final = 4.75
WANDERING_RESULTS: Final = 14
"""The difference between levels in standard errors, and the number of results from which it is required.

Fewer results do not show how similar neighbours are, and are divided less.
"""

MOST_AUTOCORRELATION: Final = 0.9

MOST_OUTLIERS: Final = 0.25
"""The share of all results; if more are apart, that is their normal spread."""

MEDIAN_OF_NEIGHBOURS: Final = 0.9539
"""Median absolute difference of two normal results, in their deviation: 0.6745 times the root of two."""

FROM_ZERO: Final = 200.0
UNITS: Final = 41.0
"""The position to which a series is moved, and the unit in which its bits are counted, in deviations of a result.

They are those of results that vary by 0.5 %, at jumpavg's usual resolution.
"""


class Resolution(NamedTuple):
    """The known resolution of results.

    ``least_spread``: the lower limit of their deviation. ``least_change``: neighbouring levels that differ by no more
    are one, as are those that differ by no more than ``margin_ratio`` of the earlier one.
    """

    least_spread: float = 0.0
    least_change: float = 0.0
    margin_ratio: float = 0.0

    def is_change(self, before: float, after: float) -> bool:
        """Whether the second level differs from the first."""
        return abs(after - before) > max(self.least_change, self.margin_ratio * before)


EXACT: Final = Resolution()


class Level(NamedTuple):
    """Results ``first`` to ``last``, numbered from 0, with their mean and (from two) standard deviation.

    Outliers are in neither.
    """

    first: int
    last: int
    mean: float
    sd: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"first": self.first, "last": self.last, "mean": self.mean, "sd": self.sd}


class Segmentation(NamedTuple):
    """A series in levels.

    ``outliers``: numbers, from 0, of results that belong to no level. The last result may be the first of one.
    ``known``: the assumed resolution of the results.
    """

    levels: tuple[Level, ...] = ()
    outliers: tuple[int, ...] = ()
    known: Resolution = EXACT

    @property
    def is_latest_outlier(self) -> bool:
        """Whether the latest result belongs to no level."""
        return bool(self.outliers) and self.outliers[-1] == self.levels[-1].last


def fewest_results(results: int) -> int:
    """The fewest results that make a level: in a short series, two results agree by chance more often.

    With three, a series of fewer than CUT_RESULTS has one level.
    """
    return CUT_RESULTS // 2 if results < WANDERING_RESULTS else 2


def segment(values: Sequence[float], known: Resolution = EXACT) -> Segmentation:
    """The levels of results, all above 0, in the order of their time; one level if nothing changes, or for too few."""
    if not values:
        return Segmentation()
    everything = list(range(len(values)))
    if len(values) < MINIMUM_RESULTS:
        return Segmentation(_levels([everything], values, {}))
    known, fewest = _widen_resolution(values, known), fewest_results(len(values))
    kept, groups = everything, _groups(everything, values, known)
    while apart := _apart(groups, values, known, fewest):
        kept = [place for place in kept if place not in apart]
        if len(values) - len(kept) > max(1, MOST_OUTLIERS * len(values)):
            kept, groups = everything, [everything]
            break
        groups = _groups(kept, values, known)
    if len(values) < ORDER_RESULTS and (len(kept) < len(values) or _overlap(groups, values)) and len(groups) > 1:
        kept, groups = everything, [everything]  # few results of two kinds of nights are easily so
    _join_alike(groups, values, known)
    groups = _confirmed(groups, _tested(values, kept), fewest)
    _join_alike(groups, values, known)
    if len(kept) >= WANDERING_RESULTS:
        _join_wandering(groups, values, known.least_spread)
    means = [statistics.fmean(values[place] for place in group) for group in groups]
    outliers: dict[int, int] = {}
    """The level in which each lies."""
    for place in sorted(set(everything) - set(kept)):
        after = next((number for number, group in enumerate(groups) if group[-1] > place), len(groups) - 1)
        between = [number for number in (after - 1, after) if number >= 0] if groups[after][0] > place else [after]
        nearest = min(between, key=lambda number: abs(values[place] - means[number]))
        inside = len(between) == 2 and min(means[n] for n in between) <= values[place] <= max(means[n] for n in between)
        if inside or not known.is_change(means[nearest], values[place]):
            groups[nearest] = sorted([*groups[nearest], place])
        else:
            outliers[place] = nearest
    return Segmentation(_levels(groups, values, outliers), tuple(outliers), known)


def _widen_resolution(values: Sequence[float], known: Resolution) -> Resolution:
    """The resolution of a series, widened if most of its results may be equal."""
    if _spread(values) > max(known.least_spread, LEAST_SPREAD_RATIO * max(values)):
        return known
    return known._replace(least_change=max(known.least_change, EQUAL_CHANGE_RATIO * max(values)))


def _groups(places: list[int], values: Sequence[float], known: Resolution) -> list[list[int]]:
    """Divide by jumpavg alone, after moving the series.

    It counts bits of the values themselves, so its result would depend on their distance from zero.
    """
    from jumpavg import classify

    if len(places) < MINIMUM_RESULTS:
        return [places]
    own = [values[place] for place in places]
    spread = max(_spread(own), known.least_spread, LEAST_SPREAD_RATIO * max(own))
    lowest = min(own)
    moved = [float(value - lowest + FROM_ZERO * spread) for value in own]
    rest = iter(places)
    return [list(islice(rest, len(group.run_list))) for group in classify(moved, unit=spread / UNITS)]


def _apart(groups: list[list[int]], values: Sequence[float], known: Resolution, fewest: int) -> list[int]:
    """Results that are too few for a level, or else the one that is farthest from its level, if it is improbably far.

    Two such results hide each other, and a step, from jumpavg.
    """
    if short := [place for group in groups if len(group) < fewest for place in group]:
        return short
    own = [values[place] for group in groups for place in group]
    reach = (FAR_SPREADS + FAR_SPREADS_OF_ONE / len(own)) * max(_spread(own), known.least_spread)
    farthest, distance = None, max(reach, LEAST_SPREAD_RATIO * max(own))
    for group in groups:
        middle = statistics.median(values[place] for place in group)
        for place in group if len(group) >= MINIMUM_RESULTS else ():
            away = abs(values[place] - middle)
            if away > distance and known.is_change(middle, values[place]):
                farthest, distance = place, away
    return [] if farthest is None else [farthest]


def _overlap(groups: list[list[int]], values: Sequence[float]) -> bool:
    """Whether a result of one of two neighbouring levels lies among those of the other."""
    ends = [(min(own), max(own)) for own in ([values[place] for place in group] for group in groups)]
    return any(max(a[0], b[0]) <= min(a[1], b[1]) for a, b in pairwise(ends))


def _spread(values: Sequence[float]) -> float:
    """Standard deviation of a result, from the median difference of neighbours: a step affects it little."""
    return statistics.median(abs(after - before) for before, after in pairwise(values)) / MEDIAN_OF_NEIGHBOURS


def _tested(values: Sequence[float], kept: list[int]) -> dict[int, float]:
    """The values for the test of the order: the kept results, if at most one is an outlier.

    With more outliers, similar results among the rest could only be neighbours. Outliers are then included, but limited
    to the range of the rest. A single one is included if fewer than ORDER_RESULTS would remain without it.
    """
    if len(values) - len(kept) <= 1 and not len(kept) < ORDER_RESULTS <= len(values):
        return {place: values[place] for place in kept}
    own = [values[place] for place in kept]
    return {place: min(max(value, min(own)), max(own)) for place, value in enumerate(values)}


def _confirmed(groups: list[list[int]], tested: dict[int, float], fewest: int) -> list[list[int]]:
    """The groups that the order of results confirms, the clearest ones first. ``tested``: values by place."""
    if len(groups) == 1 or len(tested) < ORDER_RESULTS:
        return groups
    places, own = list(tested), list(tested.values())
    if order_p(own, fewest) > LARGEST_P:
        return [[place for group in groups for place in group]]
    starts = [0, *(places.index(group[0]) for group in groups[1:]), len(places)]
    found = []
    for first, last in pairwise([0, *clearest_places(own, starts[1:-1]), len(places)]):
        part = groups[starts.index(first) : starts.index(last)]
        found += _confirmed(part, {place: tested[place] for place in places[first:last]}, fewest)
    return found


def _join_alike(groups: list[list[int]], values: Sequence[float], known: Resolution) -> None:
    """Join the most similar neighbours first, until all neighbours differ by more than the resolution."""
    while len(groups) > 1:
        means = [statistics.fmean(values[place] for place in group) for group in groups]
        alike = [abs(after - before) for before, after in pairwise(means) if not known.is_change(before, after)]
        if not alike:
            return
        place = [abs(after - before) for before, after in pairwise(means)].index(min(alike))
        groups[place : place + 2] = [groups[place] + groups[place + 1]]


def _join_wandering(groups: list[list[int]], values: Sequence[float], least_spread: float) -> None:
    """Join neighbours whose difference is closest to wandering results first, until all are distinct."""
    while len(groups) > 1:
        own = [[values[place] for place in group] for group in groups]
        error = wandering_error(own, least_spread)
        clear = [
            abs(statistics.fmean(after) - statistics.fmean(before)) / math.sqrt(1 / len(before) + 1 / len(after))
            for before, after in pairwise(own)
        ]
        if min(clear) > CLEAR_ERRORS * error:
            return
        place = clear.index(min(clear))
        groups[place : place + 2] = [groups[place] + groups[place + 1]]


def wandering_error(groups: Sequence[Sequence[float]], least_spread: float = 0.0) -> float:
    """Standard deviation within levels, multiplied for results that each resemble the previous one.

    The factor for the variation of means is the root of (1 + r) / (1 - r), with r the lag-1 autocorrelation about a
    line in each level, less its bias (M. G. Kendall, Biometrika 41, 1954, for a line). It is about a line, since a
    drift is no resemblance.
    """
    count, about_line = sum(map(len, groups)), [_residuals(group) for group in groups]
    squares = math.fsum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    of_line = math.fsum(value * value for group in about_line for value in group)
    if not squares or count <= len(groups):
        return least_spread
    r = math.fsum(one * other for group in about_line for one, other in pairwise(group)) / of_line if of_line else 0.0
    r = min(max(r + (2 + 4 * r) * len(groups) / count, 0.0), MOST_AUTOCORRELATION)
    return max(math.sqrt(squares / (count - len(groups))), least_spread) * math.sqrt((1 + r) / (1 - r))


def _residuals(values: Sequence[float]) -> list[float]:
    if len(values) < MINIMUM_RESULTS:
        mean = statistics.fmean(values)
        return [value - mean for value in values]
    slope, start = statistics.linear_regression(range(len(values)), values)
    return [value - start - slope * place for place, value in enumerate(values)]


def _levels(groups: list[list[int]], values: Sequence[float], outliers: dict[int, int]) -> tuple[Level, ...]:
    found: list[Level] = []
    for number, group in enumerate(groups):
        own = [values[place] for place in group]
        mean = statistics.fmean(own)
        last = max([group[-1], *(place for place, level in outliers.items() if level == number)])
        first = found[-1].last + 1 if found else 0
        found.append(Level(first, last, mean, statistics.stdev(own, mean) if len(own) > 1 else None))
    return tuple(found)


# -- trend power -------------------------------------------------------------------------------------------------------
# The smallest changes that a series of results would have shown: a step in its middle, and the latest result.

FOUND_STEPS: Final[dict[int, float]] = {
    6: 11.7,
    8: 8.3,
    10: 7.0,
    12: 6.0,
    16: 4.7,
    20: 3.9,
    30: 3.0,
    60: 2.0,
    100: 1.5,
}
"""The step in the middle of this many results that is found in 8 of 10 series, in standard deviations of a result.

From simulated series of normal results, validated by the table of trends in docs/validation.md. Shorter series are not
cut.
"""

LATEST_STEPS: Final[dict[int, float]] = {
    4: 16.2,
    5: 12.9,
    6: 10.6,
    8: 8.4,
    10: 7.5,
    12: 7.0,
    16: 6.4,
    20: 6.0,
    30: 5.7,
    60: 5.3,
    100: 5.2,
}
"""The deviation of the latest of this many results that is reported in 8 of 10 series.

A single one is no change yet.
"""

NORMAL_80: Final = 0.8416
"""The value that exceeds 8 of 10 normal values, in their deviation."""


class SmallestSteps(NamedTuple):
    """As shares of the last level, or None if no level has two results or the results are too few (CUT_RESULTS in the
    middle).
    """

    middle_ratio: float | None = None
    latest_ratio: float | None = None


def smallest_steps(found: Segmentation) -> SmallestSteps:
    """The changes that a series like this one, of one level, would show in 8 of 10 cases.

    They depend on the spread within its levels, and on the results' resolution, which a step has to exceed.
    """
    levels, known = found.levels, found.known
    results = levels[-1].last + 1 if levels else 0
    off = [sum(each.first <= place <= each.last for place in found.outliers) for each in levels]
    squares = [
        (each.last - each.first - out, each.sd) for each, out in zip(levels, off, strict=True) if each.sd is not None
    ]
    degrees = sum(many for many, _ in squares)
    if results < min(LATEST_STEPS) or not degrees or not levels[-1].mean > 0:
        return SmallestSteps()
    mean = levels[-1].mean
    pooled = math.sqrt(math.fsum(many * sd * sd for many, sd in squares) / degrees)
    sd = max(pooled, known.least_spread)
    least = max(known.least_change, known.margin_ratio * mean)

    def smallest(steps: Mapping[int, float], error: float) -> float:
        size = max(size for size in steps if size <= results)
        return max(steps[size] * sd, least + NORMAL_80 * error) / mean

    return SmallestSteps(
        smallest(FOUND_STEPS, pooled * 2 / math.sqrt(results)) if results >= min(FOUND_STEPS) else None,
        smallest(LATEST_STEPS, pooled * math.sqrt(1 + 1 / results)),
    )
