"""Interval of a loss ratio from counts: packets that set-ups lost of packets that they were offered. Pure.

Packets of one set-up share its fate, so that billions of them are no billions of witnesses: the counts are taken as so
many times fewer as the set-ups' own losses scatter more than independent packets would (design effect: L. Kish, Survey
Sampling, 1965), with Wilson's bounds (J. Am. Stat. Assoc. 22, 1927), which stay within 0 and 1, and Student's t for a
scatter known from few set-ups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from labconsole.errors import MeasurementError
from labconsole.measure.distributions import binomial_bounds, student_t_quantile

LEVEL = 0.95
MINIMUM_FOR_INTERVAL = 3
FEW_LOST = 30
"""Below this sum scatter seen is no evidence of less scatter than chance has."""

Method = Literal["over set-ups", "this set-up only", "of this run", "nothing offered"]


@dataclass(frozen=True, slots=True)
class LossEstimate:
    """A loss ratio, 0 to 1, with its interval.

    ``method``: what the interval is about: "over set-ups", "this set-up only" (over its trials), "of this run"
    (binomial: the packets that were counted, nothing beyond them). ``design_effect``: how many times less the packets
    weigh than independent ones. With none lost: ``upper_if_none_lost``, a ratio that would have lost something in 95 of 100 such
    measurements, and ``upper_share_of_lossy_trials``, likewise of the share of trials that lose anything at all.
    """

    ratio: float | None
    low: float | None
    high: float | None
    lost_packets: int
    offered_packets: int
    set_ups: int
    design_effect: float | None
    method: Method
    upper_if_none_lost: float | None = None
    upper_share_of_lossy_trials: float | None = None


def loss_over_set_ups(
    lost: Sequence[int], offered: Sequence[int], trials_lost: Sequence[bool] | None = None
) -> LossEstimate:
    """Loss over set-ups: packets lost and offered by each; ``trials_lost``: whether each trial lost anything."""
    return _estimate(lost, offered, trials_lost, len(lost), "over set-ups")


def loss_within_set_up(
    lost: Sequence[int], offered: Sequence[int], trials_lost: Sequence[bool] | None = None
) -> LossEstimate:
    """Loss of one set-up, over its trials: packets lost and offered by each trial."""
    if trials_lost is None:
        trials_lost = [count > 0 for count in lost]
    return _estimate(lost, offered, trials_lost, 1, "this set-up only")


def _estimate(
    lost: Sequence[int], offered: Sequence[int], trials_lost: Sequence[bool] | None, set_ups: int, method: Method
) -> LossEstimate:
    if len(lost) != len(offered):
        raise ValueError(f"{len(lost)} counts lost for {len(offered)} offered")
    for some, all_of_them in zip(lost, offered, strict=True):
        if not 0 <= some <= all_of_them:
            raise MeasurementError(f"{some} of {all_of_them} packets cannot have been lost")
    x, n = sum(lost), sum(offered)
    if n == 0:
        return LossEstimate(None, None, None, x, n, set_ups, None, "nothing offered")
    ratio = x / n
    none_lost = -math.expm1(math.log(0.05) / n) if x == 0 else None
    lossy = None
    if x == 0 and trials_lost is not None and len(trials_lost):
        lossy = 1.0 - 0.05 ** (1.0 / len(trials_lost))
    units = sum(1 for count in offered if count > 0)
    if units < MINIMUM_FOR_INTERVAL:
        low, high = binomial_bounds(x, n, LEVEL)
        return LossEstimate(ratio, low, high, x, n, set_ups, None, "of this run", none_lost, lossy)
    effect = _design_effect(lost, offered)
    low, high = _wilson(x, n, effect, student_t_quantile((1 + LEVEL) / 2, float(units - 1)))
    return LossEstimate(ratio, low, high, x, n, set_ups, effect, method, none_lost, lossy)


def _design_effect(lost: Sequence[int], offered: Sequence[int]) -> float:
    x, n = sum(lost), sum(offered)
    if x in (0, n):
        return 1.0
    p = x / n
    units = sum(1 for count in offered if count > 0)
    squares = math.fsum((some - p * of) ** 2 for some, of in zip(lost, offered, strict=True))
    effect = units / (units - 1) * squares / (n * p * (1 - p))
    return max(effect, 1.0) if min(x, n - x) < FEW_LOST else effect


def _wilson(x: int, n: int, effect: float, t: float) -> tuple[float, float]:
    """Wilson's bounds of x in n, each packet weighing 1 / effect; never closer to the ratio than one packet."""
    p, few = x / n, min(x, n - x) / n  # reckoned from the rarer side, so that bounds near 1 keep their digits
    square = t * t * effect / n
    middle = (few + square / 2) / (1 + square)
    reach = math.sqrt(square * (few * (1 - few) + square / 4)) / (1 + square)
    high = min(max(middle + reach, few + 1 / n), 1.0)
    low = few * few / (1 + square) / (middle + reach) if few else 0.0
    low = max(min(low, few - 1 / n), 0.0)
    return (low, high) if 2 * x <= n else (1 - high, 1 - low) if p < 1 else (1 - high, 1.0)
