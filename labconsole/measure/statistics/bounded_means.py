"""Intervals over set-ups where Student's is unsuitable: of loss ratios, and of bounded quantities. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.distributions import (
    binomial_bounds,
    incomplete_gamma,
    student_t_cdf,
    student_t_quantile,
)
from labconsole.measure.statistics.set_ups import LEVEL, Key, SetUpMean, mean_over_set_ups, set_up_means

# -- loss ratios -------------------------------------------------------------------------------------------------------
# Interval of a loss ratio from counts: packets that set-ups lost of packets that they were offered.
#
# Packets of one set-up share its fate, so billions of them are not billions of independent observations. With x lost of
# n packets over S set-ups, p = x / n, a packet weighs as 1 / D of an independent one (design effect; L. Kish, Survey
# Sampling, 1965):
#
#     D = S / (S - 1) · Σ (x_i - p n_i)² / (n p (1 - p))
#
# which is Pearson's dispersion over its degrees of freedom if set-ups are offered alike. The bounds are Wilson's (J.
# Am. Stat. Assoc. 22, 1927) with n / D packets and t(0.975, S - 1) for the normal quantile: they stay within 0 and 1,
# and are wider if the spread is estimated from few set-ups.
#
# - While fewer than five packets per set-up are lost (or, mirrored, arrive), D is at least 1: Pearson's statistic has
# no   chi-square distribution there (W. G. Cochran, Biometrics 10, 1954), and counts of 1, 1 and 1 are no evidence that
# the truth is known without error. A limit of 30 in all instead covers 97.5 to 100 % with three set-ups and ten lost
# in each. - There, too, no bound is closer than that of Clopper and Pearson for independent packets: Wilson's lower
# bound for   two or three packets covers 91 % (L. D. Brown, T. T. Cai, A. DasGupta, Statist. Sci. 16, 2001). - Without
# loss the spread is unknown, and Clopper and Pearson's 1 - 0.025^(1/n) is the upper bound. The well-known   1 -
# 0.05^(1/n), for the sentence "at most …", is given in addition: as one side of a 95 % interval it covers 92 % if
# about three are expected to be lost in all. - No bound is closer to p than one packet, 1 / n.
#
# Simulated (docs/statistics.md): 94 to 96 % of the intervals contain the truth if ten or more are expected lost in each
# set-up, 93 % or more below, for p from 10^-6 to 0.5 and 3 to 27 set-ups, whether packets are lost independently or
# set-ups differ (beta-binomial, coefficient of variation 0.3). Events that few set-ups did not show, such as one run in
# ten that loses 3 %, are in no interval.

ALPHA = 0.05
"""An interval's probability of missing the truth."""
MINIMUM_FOR_INTERVAL = 3
FEW_LOST_EACH = 5
"""Packets per set-up below which a spread smaller than by chance is no evidence."""

OWN_PACKETS, OWN_RATIO = 20, 1e-4
"""A unit under test may send frames of its own (spanning tree, LLDP, ARP): their number, and share of offered."""

Method = Literal["over set-ups", "this set-up only", "of this run", "set-ups unknown", "nothing offered"]


def is_loss_known(lost_packets: int, offered_packets: int) -> bool:
    """Whether a difference of counters is a trial's loss.

    It is not if it exceeds the offered packets, or if more own frames than a unit under test usually sends hide the
    loss.
    """
    return -max(OWN_PACKETS, OWN_RATIO * offered_packets) <= lost_packets <= offered_packets


@dataclass(frozen=True, slots=True)
class LossEstimate:
    """A loss ratio, 0 to 1, with its 95 % interval; None if nothing was offered.

    ``method``: the scope of the interval: "over set-ups", "this set-up only" (over its trials), "of this run"
    (binomial: the counted packets, nothing beyond them). There is no interval for two set-ups, as there is none for
    their mean, and for "set-ups unknown", where ``set_ups`` is None. ``design_effect``: the factor by which packets
    weigh less than independent ones, or None if unknown. Without loss: ``upper_if_none_lost``, the ratio that would
    have lost something in 95 of 100 such measurements, and ``upper_share_of_lossy_trials``, likewise the share of
    trials with any loss.
    """

    ratio: float | None
    low: float | None
    high: float | None
    lost_packets: int
    offered_packets: int
    set_ups: int | None
    design_effect: float | None
    method: Method
    upper_if_none_lost: float | None = None
    upper_share_of_lossy_trials: float | None = None


def loss_of_trials(trials: Mapping[Key, Sequence[tuple[int, int]]], alpha: float = ALPHA) -> LossEstimate:
    """Loss from every trial's (lost, offered) packets, by set-up, with the method that their number allows.

    ``alpha``: the interval's probability of missing the truth.
    """
    known = [group for group in trials.values() if len(group)]
    each = [pair for group in known for pair in group]
    lossy = [lost > 0 for lost, _ in each]
    if len(known) == 1:
        return _estimate([lost for lost, _ in each], [offered for _, offered in each], lossy, within=True, alpha=alpha)
    lost = [sum(pair[0] for pair in group) for group in known]
    offered = [sum(pair[1] for pair in group) for group in known]
    return _estimate(lost, offered, lossy, within=False, alpha=alpha)


def loss_of_counts(*trials: Sequence[tuple[int, int]]) -> LossEstimate:
    """Loss from (lost, offered) packets of trials of an unknown number of set-ups: without bounds."""
    found = loss_of_trials({"unknown": [pair for group in trials for pair in group]})
    if found.ratio is None:
        return found
    return replace(found, low=None, high=None, set_ups=None, design_effect=None, method="set-ups unknown")


def loss_over_set_ups(
    lost: Sequence[int], offered: Sequence[int], trials_lost: Sequence[bool] | None = None
) -> LossEstimate:
    """Loss over set-ups: packets lost and offered by each. ``trials_lost``: whether each trial lost anything.

    Two have no bounds: their spread is unknown, and their packets alone would claim too much. One has the bounds of its
    packets; ``loss_within_set_up`` is for its trials.
    """
    return _estimate(lost, offered, trials_lost, within=False)


def loss_within_set_up(
    lost: Sequence[int], offered: Sequence[int], trials_lost: Sequence[bool] | None = None
) -> LossEstimate:
    """Loss of one set-up over its trials, from three of them; packets lost and offered by each trial."""
    if trials_lost is None:
        trials_lost = [count > 0 for count in lost]
    return _estimate(lost, offered, trials_lost, within=True)


def _estimate(
    lost: Sequence[int],
    offered: Sequence[int],
    trials_lost: Sequence[bool] | None,
    *,
    within: bool,
    alpha: float = ALPHA,
) -> LossEstimate:
    if len(lost) != len(offered):
        raise ValueError(f"{len(lost)} counts lost for {len(offered)} offered")
    for some, of in zip(lost, offered, strict=True):
        if not 0 <= some <= of:
            raise MeasurementError(f"{some} of {of} packets cannot have been lost")
    x, n = sum(lost), sum(offered)
    units = sum(1 for of in offered if of > 0)
    set_ups = min(units, 1) if within else units
    if n == 0:
        return LossEstimate(None, None, None, x, n, set_ups, None, "nothing offered")
    none_lost = lossy = None
    if x == 0:
        none_lost = share_if_none(n, alpha)
        lossy = share_if_none(len(trials_lost), alpha) if trials_lost else None
    method: Method = "this set-up only" if within else "over set-ups"
    effect: float | None = None
    if set_ups == 2:  # their spread is unknown, and their packets do not show it
        return LossEstimate(x / n, None, None, x, n, set_ups, None, method, none_lost, lossy)
    if units < MINIMUM_FOR_INTERVAL:
        method = "of this run"
        low, high = binomial_bounds(x, n, 1 - alpha)
    elif x in (0, n):
        low, high = binomial_bounds(x, n, 1 - alpha)
    else:
        effect = _design_effect(lost, offered, units)
        low, high = _wilson(x, n, effect, student_t_quantile(1 - alpha / 2, float(units - 1)))
        if _few(x, n, units):
            alone = binomial_bounds(x, n, 1 - alpha)
            low, high = min(low, alone[0]), max(high, alone[1])
    return LossEstimate(x / n, low, high, x, n, set_ups, effect, method, none_lost, lossy)


def _design_effect(lost: Sequence[int], offered: Sequence[int], units: int) -> float:
    x, n = sum(lost), sum(offered)
    # In integers: n² (x_i - p n_i)² = (n x_i - x n_i)²
    squares = sum((n * some - x * of) ** 2 for some, of in zip(lost, offered, strict=True))
    effect = units * squares / ((units - 1) * n * x * (n - x))
    return max(effect, 1.0) if _few(x, n, units) else effect


def _few(x: int, n: int, units: int) -> bool:
    return min(x, n - x) < FEW_LOST_EACH * units


def _wilson(x: int, n: int, effect: float, t: float) -> tuple[float, float]:
    """Wilson's bounds of x in n, each packet weighing 1 / effect, computed from the rarer side to keep its digits."""
    few = min(x, n - x)
    p, square = few / n, t * t * effect / n
    root = p + square / 2 + math.sqrt(square * (p * (1 - p) + square / 4))
    low, high = max(min(p * p / root, (few - 1) / n), 0.0), min(max(root / (1 + square), (few + 1) / n), 1.0)
    return (low, high) if few == x else (1.0 - high, 1.0 - low)


def share_if_none(count: int, chance: float = ALPHA) -> float:
    """The share at which none of ``count`` is observed with this probability."""
    return -math.expm1(math.log(chance) / count)


# -- bounded quantities ------------------------------------------------------------------------------------------------
# Means over set-ups for which Student's interval is unsuitable.
#
# - *Shares of rare events*, such as bins in which one guest has nearly all: the rule for losses (bounded_means.py).
# - *Jain's index* is at most 1, and each trial's noise lowers it: it has a lower bound and no upper one.
# - *The least of several*, selected by its result: its mean is too low by chance, and so is an interval about it.
# - *A deviation from what is due*, for several guests at once: by Bonferroni, and no closer than one packet.


def share_over_set_ups(trials: Mapping[Key, Sequence[tuple[int, int]]], families: int = 1) -> SetUpMean | None:
    """The share of rare events, 0 to 1, with the interval for losses, or None if no event was possible.

    ``trials``: (events, of) for each trial, by set-up. ``families``: the number of shares from which this one was
    selected by its result: its bounds are at 0.05 over them. Without events, ``ci_low`` is 0, and ``ci_high`` the upper
    bound of the share. There is no interval if a trial counts fewer than no events, as happens with foreign packets.
    """
    known = {set_up: [pair for pair in group if pair[1] > 0] for set_up, group in trials.items()}
    known = {set_up: group for set_up, group in known.items() if group}
    if not known:
        return None
    mean = mean_over_set_ups({set_up: [some / of for some, of in group] for set_up, group in known.items()})
    ratio = sum(some for group in known.values() for some, _ in group) / sum(
        of for group in known.values() for _, of in group
    )
    plain = replace(drop_interval(mean), mean=ratio)
    try:
        found = loss_of_trials(known, ALPHA / families)
    except MeasurementError:
        return plain
    if mean.scope == "too few" or found.high is None:
        return plain
    return replace(plain, ci_low=found.low, ci_high=found.high, scope=mean.scope, method="counts over set-ups")


def lower_bounded(mean: SetUpMean) -> SetUpMean:
    """The mean of an index that is at most 1 and that noise lowers: as each trial is too low, without an upper
    bound.
    """
    if mean.ci_low is None:
        return mean
    return replace(mean, ci_low=max(mean.ci_low, 0.0), ci_high=None, method="lower bound over set-ups")


def drop_interval(mean: SetUpMean) -> SetUpMean:
    """A mean without a justifiable interval: the mean, and the least and most of the trials."""
    return replace(mean, ci_low=None, ci_high=None, method="no interval")


def lowest_mean(means: Sequence[SetUpMean], floor: float = 0.0) -> SetUpMean | None:
    """The lowest of several means, with an interval for the lowest *true* one, at LEVEL or more.

    All upper bounds are valid simultaneously (Bonferroni), so the lowest of them is a bound of the lowest true mean.
    The lowest of the plain lower bounds is one, too: that of the truly lowest is valid. Without an interval if one has
    none. ``floor``: a lower limit of all true means.

    No bound is closer than by the deviation of all of them together: of values with a tail towards high ones those
    whose mean is low by chance scatter little, too, and the lowest upper bound would be chosen by that. Of values with
    a tail towards low ones those that have not met it scatter little, and their own lower bound is too high.
    """
    if not means:
        return None
    least = min(means, key=lambda each: each.mean)
    if len(means) == 1:
        return least
    if any(each.ci_low is None or each.scope != "set-ups" for each in means):
        return drop_interval(least)
    tail = (1 - LEVEL) / 2
    degrees = sum(each.set_ups - 1 for each in means)
    pooled = math.sqrt(math.fsum((each.set_ups - 1) * (each.sd or 0.0) ** 2 for each in means) / degrees)

    def reach(mean: SetUpMean, tail: float) -> float:
        together = student_t_quantile(1 - tail, float(degrees)) * pooled / math.sqrt(mean.set_ups)
        return max(_reach(mean, tail), together)

    low = max(min(each.mean - reach(each, tail) for each in means), floor)
    high = min(each.mean + reach(each, tail / len(means)) for each in means)
    return replace(least, ci_low=low, ci_high=high, method="student-t over set-ups, simultaneous")


def highest_mean(means: Sequence[SetUpMean], floor: float = 0.0) -> SetUpMean | None:
    """The highest of several means, with an interval for the highest true one: see lowest_mean()."""
    negative = lowest_mean([_negative(each) for each in means], -math.inf)
    if negative is None:
        return None
    found = _negative(negative)
    return found if found.ci_low is None or len(means) == 1 else replace(found, ci_low=max(found.ci_low, floor))


def deviation_over_set_ups(
    values: Mapping[Key, Sequence[float]], due: float, families: int, step: float = 0.0
) -> SetUpMean | None:
    """The signed deviation of a share from what is ``due``, at 0.05 over ``families`` such intervals.

    ``values``: the shares of trials by set-up. ``step``: their resolution, such as one packet of all arrivals. No bound
    is closer to the mean, and set-ups are assumed to vary at least by its rounding error: three equal ones do not prove
    that they always are. None if there are no values.
    """
    found = {set_up: [value - due for value in group] for set_up, group in values.items()}
    if not any(found.values()):
        return None
    mean = mean_over_set_ups(found)
    if mean.scope != "set-ups":
        return drop_interval(mean)
    scattered = replace(mean, sd=max(mean.sd or 0.0, step / math.sqrt(12)))
    reach = max(_reach(scattered, (1 - LEVEL) / 2 / families), step)
    return replace(
        mean, ci_low=mean.mean - reach, ci_high=mean.mean + reach, method="student-t over set-ups, simultaneous"
    )


def fairness_p(jain: Mapping[Key, Sequence[float]], guests: int, fair: float) -> tuple[float, float] | None:
    """The p-values for Jain's index above ``fair`` on the average of trials, and for below, or None.

    None for fewer than three set-ups, or without variation. By Student's t over set-ups. If guests are equal and vary
    by chance, 1 - index is a multiple of chi-square with one degree less than there are guests, and t would accept
    fairness too often (18 % instead of 2.5 % for two guests): the first p is at least that of this distribution.
    """
    lacks = [1 - value for value in set_up_means(jain).values()]
    if len(lacks) < 3 or guests < 2:
        return None
    mean = mean_over_set_ups({place: [value] for place, value in enumerate(lacks)})
    degrees = float(len(lacks) * (guests - 1))
    by_chance = incomplete_gamma(degrees / 2, degrees * mean.mean / (1 - fair) / 2)[0] if mean.mean > 0 else 0.0
    if not mean.sd:
        return (by_chance, 1.0) if mean.mean < 1 - fair else (1.0, 0.0)
    t = (mean.mean - (1 - fair)) / (mean.sd / math.sqrt(len(lacks)))
    return max(student_t_cdf(t, len(lacks) - 1.0), by_chance), student_t_cdf(-t, len(lacks) - 1.0)


def _reach(mean: SetUpMean, tail: float) -> float:
    return student_t_quantile(1 - tail, float(mean.set_ups - 1)) * (mean.sd or 0.0) / math.sqrt(mean.set_ups)


def _negative(mean: SetUpMean) -> SetUpMean:
    low, high = mean.ci_low, mean.ci_high
    return replace(
        mean,
        mean=-mean.mean,
        median=-mean.median,
        minimum=-mean.maximum,
        maximum=-mean.minimum,
        ci_low=None if high is None else -high,
        ci_high=None if low is None else -low,
    )
