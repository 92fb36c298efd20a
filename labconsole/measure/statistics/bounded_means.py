"""Means over set-ups that Student's interval does not fit: rare events, bounded indices, the least of several. Pure.

- *Shares of rare events*, such as bins in which one guest has nearly all: the rule of losses (loss_interval.py).
- *Jain's index* is 1 at most, and each trial's noise lowers it: it has a lower bound and no upper one.
- *The least of several*, chosen by its result: its mean is too low by chance, and so is an interval about it.
- *A deviation from what is due* of several guests at once: by Bonferroni, and no closer than one packet.
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
    """The share of rare events, 0 to 1, with the interval of losses; ``trials``: (events, of) each, by set-up.

    ``families``: of how many shares this is one, chosen by its result: its bounds are at 0.05 over them. Without
    events, ``ci_low`` is 0, and ``ci_high`` what the share is at most. None where nothing could happen; without an
    interval where a trial counts fewer than none, as by packets of strangers.
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
    """Of an index that is 1 at most, and that noise lowers: no upper bound, where each trial is below the truth."""
    if mean.ci_low is None:
        return mean
    return replace(mean, ci_low=max(mean.ci_low, 0.0), ci_high=None, method="lower bound over set-ups")


def drop_interval(mean: SetUpMean) -> SetUpMean:
    """What has no interval that could be stood behind: the mean, and the least and most of the trials."""
    return replace(mean, ci_low=None, ci_high=None, method="no interval")


def lowest_mean(means: Sequence[SetUpMean], floor: float = 0.0) -> SetUpMean | None:
    """The lowest of several means, with an interval of the lowest *true* one, at LEVEL at the least.

    All upper bounds hold at once (Bonferroni), so that the lowest of them is one of the lowest true mean, and the
    lowest of the plain lower bounds is, too: that of the truly lowest holds. Without interval where one has none.
    ``floor``: what no true mean lies below.

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
    """The highest of several means, with an interval of the highest true one: as least_of()."""
    negative = lowest_mean([_negative(each) for each in means], -math.inf)
    if negative is None:
        return None
    found = _negative(negative)
    return found if found.ci_low is None or len(means) == 1 else replace(found, ci_low=max(found.ci_low, floor))


def deviation_over_set_ups(
    values: Mapping[Key, Sequence[float]], due: float, families: int, step: float = 0.0
) -> SetUpMean | None:
    """By how much a share lies from what is ``due``, signed, at 0.05 over ``families`` such intervals.

    ``values``: the shares of trials by set-up; ``step``: what they move in, such as one packet of all that came: no
    bound is closer to the mean, and set-ups are taken to scatter by no less than what is rounded to it does. Three that
    happen to be equal to the packet do not say that they always are. None where there are no values.
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
    """p of the claim that Jain's index is above ``fair`` on the average of trials, and that it is below; None: fewer
    than three set-ups, or nothing varied.

    Student's t over set-ups. Where guests are alike and vary by chance, 1 - index is a multiple of chi-square with one
    degree less than there are guests, and t would call it fair too often (18 % instead of 2.5 % of two guests): the
    first p is at least what follows from that.
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
