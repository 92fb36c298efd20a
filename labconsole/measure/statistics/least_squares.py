"""A straight line through values over a number, with intervals of both its parameters. Pure.

Ordinary least squares, with Student's t of n - 2 degrees: every value is an independent replicate (a set-up), and the
variation is equal everywhere. The test for lack of fit compares the distance of the means of equal x from the line with
the differences between replicates of equal x (N. R. Draper, H. Smith: Applied Regression Analysis, 3rd ed., section
2.1): a small p means that a line is not enough. Derivation and limits: docs/statistics.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labconsole.measure.statistics.distributions import student_t_quantile
from labconsole.measure.statistics.special_functions import incomplete_beta

LEVEL = 0.95
LEAST_VALUES = 3
"""With two the line passes through both, and its fit cannot be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``constant`` + ``slope`` · x, in the unit of the values.

    ``residual_sd``: of the values about it. ``places``: the number of different x. Bounds are None if the values are
    too few for an interval.
    """

    constant: float
    slope: float
    constant_low: float | None
    constant_high: float | None
    slope_low: float | None
    slope_high: float | None
    residual_sd: float | None
    values: int
    places: int
    lack_of_fit_p: float | None = None


def fit_line(points: Sequence[tuple[float, float]], level: float = LEVEL) -> Line | None:
    """Fit a line through (x, value), or None for fewer than two different x."""
    places = len({x for x, _ in points})
    if places < 2:
        return None
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, constant = statistics.linear_regression(xs, ys)
    n, middle = len(points), statistics.fmean(xs)
    if n < LEAST_VALUES:
        return _line(constant, slope, None, None, None, n, places)
    spread = math.fsum((x - middle) ** 2 for x in xs)
    residual_sd = math.sqrt(math.fsum((y - constant - slope * x) ** 2 for x, y in points) / (n - 2))
    t = student_t_quantile((1 + level) / 2, n - 2)
    slope_reach = t * residual_sd / math.sqrt(spread)
    constant_reach = t * residual_sd * math.sqrt(1 / n + middle**2 / spread)
    line = _line(constant, slope, constant_reach, slope_reach, residual_sd, n, places)
    return replace(line, lack_of_fit_p=_lack_of_fit(points, constant, slope) if places > 2 else None)


def _lack_of_fit(points: Sequence[tuple[float, float]], constant: float, slope: float) -> float | None:
    here: dict[float, list[float]] = {}
    for x, y in points:
        here.setdefault(x, []).append(y)
    means = {x: statistics.fmean(ys) for x, ys in here.items()}
    pure = math.fsum((y - means[x]) ** 2 for x, y in points)
    off = math.fsum(len(ys) * (means[x] - constant - slope * x) ** 2 for x, ys in here.items())
    of_line, of_replicates = len(here) - 2, len(points) - len(here)
    if not of_replicates or pure <= 0:
        return None
    f = (off / of_line) / (pure / of_replicates)
    # The upper tail of F by the incomplete beta function (Abramowitz and Stegun, 26.6.2).
    return incomplete_beta(of_replicates / (of_replicates + of_line * f), of_replicates / 2, of_line / 2)


def _line(
    constant: float,
    slope: float,
    constant_reach: float | None,
    slope_reach: float | None,
    sd: float | None,
    values: int,
    places: int,
) -> Line:
    return Line(
        constant=constant,
        slope=slope,
        constant_low=None if constant_reach is None else constant - constant_reach,
        constant_high=None if constant_reach is None else constant + constant_reach,
        slope_low=None if slope_reach is None else slope - slope_reach,
        slope_high=None if slope_reach is None else slope + slope_reach,
        residual_sd=sd,
        values=values,
        places=places,
    )
