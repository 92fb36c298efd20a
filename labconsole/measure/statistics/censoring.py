"""Spread of what a limit cuts off: values above it are read as the limit, and scatter less than what is measured. Pure.

J. Tobin, Estimation of relationships for limited dependent variables, Econometrica 26 (1958): moments of a normal
distribution that is censored on one side.
"""

from __future__ import annotations

import math

from labconsole.measure.statistics.distributions import normal_quantile
from labconsole.measure.statistics.effects import Effect, build_effect


def censored_sd_ratio(share: float) -> float:
    """The deviation that is seen, in deviations of a normal quantity, where the upper ``share`` of it is cut off.

    1 where nothing is. 1 too where everything is: nothing is seen of the spread then, and it is not guessed.
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
    """The same change with an error and a deviation so many times as large; one that says nothing as it is."""
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
    )
