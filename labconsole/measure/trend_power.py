"""The smallest changes that a series of results would have shown: a step in its middle, and the latest result. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from labconsole.measure.trend import Segmentation

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
"""The step in the middle of so many results that is found in 8 of 10 series, in standard deviations of a result: of
simulated series of normal results, validated by the table of trends in docs/validation.md. Shorter ones are not cut.
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
    """As shares of the last level; None: no level has two results, or there are too few (CUT_RESULTS in the middle)."""

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
