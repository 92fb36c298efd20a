"""The distributions for intervals, tests and power: Student's t (central and not), chi-square, binomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

# -- special functions -------------------------------------------------------------------------------------------------
# Incomplete beta and gamma functions, which the distributions need.
#
# Formulas: DLMF 8.11, 8.17; C. Loader, Fast and accurate computation of binomial probabilities (2000), for the leading
# factor with counts up to billions.

_TINY = 1e-300
_CONVERGED = 1e-16
_MAX_TERMS = 100_000
_LARGE = 3000.0
"""If both parameters exceed it, the density is integrated: the continued fraction would need thousands of terms."""
_FAR = 40.0  # standard deviations of a beta distribution past which nothing remains


def gauss_legendre(points: int) -> tuple[tuple[float, float], ...]:
    """Nodes in -1 … 1 and weights of Gauss and Legendre's quadrature, by Newton's method."""
    found = []
    for index in range(1, points + 1):
        x = math.cos(math.pi * (index - 0.25) / (points + 0.5))
        slope = 1.0
        for _ in range(100):
            before, value = 1.0, x
            for degree in range(2, points + 1):
                before, value = value, ((2 * degree - 1) * x * value - (degree - 1) * before) / degree
            slope = points * (x * value - before) / (x * x - 1)
            step = value / slope
            x -= step
            if abs(step) < 1e-15:
                break
        found.append((x, 2 / ((1 - x * x) * slope * slope)))
    return tuple(found)


NODES = gauss_legendre(16)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if min(a, b) > _LARGE:
        return _beta_integral(x, a, b)
    front = beta_front(x, a, b)
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1.0 - x, b, a) / b


def beta_front(x: float, a: float, b: float) -> float:
    """x^a (1-x)^b / B(a, b), by deviances, which keep its digits if logarithms of its factors are in the billions."""
    n = a + b
    exponent = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    exponent -= _deviance(a, n * x) + _deviance(b, n * (1.0 - x))
    return math.sqrt(a / n * b / (2 * math.pi)) * math.exp(exponent)


def incomplete_gamma(a: float, x: float) -> tuple[float, float]:
    """Regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P, each without cancellation."""
    if x <= 0.0:
        return 0.0, 1.0
    if math.isinf(x):
        return 1.0, 0.0
    front = gamma_front(a, x)
    if x < a + 1:
        term = total = 1.0 / a
        for k in range(1, _MAX_TERMS):
            term *= x / (a + k)
            total += term
            if term <= total * _CONVERGED:
                break
        return front * total, 1.0 - front * total
    b = x + 1.0 - a
    numerator, denominator = 1.0 / _TINY, 1.0 / b
    value = denominator
    for k in range(1, _MAX_TERMS):
        term = -k * (k - a)
        b += 2.0
        denominator = 1.0 / _not_zero(b + term * denominator)
        numerator = _not_zero(b + term / numerator)
        factor = numerator * denominator
        value *= factor
        if abs(factor - 1.0) <= _CONVERGED:
            break
    return 1.0 - front * value, front * value


def gamma_front(a: float, x: float) -> float:
    """x^a e^-x / Gamma(a)."""
    return math.sqrt(a / (2 * math.pi)) * math.exp(-_deviance(a, x) - _stirling_error(a))


def _stirling_error(z: float) -> float:
    """ln Gamma(z) minus Stirling's formula."""
    if z < 16.0:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2 * math.pi)
    square = z * z
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - (1 / 1188) / square) / square) / square) / square) / z


def _deviance(k: float, mean: float) -> float:
    """k ln(k / mean) + mean - k, without cancellation near k = mean."""
    if abs(k - mean) < 0.1 * (k + mean):
        v = (k - mean) / (k + mean)
        total = (k - mean) * v
        term = 2 * k * v
        for j in range(1, 1000):
            term *= v * v
            following = total + term / (2 * j + 1)
            if following == total:
                break
            total = following
        return total
    if mean == 0.0:
        return math.inf
    return k * math.log(k / mean) + mean - k


def _beta_integral(x: float, a: float, b: float) -> float:
    """The smaller tail of the beta distribution by quadrature of its density."""
    mean = a / (a + b)
    sd = math.sqrt(mean * (1 - mean) / (a + b + 1))
    left = x < mean
    start = min(_FAR, abs(x - mean) / sd)
    end = start + 12.0  # standard deviations; less than 1e-16 of this tail is beyond
    sign = -1.0 if left else 1.0
    total = []
    panels = 12
    for panel in range(panels):
        low = start + (end - start) * panel / panels
        half = (end - start) / panels / 2
        for node, weight in NODES:
            y = mean + sign * sd * (low + half * (1 + node))
            if 0.0 < y < 1.0:
                total.append(weight * half * sd * beta_front(y, a, b) / (y * (1 - y)))
    tail = math.fsum(total)
    return tail if left else 1.0 - tail


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b) (DLMF 8.17.22), by the modified method of Lentz."""
    numerator, denominator = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, _MAX_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            denominator = 1.0 / _not_zero(1.0 + term * denominator)
            numerator = _not_zero(1.0 + term / numerator)
            factor = denominator * numerator
            value *= factor
        if abs(factor - 1.0) <= _CONVERGED:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


# -- Student's t -------------------------------------------------------------------------------------------------------
# Quantiles of Student's t distribution, for any real number of degrees of freedom.
#
# The standard library ends at the normal distribution, and Welch's degrees are not integers, so that a table is not
# enough. scipy would be 100 MB for this one function: the tests compare with it, the program does without.

MANY_DEGREES = 5000.0  # from here on the expansion around the normal quantile is exact to double precision
_MAX_QUANTILE_STEPS = 200


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
    return _solve_quantile(tail, degrees)


def _solve_quantile(tail: float, degrees: float) -> float:
    """Newton's method on ln(tail) over ln(t), inside a bracket that shrinks with every step."""
    low, high = 0.0, math.inf
    t = max(-NormalDist().inv_cdf(tail), 1e-9)
    for _ in range(_MAX_QUANTILE_STEPS):
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


# -- distributions -----------------------------------------------------------------------------------------------------
# The standard library ends at the normal distribution, and scipy would be 100 MB for these few functions: the tests
# compare with it, the program does without. Quantiles are cached, because a report needs the same ones thousands of
# times.

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
