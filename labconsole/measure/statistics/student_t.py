"""Quantiles of Student's t distribution, for any real number of degrees of freedom.

The standard library ends at the normal distribution, and Welch's degrees are not integers, so that a table is not
enough. scipy would be 100 MB for this one function: the tests compare with it, the program does without.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from labconsole.measure.statistics.special_functions import incomplete_beta

MANY_DEGREES = 5000.0  # from here on the expansion around the normal quantile is exact to double precision
_MAX_STEPS = 200


@lru_cache(maxsize=4096)
def student_t_quantile(probability: float, degrees: float) -> float:
    """The t with a share ``probability`` below it. ``degrees`` is at least 1, may be fractional or inf."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"a probability lies between 0 and 1, got {probability!r}")
    if not degrees >= 1.0:
        raise ValueError(f"degrees of freedom must be at least 1, got {degrees!r}")
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -_positive_quantile(probability, degrees)
    return _positive_quantile(1.0 - probability, degrees)


def student_t_tail(t: float, degrees: float) -> float:
    """Share of the distribution above ``t`` (t >= 0)."""
    square = t * t
    if math.isinf(square):
        return 0.0
    if square < 2.0:  # one form is exact near the middle, the other in the tail: neither cancels
        return 0.5 - 0.5 * incomplete_beta(square / (degrees + square), 0.5, degrees / 2)
    return 0.5 * incomplete_beta(degrees / (degrees + square), degrees / 2, 0.5)


def _positive_quantile(tail: float, degrees: float) -> float:
    """The t > 0 with ``tail`` above it."""
    if degrees == 1.0:
        return 1.0 / math.tan(math.pi * tail)
    if degrees > MANY_DEGREES:
        return _expansion(-NormalDist().inv_cdf(tail), degrees)
    return _solve(tail, degrees)


def _solve(tail: float, degrees: float) -> float:
    """Newton's method on ln(tail) over ln(t), inside a bracket that shrinks with every step."""
    low, high = 0.0, math.inf
    t = max(-NormalDist().inv_cdf(tail), 1e-9)
    for _ in range(_MAX_STEPS):
        found = student_t_tail(t, degrees)
        if found > tail:
            low = t
        else:
            high = t
        slope = t * _density(t, degrees)
        following = t * math.exp(min(found * math.log(found / tail) / slope, 50.0)) if found > 0 and slope > 0 else 0.0
        if not low < following < high:
            following = 2 * t if math.isinf(high) else (low + high) / 2
        if abs(following - t) <= 2e-16 * t:
            return following
        t = following
    return t


def _density(t: float, degrees: float) -> float:
    constant = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    return math.exp(constant - (degrees + 1) / 2 * math.log1p(t * t / degrees))


def _expansion(z: float, degrees: float) -> float:
    """Cornish-Fisher expansion around the normal quantile z (Abramowitz and Stegun 26.7.5)."""
    if math.isinf(degrees):
        return z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))
