"""A second statement of intervals, p-values and adjusted p-values, by another path, to verify a report. Pure.

It shares nothing with the modules that make a report: a check that calls the code it checks finds nothing. Student's t
is integrated here in its angle (t = sqrt(degrees) · cot φ; doubly exponential quadrature: H. Takahasi, M. Mori 1974)
and its quantile found by bisection. Sums are exact, in rational numbers. Wilson's bounds are the roots of the score
equation, found by bisection. The binomial bounds are read off a beta distribution summed up by Simpson's rule. The
meaning of each number is in ``set_ups``, ``effects`` and ``loss_interval``. All numbers are returned as plain floats,
or None if there is no result.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
"""The key of a set-up or block."""

FEWEST = 3
ROUNDING = 1e-12
HALVINGS = 200
CELLS = 4000
REACH = 40  # standard deviations


@dataclass(frozen=True, slots=True)
class RecomputedEffect:
    """Relative change and its support. ``equivalence_p``: for the given margin, if any."""

    change: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    ci90_low: float | None = None
    ci90_high: float | None = None
    equivalence_p: float | None = None


def recompute_mean(values: Mapping[Key, Sequence[float]]) -> tuple[float, float | None, float | None]:
    """Mean over set-ups (with one set-up: over its trials) and its 95 % interval. ``values``: of trials, by set-up."""
    groups = [[Fraction(value) for value in trials] for trials in values.values() if trials]
    units = groups[0] if len(groups) == 1 else [sum(group, Fraction()) / len(group) for group in groups]
    mean = sum(units, Fraction()) / len(units)
    if len(units) < FEWEST:
        return float(mean), None, None
    reach = recompute_t_quantile(0.975, len(units) - 1) * math.sqrt(_variance(units) / len(units))
    return float(mean), float(mean) - reach, float(mean) + reach


def recompute_paired_effect(
    subject: Mapping[Key, float],
    baseline: Mapping[Key, float],
    *,
    packets: float | None = None,
    null: float = 1.0,
    alternative: str = "two-sided",
    margin_ratio: float | None = None,
) -> RecomputedEffect:
    """The effect over the blocks that both have, by ratios within each."""
    both = sorted(set(subject) & set(baseline), key=repr)
    if any(subject[block] <= 0 or baseline[block] <= 0 for block in both):
        return RecomputedEffect(None)
    logs = [Fraction(math.log(subject[block])) - Fraction(math.log(baseline[block])) for block in both]
    return _summarize_logs(logs, packets, null, alternative, margin_ratio)


def recompute_share_effect(
    shares: Mapping[Key, float], streams: int, *, packets: float | None = None, margin_ratio: float | None = None
) -> RecomputedEffect:
    """The deviation of a stream from its fair share."""
    if any(share <= 0 for share in shares.values()):
        return RecomputedEffect(None)
    logs = [Fraction(math.log(share)) + Fraction(math.log(streams)) for share in shares.values()]
    return _summarize_logs(logs, packets, 1.0, "two-sided", margin_ratio)


def recompute_unpaired_effect(
    subject: Sequence[float],
    baseline: Sequence[float],
    *,
    packets: float | None = None,
    null: float = 1.0,
    alternative: str = "two-sided",
    margin_ratio: float | None = None,
) -> RecomputedEffect:
    """The effect without shared blocks (Welch, on the logarithm)."""
    if not subject or not baseline or min(*subject, *baseline) <= 0:
        return RecomputedEffect(None)
    sides = [[Fraction(math.log(value)) for value in side] for side in (subject, baseline)]
    means = [sum(side, Fraction()) / len(side) for side in sides]
    mean = float(means[0] - means[1])
    if min(len(side) for side in sides) < FEWEST:
        return RecomputedEffect(_change(mean))
    floor = 0.0 if packets is None else packets**-2
    errors = [max(_variance(side), floor) / len(side) for side in sides]
    if sum(errors) <= ROUNDING**2:
        return RecomputedEffect(_change(mean))
    below = sum(e**2 / (len(side) - 1) for e, side in zip(errors, sides, strict=True))
    return _tested(mean, math.sqrt(sum(errors)), sum(errors) ** 2 / below, null, alternative, margin_ratio)


def recompute_holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: each the largest of (number not smaller) × p over those up to it."""
    ranked = sorted(p_values)
    largest: dict[float, float] = {}
    reached = 0.0
    for p in dict.fromkeys(ranked):
        reached = max(reached, (len(ranked) - bisect_left(ranked, p)) * p)
        largest[p] = min(1.0, reached)
    return [largest[p] for p in p_values]


def recompute_loss(
    lost: Sequence[int], offered: Sequence[int], *, of_trials: bool = False
) -> tuple[float | None, float | None, float | None]:
    """Loss ratio and bounds from packets lost and offered by each set-up, or ``of_trials`` of a single one.

    Two set-ups have no bounds: those of packets would not reflect the spread of set-ups.
    """
    x, n = sum(lost), sum(offered)
    if n == 0:
        return None, None, None
    units = [(some, of) for some, of in zip(lost, offered, strict=True) if of]
    if 2 * x > n:  # the same for arrived packets
        _, low, high = recompute_loss([of - some for some, of in units], [of for _, of in units], of_trials=of_trials)
        return x / n, None if high is None else 1 - high, None if low is None else 1 - low
    if len(units) == 2 and not of_trials:
        return x / n, None, None
    if len(units) < FEWEST or x == 0:
        return x / n, *_recompute_binomial(x, n)
    p, count = Fraction(x, n), len(units)
    variance = Fraction(count, count - 1) * sum(((some - p * of) / n) ** 2 for some, of in units)
    independent = p * (1 - p) / n
    if x < 5 * count:
        variance = max(variance, independent)
    weight = recompute_t_quantile(0.975, count - 1) ** 2 * float(variance / (p * (1 - p)))
    ratio = float(p)

    def off(at: float) -> float:
        return (ratio - at) ** 2 - weight * at * (1 - at)

    low, high = _root(lambda at: -off(at), 0.0, ratio), _root(off, ratio, 1.0)
    if x < 5 * count:
        alone = _recompute_binomial(x, n)
        low, high = min(low, alone[0]), max(high, alone[1])
    return ratio, max(0.0, min(low, (x - 1) / n)), min(1.0, max(high, (x + 1) / n))


@lru_cache(maxsize=1024)
def recompute_t_quantile(probability: float, degrees: float) -> float:
    """Student's quantile above the middle, by bisection on its angle."""
    tail = 1.0 - probability
    angle = _root(lambda phi: _t_tail_of_angle(phi, degrees) - tail, 0.0, math.pi / 2)
    return math.sqrt(degrees) / math.tan(angle)


def recompute_t_cdf(t: float, degrees: float) -> float:
    """Share of Student's distribution below ``t``."""
    tail = _t_tail_of_angle(math.atan2(math.sqrt(degrees), abs(t)), degrees)
    return tail if t < 0 else 1.0 - tail


def _summarize_logs(
    logs: Sequence[Fraction], packets: float | None, null: float, alternative: str, margin_ratio: float | None
) -> RecomputedEffect:
    if not logs:
        return RecomputedEffect(None)
    mean = float(sum(logs, Fraction()) / len(logs))
    if len(logs) < FEWEST:
        return RecomputedEffect(_change(mean))
    sd = max(math.sqrt(_variance(logs)), 0.0 if packets is None else math.sqrt(2) / packets)
    if sd <= ROUNDING:
        return RecomputedEffect(_change(mean))
    return _tested(mean, sd / math.sqrt(len(logs)), len(logs) - 1, null, alternative, margin_ratio)


def _tested(
    mean: float, error: float, degrees: float, null: float, alternative: str, margin_ratio: float | None
) -> RecomputedEffect:
    below = recompute_t_cdf((mean - math.log(null)) / error, degrees)
    above = recompute_t_cdf((math.log(null) - mean) / error, degrees)
    p = {"less": below, "greater": above, "two-sided": min(1.0, 2 * min(below, above))}[alternative]
    equivalence = None
    if margin_ratio is not None:
        margin = math.log(1 + margin_ratio)
        equivalence = max(recompute_t_cdf((side * mean - margin) / error, degrees) for side in (1, -1))
    wide, narrow = (recompute_t_quantile(share, degrees) * error for share in (0.975, 0.95))
    return RecomputedEffect(
        _change(mean),
        _change(mean - wide),
        _change(mean + wide),
        p,
        _change(mean - narrow),
        _change(mean + narrow),
        equivalence,
    )


def _variance(values: Sequence[Fraction]) -> float:
    mean = sum(values, Fraction()) / len(values)
    return float(sum(((value - mean) ** 2 for value in values), Fraction()) / (len(values) - 1))


def _change(log_change: float) -> float:
    return math.expm1(log_change) if log_change < 700 else math.inf


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises from low to high crosses zero."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def _t_tail_of_angle(angle: float, degrees: float) -> float:
    """Share above sqrt(degrees) · cot(angle): the integral of sin^(degrees - 1) up to it over the whole integral."""
    return 0.5 * _power_of_sine(angle, degrees) / _half_of_all(degrees)


@lru_cache(maxsize=1024)
def _half_of_all(degrees: float) -> float:
    return _power_of_sine(math.pi / 2, degrees)


def _power_of_sine(end: float, degrees: float) -> float:
    """Integral of sin(φ)^(degrees - 1) from 0 to ``end``; for many degrees the integrand rises steeply at the end."""
    step = 1 / 32
    parts = []
    for index in range(-130, 131):
        u = step * index
        inner = math.pi / 2 * math.sinh(u)
        share = 1 / (1 + math.exp(-2 * inner)) if inner > -300 else 0.0  # position relative to the end
        weight = math.pi / 2 * math.cosh(u) / math.cosh(inner) ** 2 / 2 if abs(inner) < 300 else 0.0
        if share > 0 and weight > 0:
            parts.append(weight * math.sin(end * share) ** (degrees - 1))
    return end * step * math.fsum(parts)


def _recompute_binomial(x: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % bounds."""
    low = 0.0 if x == 0 else _recompute_beta_quantile(0.025, x, n - x + 1)
    return low, 1.0 if x == n else _recompute_beta_quantile(0.975, x + 1, n - x)


def _recompute_beta_quantile(probability: float, a: int, b: int) -> float:
    """Quantile of the beta distribution with integer parameters, from its density summed up by Simpson's rule."""
    mode = (a - 1) / (a + b - 2) if a + b > 2 else 0.5
    sd = math.sqrt(a * b / (a + b + 1)) / (a + b)
    start, end = max(0.0, mode - REACH * sd), min(1.0, mode + REACH * sd)
    width = (end - start) / CELLS

    def density(x: float) -> float:
        logarithm = 0.0
        for power, off, place in ((a - 1, x - mode, mode), (b - 1, mode - x, 1 - mode)):
            if power and off <= -place:
                return 0.0
            logarithm += power * math.log1p(off / place) if power else 0.0
        return math.exp(logarithm)

    def area(low: float, high: float) -> float:
        return (high - low) / 6 * (density(low) + 4 * density((low + high) / 2) + density(high))

    sums = [0.0]
    for cell in range(CELLS):
        sums.append(sums[-1] + area(start + cell * width, start + (cell + 1) * width))
    wanted = probability * sums[-1]
    cell = max(bisect_left(sums, wanted) - 1, 0)
    left = start + cell * width
    return _root(lambda at: sums[cell] + area(left, at) - wanted, left, left + width)
