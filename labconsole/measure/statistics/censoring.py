"""Spread of quantities with an upper limit: values above it read as the limit, and vary less than the quantity. Pure.

J. Tobin, Estimation of relationships for limited dependent variables, Econometrica 26 (1958): moments of a normal
distribution that is censored on one side.
"""

from __future__ import annotations

import math

from labconsole.measure.statistics.distributions import normal_quantile
from labconsole.measure.statistics.effects import Effect, build_effect


def censored_sd_ratio(share: float) -> float:
    """The observed deviation, in deviations of a normal quantity, if its upper ``share`` is cut off.

    1 if nothing is cut off. Also 1 if everything is: the spread is then unobservable, and is not guessed.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, got {share!r}")
    if share in (0.0, 1.0):
        return 1.0
    limit = normal_quantile(1 - share)
    density = math.exp(-limit * limit / 2) / math.sqrt(2 * math.pi)
    mean = share * limit - density
    return math.sqrt(1 - share - limit * density + share * limit * limit - mean * mean)


def widen_effect(effect: Effect, factor: float) -> Effect:
    """The same change with its error and deviation multiplied by ``factor``; an effect without claim is unchanged."""
    if effect.mean_log is None or effect.error_log is None or effect.degrees is None or effect.sd_log is None:
        return effect
    return build_effect(
        effect.mean_log,
        factor * effect.error_log,
        effect.degrees,
        effect.blocks,
        factor * effect.sd_log,
        1.0,
        "two-sided",
        effect.level,
        paired=effect.paired,
        others_of_single=effect.others_of_single,
    )
