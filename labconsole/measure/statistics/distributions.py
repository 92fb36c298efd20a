"""The distributions for intervals, tests and power: Student's t (central and not), chi-square, binomial.

The standard library ends at the normal distribution, and scipy would be 100 MB for these few functions: the tests
compare with it, the program does without. Quantiles are cached, because a report needs the same ones thousands of
times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

from labconsole.measure.statistics.special_functions import (
    NODES,
    beta_front,
    gamma_front,
    incomplete_beta,
    incomplete_gamma,
)
from labconsole.measure.statistics.student_t import student_t_quantile, student_t_tail

__all__ = [
    "binomial_bounds",
    "chi_square_quantile",
    "noncentral_t_cdf",
    "normal_quantile",
    "student_t_cdf",
    "student_t_quantile",
]

_NORMAL = NormalDist()
_SETTLED = 9.5  # standard deviations past which the normal distribution is 0 or 1 to double precision
_MAX_STEPS = 300
MANY_TERMS = 3000
"""For both outcomes: beyond it a binomial tail is integrated instead of summed."""


@lru_cache(maxsize=1024)
def normal_quantile(probability: float) -> float:
    """The z with a share ``probability`` of the standard normal distribution below it."""
    return _NORMAL.inv_cdf(probability)


def student_t_cdf(x: float, degrees: float) -> float:
    """Share of Student's t distribution below ``x``; small shares keep their digits."""
    if math.isnan(x) or not degrees >= 1.0:
        raise ValueError(f"no share of t below {x!r} at {degrees!r} degrees of freedom")
    if math.isinf(degrees):
        return 0.5 * math.erfc(-x / math.sqrt(2))
    return student_t_tail(-x, degrees) if x <= 0 else 1.0 - student_t_tail(x, degrees)


@lru_cache(maxsize=4096)
def noncentral_t_cdf(x: float, degrees: float, delta: float) -> float:
    """Share below ``x`` of the noncentral t: (Z + delta) / sqrt(chi-square / degrees). Absolute error below 1e-11.

    Given the root s of chi-square over its degrees, the share is Phi(x s - delta). Where that is 1, the chi-square
    distribution remains; where it is 0, nothing does; in between it is integrated (Gauss and Legendre).
    """
    if math.isnan(x) or math.isnan(delta) or not 1.0 <= degrees < math.inf:
        raise ValueError(f"no share of noncentral t below {x!r} at {degrees!r} degrees of freedom, {delta!r}")
    if x < 0:
        return 1.0 - noncentral_t_cdf(-x, degrees, -delta)
    if x == 0:
        return _below(-delta)
    reach = 40.0 / math.sqrt(2 * degrees) if degrees > 50 else 12.0 / math.sqrt(degrees) + 5.0
    low = max((delta - _SETTLED) / x, 1.0 - reach, 0.0)
    high = max((delta + _SETTLED) / x, 0.0)
    share = incomplete_gamma(degrees / 2, degrees * high * high / 2)[1]  # the share of s above high
    high = min(high, 1.0 + reach)
    if high <= low:
        return share
    panels = math.ceil(max((high - low) * x / 3.0, (high - low) * math.sqrt(2 * degrees) / 2.0, 4.0))
    width = (high - low) / panels
    peak = 2.0 * gamma_front(degrees / 2, degrees / 2)
    parts = [share]
    for panel in range(panels):
        start = low + panel * width
        for node, weight in NODES:
            place = (1 + node) / 2
            if start == 0.0:  # a power of s that may be fractional: graded towards zero
                s, stretch = width * place**4, 4 * width * place**3
            else:
                s, stretch = start + width * place, width
            density = peak / s * math.exp(degrees * (math.log(s) - (s - 1.0) * (s + 1.0) / 2))
            parts.append(weight / 2 * stretch * density * _below(x * s - delta))
    return min(1.0, max(0.0, math.fsum(parts)))


@lru_cache(maxsize=4096)
def chi_square_quantile(probability: float, degrees: float) -> float:
    """The value with a share ``probability`` of the chi-square distribution below it; ``degrees`` above 0."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"a probability lies between 0 and 1, got {probability!r}")
    if not 0.0 < degrees < math.inf:
        raise ValueError(f"degrees of freedom must be above 0, got {degrees!r}")
    a = degrees / 2
    lower = probability < 0.5

    def tail(x: float) -> tuple[float, float]:
        below, above = incomplete_gamma(a, x)
        return (below, gamma_front(a, x)) if lower else (above, -gamma_front(a, x))

    guess = a * max(1 - 1 / (9 * a) + normal_quantile(probability) / math.sqrt(9 * a), 0.01) ** 3  # Wilson, Hilferty
    return 2.0 * _solve(tail, probability if lower else 1.0 - probability, guess, math.inf, rising=lower)


@lru_cache(maxsize=4096)
def binomial_bounds(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's bounds of a share with ``k`` of ``n`` observed (Biometrika 26, 1934).

    They cover at least as often as stated. Also two-sided for none and for all.
    """
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"{k!r} of {n!r} is not a valid share")
    tail = (1 - level) / 2
    return _lower(k, n, tail), _upper(k, n, tail)


def _lower(k: int, n: int, tail: float) -> float:
    """The share at which ``k`` or more of ``n`` have the probability ``tail``."""
    if k == 0:
        return 0.0
    if k == n:
        return math.exp(math.log(tail) / n)

    def chance(p: float) -> tuple[float, float]:
        return _binomial_tail(k, n, p, +1), beta_front(p, float(k), float(n - k + 1)) / (1.0 - p)

    return _solve(chance, tail, k / (n + 1), 1.0, rising=True)


def _upper(k: int, n: int, tail: float) -> float:
    """The share at which ``k`` or fewer of ``n`` have the probability ``tail``."""
    if k == n:
        return 1.0
    if k == 0:
        return -math.expm1(math.log(tail) / n)

    def chance(p: float) -> tuple[float, float]:
        return _binomial_tail(k, n, p, -1), -beta_front(p, float(k + 1), float(n - k)) / (1.0 - p)

    return _solve(chance, tail, (k + 1) / (n + 1), 1.0, rising=False)


def _binomial_tail(k: int, n: int, p: float, side: int) -> float:
    """Probability of ``k`` or more (side +1), or of ``k`` or fewer (-1), of n.

    Summed from k outwards if possible. This avoids cancellation; a beta function of 1 - p would leave few digits of a p
    of 10^-8.
    """
    far = side * (k - n * p) > 0  # beyond the middle: the terms decrease from the first one on
    if min(k, n - k) > MANY_TERMS:
        return incomplete_beta(p, float(k), float(n - k + 1)) if side > 0 else incomplete_beta(1.0 - p, n - k, k + 1)
    if not far:
        return 1.0 - _binomial_tail(k - side, n, p, -side)
    term = beta_front(p, float(k + 1), float(n - k + 1)) / ((n + 1) * p * (1.0 - p))
    odds = p / (1.0 - p)
    total = 0.0
    while term > total * 1e-17:
        total += term
        term *= (n - k) / (k + 1) * odds if side > 0 else k / ((n - k + 1) * odds)
        k += side
    return total


def _solve(
    share: Callable[[float], tuple[float, float]], target: float, guess: float, end: float, *, rising: bool
) -> float:
    """The x in 0 … end where ``share(x)`` is ``target``; it returns the share and its derivative by ln x.

    Newton's method on ln(share) over ln(x), inside a bracket that shrinks with every step.
    """
    low, high = 0.0, end
    x = guess
    for _ in range(_MAX_STEPS):
        found, slope = share(x)
        if (found < target) == rising:
            low = x
        else:
            high = x
        following = 0.0
        if found > 0 and slope != 0:
            step = found * math.log(target / found) / slope
            if abs(step) <= 4e-16:
                return x
            following = x * math.exp(max(-50.0, min(step, 50.0)))
        if not low < following < high:
            following = 2 * x if math.isinf(high) else (low + high) / 2
        if abs(following - x) <= 4e-16 * x:
            return following
        x = following
    return x


def _below(z: float) -> float:
    """Share of the standard normal distribution below ``z``."""
    return 0.5 * math.erfc(-z / math.sqrt(2))
