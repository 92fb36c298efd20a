"""The components of the spread, between set-ups and within them, and the numbers of both that a plan needs. Pure.

On the natural logarithm, so that the roots of variances are relative (0.01 is one per cent). After T. Kalibera and R.
Jones, Rigorous benchmarking in reasonable time, ISMM 2013; upper bound of a variance from a pilot: R. H. Browne, On the
use of a pilot sample for sample size determination, Statist. Med. 14 (1995).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.distributions import chi_square_quantile, student_t_quantile
from labconsole.measure.statistics.effects import smallest_effect
from labconsole.measure.statistics.set_ups import Key, deviation, finite, mean_of

MINIMUM_SET_UPS = 3
MINIMUM_REPETITIONS = 2
MOST_REPETITIONS = 10
MOST_SET_UPS = 10_000
UPPER_SHARE = 0.2
"""Four in five pilots give an upper bound above the variance."""
LOWER_SHARE = 0.9
"""Nine in ten pilots give a lower bound below the variance within set-ups."""


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of ln(value).

    ``variance_within``: s_w², mean of those within set-ups. ``variance_of_means``: s_b², between the means of set-ups.
    ``variance_between``: T² = s_b² - s_w² / repetitions, negative if the set-ups' means are closer than their trials
    make likely. ``repetitions``: the harmonic mean if set-ups differ. ``points``: design points pooled.
    """

    variance_within: float
    variance_of_means: float
    variance_between: float
    set_ups: int
    repetitions: float
    points: int = 1


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommended size of a plan.

    ``half_width_ratio``: of a mean's interval then. ``smallest_effect_ratio``: the smallest change between two
    platforms that it shows with 80 % power. ``total_s``: of all set-ups with their repetitions, for one platform.
    ``variance_upper``: the pilot's upper 80 % bound for the variance of a set-up's mean, which all of it rests on.
    """

    repetitions: int
    set_ups: int
    half_width_ratio: float
    smallest_effect_ratio: float | None
    total_s: float
    variance_upper: float
    components: Components


def components(values: Mapping[Key, Sequence[float]]) -> Components:
    """Components of one design point. ``values``: of the trials, by set-up, above zero.

    Raises MeasurementError for fewer than three set-ups, fewer than two trials in one of them, or a value of zero.
    """
    known = {set_up: finite(trials) for set_up, trials in values.items() if len(trials)}
    if len(known) < MINIMUM_SET_UPS:
        raise MeasurementError(f"components of the spread need {MINIMUM_SET_UPS} set-ups, there are {len(known)}")
    fewest = min(len(trials) for trials in known.values())
    if fewest < MINIMUM_REPETITIONS:
        raise MeasurementError(
            f"components of the spread need {MINIMUM_REPETITIONS} repetitions in each set-up, one has {fewest}"
        )
    if min(min(trials) for trials in known.values()) <= 0:
        raise MeasurementError("components of the spread are relative, and a value is zero or less")
    logs = [[math.log(value) for value in trials] for trials in known.values()]
    within = [(deviation(trials) or 0.0) ** 2 for trials in logs]
    degrees = [len(trials) - 1 for trials in logs]
    variance_within = math.fsum(v * d for v, d in zip(within, degrees, strict=True)) / sum(degrees)
    variance_of_means = (deviation([mean_of(trials) for trials in logs]) or 0.0) ** 2
    repetitions = len(logs) / math.fsum(1 / len(trials) for trials in logs)
    between = variance_of_means - variance_within / repetitions
    return Components(variance_within, variance_of_means, between, len(logs), repetitions)


def pooled_components(parts: Sequence[Components]) -> Components:
    """Mean components of several points of one platform. They share its set-ups, so pooling adds no set-ups."""
    if not parts:
        raise MeasurementError("there are no components to pool")
    count = len(parts)
    return Components(
        variance_within=math.fsum(part.variance_within for part in parts) / count,
        variance_of_means=math.fsum(part.variance_of_means for part in parts) / count,
        variance_between=math.fsum(part.variance_between for part in parts) / count,
        set_ups=min(part.set_ups for part in parts),
        repetitions=count / math.fsum(1 / part.repetitions for part in parts),
        points=sum(part.points for part in parts),
    )


def advise(components: Components, setup_s: float, trial_s: float, accuracy_ratio: float) -> Advice:
    """The repetitions and set-ups that determine a mean to ± ``accuracy_ratio`` in the least time.

    ``setup_s``: seconds per set-up. ``trial_s``: seconds per further repetition of all points in the set-up. Both
    numbers rest on the upper 80 % bound of the pilot's variance: with the variance itself, half of all such plans would
    miss their aim. Among equally long plans it is the one with the fewest repetitions.
    """
    if components.set_ups < MINIMUM_SET_UPS or components.repetitions < MINIMUM_REPETITIONS:
        raise MeasurementError(
            f"advice needs {MINIMUM_SET_UPS} stored set-ups of {MINIMUM_REPETITIONS} repetitions, "
            f"there are {components.set_ups} of {components.repetitions:g}"
        )
    if not (setup_s >= 0 and trial_s > 0 and accuracy_ratio > 0):
        raise ValueError(f"times and accuracy are above zero, got {setup_s!r}, {trial_s!r}, {accuracy_ratio!r}")
    found: list[tuple[float, int, int, float]] = []
    for repetitions in range(1, MOST_REPETITIONS + 1):
        upper = upper_variance_of_mean(components, repetitions)
        set_ups = _set_ups_for_accuracy(upper, accuracy_ratio)
        if set_ups is not None:
            found.append((set_ups * (setup_s + repetitions * trial_s), repetitions, set_ups, upper))
    if not found:
        raise _out_of_reach(accuracy_ratio)
    total_s, repetitions, set_ups, upper = min(found)
    return Advice(
        repetitions=repetitions,
        set_ups=set_ups,
        half_width_ratio=_half_width(upper, set_ups),
        smallest_effect_ratio=smallest_effect(math.sqrt(2 * upper), set_ups),
        total_s=total_s,
        variance_upper=upper,
        components=components,
    )


def upper_variance_of_mean(pilot: Components, repetitions: int) -> float:
    """The upper 80 % bound for the variance of a set-up's mean over ``repetitions``: T² + s_w² / repetitions.

    It does not rest on T², whose estimate may be zero by chance, but on the observation: the upper bound of s_b², plus
    the upper bound of the increase by fewer repetitions than the pilot's, or minus the *lower* bound of the decrease by
    more. T² is not negative, so the result is at least the upper bound of s_w² / repetitions.
    """
    degrees = pilot.set_ups * (pilot.repetitions - 1)  # for several points there are more
    lowest, highest = (
        pilot.variance_within * degrees / chi_square_quantile(share, degrees) for share in (LOWER_SHARE, UPPER_SHARE)
    )
    more = 1 / repetitions - 1 / pilot.repetitions
    seen = upper_variance(pilot.variance_of_means, pilot.set_ups)
    return max(seen + more * (highest if more > 0 else lowest), highest / repetitions)


def upper_variance(variance: float, set_ups: int) -> float:
    """The upper 80 % bound of a variance between the means of ``set_ups`` set-ups."""
    degrees = float(set_ups - 1)
    return variance * degrees / chi_square_quantile(UPPER_SHARE, degrees)


def fewest_set_ups(variance: float, accuracy_ratio: float) -> int:
    """The fewest set-ups that determine a mean to ± ``accuracy_ratio``. Raises MeasurementError above MOST_SET_UPS."""
    found = _set_ups_for_accuracy(variance, accuracy_ratio)
    if found is None:
        raise _out_of_reach(accuracy_ratio)
    return found


def _set_ups_for_accuracy(variance: float, accuracy_ratio: float) -> int | None:
    return _fewest(lambda set_ups: _half_width(variance, set_ups) <= accuracy_ratio)


def _out_of_reach(accuracy_ratio: float) -> MeasurementError:
    return MeasurementError(f"an accuracy of {accuracy_ratio:.3g} takes more than {MOST_SET_UPS} set-ups")


def set_ups_to_show(change_ratio: float, variance: float) -> int | None:
    """The fewest set-ups that show such a change with 80 % power, or None above MOST_SET_UPS.

    The change is between two points of the same blocks, by a plain interval. ``variance``: of a set-up's mean, above
    zero. Raises ValueError without variation: smallest_effect() is then unknown for any number.
    """
    if not variance > 0:
        raise ValueError(f"a variance is above zero, got {variance!r}")
    sd = math.sqrt(2 * variance)

    def shown(set_ups: int) -> bool:
        found = smallest_effect(sd, set_ups)
        return found is not None and found <= change_ratio

    return _fewest(shown)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The fewest from MINIMUM_SET_UPS on, if more are always better, or None if MOST_SET_UPS are too few."""
    low, high = MINIMUM_SET_UPS, MINIMUM_SET_UPS
    while not enough(high):
        low, high = high + 1, 2 * high
        if low > MOST_SET_UPS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high if high <= MOST_SET_UPS else None


def _half_width(variance: float, set_ups: int) -> float:
    return student_t_quantile(0.975, float(set_ups - 1)) * math.sqrt(variance / set_ups)
