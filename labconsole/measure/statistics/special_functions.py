"""Incomplete beta and gamma functions, which the distributions need.

Formulas: DLMF 8.11, 8.17; C. Loader, Fast and accurate computation of binomial probabilities (2000), for the leading
factor with counts up to billions.
"""

from __future__ import annotations

import math

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
