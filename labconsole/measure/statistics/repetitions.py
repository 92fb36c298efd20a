"""Statistics of repetitions: mean, interval, difference, ratio, trend, outliers. Formulas, sources: docs/statistics.md.

An interval is omitted (None) rather than stretched if the values do not support one, and ``detectable`` is then None,
too: "too few values" is not "no difference". Sums are exact, so that equal values have a deviation of exactly zero. A
value that is not a finite number is refused, never skipped: a caller that leaves a run out has to do so explicitly.
"""

from __future__ import annotations

import math
import statistics as exact
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.distributions import student_t_quantile

__all__ = [
    "Difference",
    "OrderEffect",
    "Ratio",
    "Summary",
    "difference",
    "jain_index",
    "order_effect",
    "outliers",
    "ratio",
    "student_t_quantile",
    "summarize",
]

LEVEL = 0.95
MINIMUM_FOR_INTERVAL = 3
MINIMUM_FOR_OUTLIERS = 7  # Grubbs' test flags most points of smaller samples (NIST handbook 1.3.5.17.1)
OUTLIER_SIGNIFICANCE = 0.05
LARGEST = 1e150  # its square is still a number

Finding = Literal["difference", "no detectable difference", "too few values"]
Trend = Literal["trend", "no detectable trend", "too few values"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Repetitions of one quantity. ``sd`` (n-1) needs two values, the interval of the mean three; None below."""

    n: int
    mean: float
    median: float
    sd: float | None
    minimum: float
    maximum: float
    ci_low: float | None
    ci_high: float | None
    ci_level: float = LEVEL

    @property
    def half_width(self) -> float | None:
        """The part after the plus-minus sign."""
        return None if self.ci_low is None or self.ci_high is None else (self.ci_high - self.ci_low) / 2


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a minus mean of b with Welch's interval. ``detectable``: zero lies outside; None for too few values."""

    mean: float
    ci_low: float | None
    ci_high: float | None
    degrees: float | None
    detectable: bool | None
    ci_level: float = LEVEL

    @property
    def finding(self) -> Finding:
        """The finding for a reader."""
        if self.detectable is None:
            return "too few values"
        return "difference" if self.detectable else "no detectable difference"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Mean of a over mean of b with Fieller's interval; ``absent`` is the reason for a part that is None."""

    value: float | None
    ci_low: float | None
    ci_high: float | None
    absent: Literal["too few values", "baseline may be zero", "baseline is zero"] | None = None
    ci_level: float = LEVEL


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """Common slope of values over their position in the schedule, each design point about its own mean.

    ``change`` is the slope over the whole schedule, from the first to the last position used. With ``relative``, values
    are shares of their point's mean: 0.01 is one per cent.
    """

    slope_per_position: float | None
    ci_low: float | None
    ci_high: float | None
    change: float | None
    degrees: int | None
    detectable: bool | None
    values_used: int
    values_left_out: int
    relative: bool
    ci_level: float = LEVEL

    @property
    def finding(self) -> Trend:
        """The finding for a reader."""
        return _trend(self.detectable)


def summarize(values: Iterable[float], level: float = LEVEL) -> Summary:
    """Mean, median, sample deviation, extremes and the interval of the mean. Raises MeasurementError without values."""
    known = _finite(values)
    if not known:
        raise MeasurementError("there are no values to summarize")
    mean, sd = exact.mean(known), _deviation(known)
    low: float | None = None
    high: float | None = None
    if sd is not None and len(known) >= MINIMUM_FOR_INTERVAL:
        reach = _quantile(level, len(known) - 1) * sd / math.sqrt(len(known))
        low, high = mean - reach, mean + reach
    return Summary(len(known), mean, exact.median(known), sd, min(known), max(known), low, high, level)


def difference(a: Iterable[float], b: Iterable[float], level: float = LEVEL) -> Difference:
    """Mean of ``a`` minus mean of ``b``, for groups with different deviations (Welch)."""
    one, other = summarize(a, level), summarize(b, level)
    mean = one.mean - other.mean
    if min(one.n, other.n) < MINIMUM_FOR_INTERVAL:
        return Difference(mean, None, None, None, None, level)
    errors = _standard_error(one), _standard_error(other)
    if not any(errors):
        return Difference(mean, mean, mean, None, mean != 0, level)
    degrees = _welch_degrees(errors, (one.n, other.n))
    reach = _quantile(level, degrees) * math.hypot(*errors)
    return Difference(mean, mean - reach, mean + reach, degrees, abs(mean) > reach, level)


def ratio(a: Iterable[float], b: Iterable[float], level: float = LEVEL) -> Ratio:
    """Mean of ``a`` over mean of the baseline ``b``, with Fieller's interval for independent groups.

    There is no interval if the baseline's own mean may be zero: every ratio is possible then.
    """
    one, base = summarize(a, level), summarize(b, level)
    if base.mean == 0:
        return Ratio(None, None, None, "baseline is zero", level)
    value = _sound(one.mean / base.mean)
    if min(one.n, base.n) < MINIMUM_FOR_INTERVAL:
        return Ratio(value, None, None, "too few values", level)
    error_a, error_b = (_sound(_standard_error(group) / abs(base.mean)) for group in (one, base))
    if not error_a and not error_b:
        return Ratio(value, value, value, None, level)
    # The degrees depend on the true ratio; the estimate replaces it.
    degrees = _welch_degrees((error_a, abs(value) * error_b), (one.n, base.n))
    t = _quantile(level, degrees)
    bound = 1 - (t * error_b) ** 2
    if bound <= 0:
        return Ratio(value, None, None, "baseline may be zero", level)
    root = t * math.hypot(error_a * math.sqrt(bound), value * error_b)
    return Ratio(value, (value - root) / bound, (value + root) / bound, None, level)


def order_effect(
    positions: Iterable[float],
    values: Iterable[float],
    points: Sequence[Hashable] | None = None,
    *,
    relative: bool = False,
    level: float = LEVEL,
) -> OrderEffect:
    """Tests whether results depend on their position in the schedule.

    ``points`` names the design point of each value: points differ, so each is compared only with itself. A point with
    one value contributes nothing and is left out; so, with ``relative``, is one whose mean is zero.
    """
    where, known = _pairs(positions, values)
    if points is not None and len(points) != len(known):
        raise ValueError(f"{len(points)} points for {len(known)} values")
    groups: dict[Hashable, tuple[list[float], list[float]]] = {}
    for point, position, value in zip(points or [None] * len(known), where, known, strict=True):
        group = groups.setdefault(point, ([], []))
        group[0].append(position)
        group[1].append(value)
    used = _comparable(groups, relative)
    slope, reach, degrees = _common_slope(used, level)
    taken = [position for group in used for position in group[0]]
    counts = len(taken), len(known) - len(taken)
    if slope is None:
        return OrderEffect(None, None, None, None, None, None, *counts, relative, level)
    change = slope * (max(taken) - min(taken))
    if reach is None:
        return OrderEffect(slope, None, None, change, None, None, *counts, relative, level)
    return OrderEffect(
        slope, slope - reach, slope + reach, change, degrees, abs(slope) > reach, *counts, relative, level
    )


def outliers(values: Iterable[float]) -> list[int]:
    """Indices, ascending, that the generalized extreme Studentized deviate test flags: to be shown, never dropped.

    Rosner's test at 5 % for up to a quarter of the values: Grubbs' test repeated, without the masking by which two hide
    each other from it. Nothing is flagged below seven values: it would be most of them.
    """
    known = _finite(values)
    left = list(range(len(known)))
    candidates: list[int] = []
    flagged = 0
    if len(known) < MINIMUM_FOR_OUTLIERS:
        return []
    for _ in range(len(known) // 4):
        rest = [known[index] for index in left]
        mean, sd = exact.mean(rest), _deviation(rest)
        if not sd:
            break
        farthest = max(left, key=lambda index: abs(known[index] - mean))
        candidates.append(farthest)
        if abs(known[farthest] - mean) / sd > _rosner_limit(len(rest)):
            flagged = len(candidates)
        left.remove(farthest)
    return sorted(candidates[:flagged])


def jain_index(values: Iterable[float]) -> float | None:
    """Jain's fairness index, 1/n (one has all) to 1 (all equal), or None without values, or if all are zero."""
    known = _finite(values)
    if any(value < 0 for value in known):
        raise MeasurementError("a share that is negative has no fairness")
    largest = max(known, default=0.0)
    if largest == 0:
        return None
    shares = [value / largest for value in known]
    return math.fsum(shares) ** 2 / (len(shares) * math.fsum(share * share for share in shares))


def _finite(values: Iterable[float]) -> list[float]:
    """The values as floats. Raises MeasurementError for non-numbers, and for values beyond every quantity of a lab."""
    known: list[float] = []
    for index, value in enumerate(values):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not abs(number) <= LARGEST:
            raise MeasurementError(f"value {index + 1} is {number}, which is not a finite number")
        known.append(number)
    return known


def _pairs(first: Iterable[float], second: Iterable[float]) -> tuple[list[float], list[float]]:
    one, other = _finite(first), _finite(second)
    if len(one) != len(other):
        raise ValueError(f"{len(one)} positions for {len(other)} values")
    return one, other


def _deviation(values: Sequence[float]) -> float | None:
    """Sample deviation (n-1), or None below two values."""
    if len(values) < 2:
        return None
    return exact.stdev(values)


def _standard_error(group: Summary) -> float:
    """Standard error of the group's mean."""
    assert group.sd is not None
    return group.sd / math.sqrt(group.n)


def _welch_degrees(errors: tuple[float, float], counts: tuple[int, int]) -> float:
    """Degrees of freedom after Welch and Satterthwaite, from two standard errors, the larger one not zero."""
    largest = max(errors)
    shares = [(error / largest) ** 2 for error in errors] if largest else [1.0, 0.0]
    below = math.fsum(share * share / (n - 1) for share, n in zip(shares, counts, strict=True))
    return max(math.fsum(shares) ** 2 / below, float(min(counts) - 1))  # rounding must not reduce it


def _sound(number: float) -> float:
    if not math.isfinite(number):
        raise MeasurementError("the values are too far apart to compute with")
    return number


def _quantile(level: float, degrees: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, got {level!r}")
    return student_t_quantile((1 + level) / 2, degrees)


def _common_slope(
    groups: Sequence[tuple[Sequence[float], Sequence[float]]], level: float
) -> tuple[float | None, float | None, int | None]:
    """Least-squares slope shared by groups with a level of their own: slope, half of its interval, degrees."""
    centred: list[tuple[float, float]] = []
    for positions, values in groups:
        if not values:
            continue
        middle, mean = exact.mean(positions), exact.mean(values)
        centred += [(x - middle, y - mean) for x, y in zip(positions, values, strict=True)]
    x_unit = max((abs(x) for x, _ in centred), default=0.0)
    y_unit = max((abs(y) for _, y in centred), default=0.0) or 1.0
    if x_unit == 0:
        return None, None, None
    scaled = [(x / x_unit, y / y_unit) for x, y in centred]  # squares of tiny values would vanish
    unit = y_unit / x_unit
    spread = math.fsum(x * x for x, _ in scaled)
    slope = math.fsum(x * y for x, y in scaled) / spread
    degrees = len(scaled) - len(groups) - 1
    if degrees < 1:
        return _sound(slope * unit), None, None
    residual = math.hypot(*(y - slope * x for x, y in scaled))
    reach = _quantile(level, degrees) * residual / math.sqrt(degrees * spread)
    return _sound(slope * unit), _sound(reach * unit), degrees


def _comparable(
    groups: Mapping[Hashable, tuple[list[float], list[float]]], relative: bool
) -> list[tuple[list[float], list[float]]]:
    """The points that can be compared with themselves; their values as shares of their mean if ``relative``."""
    used: list[tuple[list[float], list[float]]] = []
    for positions, values in groups.values():
        mean = exact.mean(values)
        if len(values) < 2 or (relative and mean == 0):
            continue
        used.append((positions, [value / mean for value in values] if relative else values))
    return used


def _rosner_limit(left: int) -> float:
    """The critical value for the farthest of ``left`` values (Rosner 1983; NIST handbook 1.3.5.17.3)."""
    t = student_t_quantile(1 - OUTLIER_SIGNIFICANCE / (2 * left), left - 2)
    return (left - 1) * t / math.sqrt((left - 2 + t * t) * left)


def _trend(detectable: bool | None) -> Trend:
    if detectable is None:
        return "too few values"
    return "trend" if detectable else "no detectable trend"
