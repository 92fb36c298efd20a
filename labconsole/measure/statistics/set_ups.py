"""Mean of one quantity over set-ups, and the one set-up apart from the others of its group. Pure."""

from __future__ import annotations

import math
import statistics as exact
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.distributions import student_t_cdf, student_t_quantile

# -- means -------------------------------------------------------------------------------------------------------------
# Mean of one quantity over set-ups: the replicate is the set-up, not the trial. Pure; values in any one unit.
#
# Trials of one set-up share its boot, its placement in memory and its moment, and therefore do not show how far the
# next set-up may differ. The interval is that of the set-ups' own means, by Student's t with one degree less than there
# are set-ups (T. Kalibera, R. Jones: Rigorous benchmarking in reasonable time. ISMM 2013: replicate at the highest
# level that varies). Set-ups weigh alike, whatever their numbers of trials. Derivation and limits: docs/statistics.md.

Key = TypeVar("Key", bound=Hashable)
"""The key of a set-up or block."""

LEVEL = 0.95
MINIMUM_FOR_INTERVAL = 3
"""For set-ups, or the trials of a single set-up: with two, t = 12.7 would make the interval useless."""
LARGEST = 1e150  # its square is still a number

Scope = Literal["set-ups", "this set-up only", "too few"]
Method = Literal[
    "student-t over set-ups",
    "student-t within one set-up",
    "counts over set-ups",
    "lower bound over set-ups",
    "student-t over set-ups, simultaneous",
    "no interval",
]


@dataclass(frozen=True, slots=True)
class SetUpMean:
    """Mean of one quantity, in the unit of its values, and its reliability.

    ``scope``: what the interval applies to: "set-ups" (any set-up of this kind), "this set-up only" (there was one, and
    another may differ), "too few" (no interval). ``sd`` is between the means of set-ups if there are two or more, else
    between the trials of the one. ``minimum``, ``maximum`` and ``median`` are of all trials. ``method``: the method for
    the interval; the last four are those of bounded_means.py. A lower bound has no ``ci_high``.
    """

    mean: float
    ci_low: float | None
    ci_high: float | None
    sd: float | None
    set_ups: int
    trials: int
    scope: Scope
    minimum: float
    maximum: float
    median: float
    method: Method

    @property
    def half_width(self) -> float | None:
        """The part after the plus-minus sign, for an interval with its mean in the middle."""
        if not self.method.startswith("student-t") or self.method.endswith("simultaneous"):
            return None
        return None if self.ci_low is None or self.ci_high is None else (self.ci_high - self.ci_low) / 2


def mean_over_set_ups(values: Mapping[Key, Sequence[float]], level: float = LEVEL) -> SetUpMean:
    """Mean of the set-ups' means with its interval. ``values``: of the trials, by set-up.

    From three set-ups: over set-ups. With one: over its trials, from three of them. With two: the mean alone. A set-up
    without values does not count. Raises MeasurementError if no set-up has any.
    """
    known = {set_up: finite(trials) for set_up, trials in values.items() if len(trials)}
    if not known:
        raise MeasurementError("there are no values to take a mean of")
    trials = [value for group in known.values() for value in group]
    one = len(known) == 1
    units = trials if one else [mean_of(group) for group in known.values()]
    mean, sd = mean_of(units), deviation(units)
    low = high = None
    scope: Scope = "too few"
    if sd is not None and len(units) >= MINIMUM_FOR_INTERVAL:
        reach = student_t_quantile((1 + level) / 2, len(units) - 1) * sd / math.sqrt(len(units))
        low, high = mean - reach, mean + reach
        scope = "this set-up only" if one else "set-ups"
    return SetUpMean(
        mean=mean,
        ci_low=low,
        ci_high=high,
        sd=sd,
        set_ups=len(known),
        trials=len(trials),
        scope=scope,
        minimum=min(trials),
        maximum=max(trials),
        median=exact.median(trials),
        method="student-t within one set-up" if one else "student-t over set-ups",
    )


def set_up_means(values: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    """Mean of each set-up's trials; set-ups without values are left out."""
    return {set_up: mean_of(finite(trials)) for set_up, trials in values.items() if len(trials)}


def mean_of(values: Sequence[float]) -> float:
    """Mean of one or more values; exactly the value if all are equal."""
    if len(values) == 1 or min(values) == max(values):
        return values[0]
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float | None:
    """Sample deviation (n - 1), exactly zero for equal values; None below two."""
    if len(values) < 2:
        return None
    mean = mean_of(values)
    return math.hypot(*[value - mean for value in values]) / math.sqrt(len(values) - 1)


def pooled_deviation(groups: Iterable[Sequence[float]]) -> float | None:
    """Deviation of values about the mean of their own group, or None if no group has two."""
    weighted = [(deviation(group), len(group) - 1) for group in groups if len(group) > 1]
    degrees = sum(each for _, each in weighted)
    return math.sqrt(math.fsum((sd or 0.0) ** 2 * each for sd, each in weighted) / degrees) if degrees else None


def finite(values: Iterable[float]) -> list[float]:
    """The values as floats. Raises MeasurementError for non-numbers, and for values beyond every quantity of a lab."""
    known: list[float] = []
    for value in values:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not abs(number) <= LARGEST:
            raise MeasurementError(f"value {len(known) + 1} is {number}, which is not a finite number")
        known.append(number)
    return known


# -- group outliers ----------------------------------------------------------------------------------------------------
# Finds the one value apart from the others of its group: the largest externally Studentized deviation.
#
# R. D. Cook, S. Weisberg: Residuals and Influence in Regression. 1982, 2.2.2; Bonferroni over all values. A value is
# compared with the spread of all groups without it. A flag is a reason to look, and no value is left out for it.

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
