"""The requirements for showing that nothing has become worse: margin by spread, and number of occasions. Pure.

A gate passes if a one-sided t at 5 % shows that a fall is smaller than the margin. Without any change that is a test
with a noncentral t, as in ``effects``: its noncentrality is ln(1 + margin) in standard errors.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from labconsole.measure.statistics.distributions import chi_square_quantile, noncentral_t_cdf, student_t_quantile
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, POWER, SIGNIFICANCE, Effect, noncentrality

MOST_OCCASIONS: Final = 60
"""Per side: a plan cannot reasonably have more."""

_LEAST_ERRORS: Final = 2.48
"""Standard errors that a margin needs to pass with 80 % power for any degrees of freedom: 2.486 for normal."""

_SPREADS: Final = 16
_HALVINGS: Final = 30


class OccasionCounts(NamedTuple):
    """The number of occasions on each side."""

    baseline: int
    later: int

    @property
    def error_ratio(self) -> float:
        """The standard error of a change, in deviations of an occasion."""
        return math.sqrt(1 / self.baseline + 1 / self.later)

    @property
    def degrees(self) -> float:
        """The degrees of Student's t, or of Welch's with equal spreads if both sides have three."""
        if min(self) < MINIMUM_BLOCKS:
            return float(sum(self) - 2)
        return self.error_ratio**4 / math.fsum(1 / (many * many * (many - 1)) for many in self)


def passing_margin_ratio(effect: Effect, *, is_spread_known: bool) -> float | None:
    """The margin that passes with 80 % power at the spread of ``effect`` without a change, or None without spread.

    ``is_spread_known``: the spread is that of a baseline that stays. Otherwise later occasions estimate it again,
    possibly with a larger result: the power is then a mean over the estimates at these degrees of freedom.
    """
    if effect.error_log is None or effect.degrees is None:
        return None
    degrees = effect.degrees
    # Welch's degrees are never equal twice, and the mean over spreads takes a while.
    errors = (
        noncentrality_of_known_spread(degrees)
        if is_spread_known
        else _noncentrality_of_estimated_spread(math.floor(10 * degrees) / 10)
    )
    log_margin = errors * effect.error_log
    return math.expm1(log_margin) if log_margin < 700.0 else None


def deciding_counts(
    sd_log: float, margin_ratio: float, least: OccasionCounts, *, least_error_log: float = 0.0
) -> OccasionCounts | None:
    """The fewest occasions, at least ``least`` per side, with which an unchanged plan passes with 80 % power.

    ``sd_log``: of an occasion, on the logarithm. ``least_error_log``: the part of a change's error that more occasions
    do not reduce. Among equal totals it has the fewest later ones, since they are measured for every change. None above
    60 per side.
    """
    bound, fewest = math.log1p(margin_ratio), max(least.baseline, MINIMUM_BLOCKS)
    evenly = math.ceil(4 * (_LEAST_ERRORS * sd_log / bound) ** 2)  # fewer are not enough, however they are distributed
    for total in range(max(fewest + least.later, evenly), 2 * MOST_OCCASIONS + 1):
        for later in range(max(least.later, total - MOST_OCCASIONS), min(total - fewest, MOST_OCCASIONS) + 1):
            counts = OccasionCounts(total - later, later)
            error = max(sd_log * counts.error_ratio, least_error_log)
            if bound >= _LEAST_ERRORS * error and bound >= noncentrality_of_known_spread(counts.degrees) * error:
                return counts
    return None


def noncentrality_of_known_spread(degrees: float) -> float:
    """The standard errors that a margin needs to pass with 80 % power: the noncentral t, one-sided at 5 %."""
    return noncentrality(degrees, 2 * SIGNIFICANCE, POWER)


@lru_cache(maxsize=4096)
def _noncentrality_of_estimated_spread(degrees: float) -> float:
    """The same for an estimated standard error: the present estimate is one draw, and a later one is another."""
    limit = student_t_quantile(1 - SIGNIFICANCE, degrees)
    spreads = [math.sqrt(chi_square_quantile((place + 0.5) / _SPREADS, degrees) / degrees) for place in range(_SPREADS)]
    low, high = 0.0, 64.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        power = 1 - math.fsum(noncentral_t_cdf(limit, degrees, middle * each) for each in spreads) / _SPREADS
        low, high = (middle, high) if power < POWER else (low, middle)
    return high
