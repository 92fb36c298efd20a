"""Finds the one value apart from the others of its group: the largest externally Studentized deviation. Pure.

R. D. Cook, S. Weisberg: Residuals and Influence in Regression. 1982, 2.2.2; Bonferroni over all values. A value is
compared with the spread of all groups without it. A flag is a reason to look, and no value is left out for it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from labconsole.measure.statistics.distributions import student_t_cdf
from labconsole.measure.statistics.set_ups import mean_of

K = TypeVar("K", bound=Hashable)

FEWEST_OF_A_GROUP: Final = 3
"""Of two values, either may be the outlier."""

FLAGGED: Final = 0.01
"""Probability that any value of clean normal groups is flagged."""

LEAST_SD_LOG: Final = 1e-4
"""The assumed minimum deviation of values. It is larger if values have a coarser resolution: counts have steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier(Generic[K]):
    """``change_ratio``: compared with the mean of the others in its group. ``sd_log``: the deviation of all others."""

    key: K
    change_ratio: float
    sd_log: float


def find_outlier(groups: Sequence[Mapping[K, float]], known_ratio: float = 0.0) -> Outlier[K] | None:
    """The value farthest from the others of its group, or None if that is by chance; values above zero, by key.

    ``known_ratio``: the resolution of a value, as a deviation of its logarithm: among values that are equal except for
    one step of a count there is no outlier. Also None if fewer than two degrees of freedom remain to judge it by.
    """
    if any(value <= 0 for group in groups for value in group.values()):
        return None
    logs = [{key: math.log(value) for key, value in group.items()} for group in groups if len(group) > 1]
    squares = [_squares(list(group.values())) for group in logs]
    degrees = sum(len(group) - 1 for group in logs) - 1
    if degrees < 1:
        return None
    total, found = math.fsum(squares), []
    for own, group in zip(squares, logs, strict=True):
        if len(group) < FEWEST_OF_A_GROUP:
            continue
        for key, value in group.items():
            others = [other for name, other in group.items() if name != key]
            change = value - mean_of(others)
            sd = max(math.sqrt(max(0.0, total - own + _squares(others)) / degrees), LEAST_SD_LOG, known_ratio)
            found.append((abs(change) / (sd * math.sqrt(1 + 1 / len(others))), change, sd, key))
    if not found:
        return None
    t, change, sd, key = max(found, key=lambda each: each[0])
    p = 2 * len(found) * student_t_cdf(-t, float(degrees))
    return Outlier(key=key, change_ratio=math.expm1(change), sd_log=sd) if p <= FLAGGED else None


def _squares(values: Sequence[float]) -> float:
    mean = mean_of(values)
    return math.fsum((value - mean) ** 2 for value in values)
