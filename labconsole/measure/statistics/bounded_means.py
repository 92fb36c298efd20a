"""Means over set-ups for which Student's interval is unsuitable. Pure.

- *Shares of rare events*, such as bins in which one guest has nearly all: the rule for losses (loss_interval.py).
- *Jain's index* is at most 1, and each trial's noise lowers it: it has a lower bound and no upper one.
- *The least of several*, selected by its result: its mean is too low by chance, and so is an interval about it.
- *A deviation from what is due*, for several guests at once: by Bonferroni, and no closer than one packet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.distributions import student_t_cdf, student_t_quantile
from labconsole.measure.statistics.loss_interval import ALPHA, loss_of_trials
from labconsole.measure.statistics.set_ups import LEVEL, Key, SetUpMean, mean_over_set_ups, set_up_means
from labconsole.measure.statistics.special_functions import incomplete_gamma


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
