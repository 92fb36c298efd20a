"""Straight lines through values over a number, alone or within each block, with intervals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from labconsole.measure.statistics.distributions import incomplete_beta, student_t_cdf, student_t_quantile
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, ROUNDING
from labconsole.measure.statistics.set_ups import LEVEL, Key, deviation, finite, mean_of

# -- least squares -----------------------------------------------------------------------------------------------------
# A straight line through values over a number, with intervals of both its parameters.
#
# Ordinary least squares, with Student's t of n - 2 degrees: every value is an independent replicate (a set-up), and the
# variation is equal everywhere. The test for lack of fit compares the distance of the means of equal x from the line
# with the differences between replicates of equal x (N. R. Draper, H. Smith: Applied Regression Analysis, 3rd ed.,
# section 2.1): a small p means that a line is not enough. Derivation and limits: docs/statistics.md.

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


# -- line in blocks ----------------------------------------------------------------------------------------------------
# A straight line over a number, such as of guests, from measurements at all of its values within each block.
#
# The shared conditions of a block (moment, temperature, drift) move all of its values alike, so that values of one
# block are not independent, and a line through those of all blocks has an interval that is too narrow or too wide. Each
# complete block therefore has a line of its own, by least squares, and a quadratic term of its own. Slope, constant and
# bend are their means over blocks, with Student's t of one degree less than there are blocks: repeated measures
# analysed by a summary of each subject (J. N. S. Matthews, D. G. Altman, M. J. Campbell, P. Royston: Analysis of serial
# measurements in medical research. BMJ 300 (1990)). Derivation and limits: docs/statistics.md.

LEAST_PLACES: Final = 3
"""A line fits any two: they cannot show whether it is one."""

FEW_PLACES: Final = "too few numbers of guests"
FEW_BLOCKS: Final = "too few blocks"

Absent = Literal["too few numbers of guests", "too few blocks", "too many blocks took them in the same order"]


@dataclass(frozen=True, slots=True)
class OverBlocks:
    """Mean over the results of blocks. Bounds are None if there is no interval."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineInBlocks:
    """``constant`` + ``slope`` · x, in the unit of the values.

    ``bend``: the quadratic term of a parabola through the same values, or None for fewer than three x. ``blocks``:
    complete ones, with a value at all of the ``places`` x. ``absent``: why there is no interval, or None if there is
    one.
    """

    slope: OverBlocks
    constant: OverBlocks
    bend: OverBlocks | None
    blocks: int
    places: int
    absent: Absent | None

    @property
    def bent(self) -> bool | None:
        """Whether the interval of the bend excludes zero, so that a line is not enough; None without an interval."""
        bend = self.bend
        if bend is None or bend.low is None or bend.high is None:
            return None
        return bend.low > 0 or bend.high < 0

    def drop_intervals(self, why: Absent) -> LineInBlocks:
        """The same line without claims."""
        bend = None if self.bend is None else OverBlocks(self.bend.mean)
        slope, constant = OverBlocks(self.slope.mean), OverBlocks(self.constant.mean)
        return replace(self, slope=slope, constant=constant, bend=bend, absent=why)


def line_in_blocks(values: Mapping[float, Mapping[Key, float]], level: float = LEVEL) -> LineInBlocks | None:
    """The line over complete blocks, or None for fewer than two x, or without a complete block.

    ``values``: by x and block. A block that lacks one of the x does not enter: its slope would be over other numbers
    than theirs. From three blocks and three x the parameters have an interval.
    """
    xs = sorted(values)
    if len(xs) < 2:
        return None
    complete = [block for block in values[xs[0]] if all(block in values[x] for x in xs)]
    if not complete:
        return None
    parts = [_parts(xs, finite(values[x][block] for x in xs)) for block in complete]
    absent: Absent | None = FEW_BLOCKS if len(complete) < MINIMUM_BLOCKS else None
    absent = FEW_PLACES if len(xs) < LEAST_PLACES else absent
    reach = None if absent else student_t_quantile((1 + level) / 2, len(complete) - 1) / math.sqrt(len(complete))
    bends = [bend for _, _, bend in parts if bend is not None]
    return LineInBlocks(
        slope=_summarize_blocks([slope for slope, _, _ in parts], reach),
        constant=_summarize_blocks([constant for _, constant, _ in parts], reach),
        bend=_summarize_blocks(bends, reach) if bends else None,
        blocks=len(complete),
        places=len(xs),
        absent=absent,
    )


def slope_p(found: LineInBlocks, level: float = LEVEL) -> float | None:
    """The p-value for a slope that is not zero, two-sided, or None without interval. ``level``: of its intervals."""
    mean, low, high = found.slope.mean, found.slope.low, found.slope.high
    if low is None or high is None:
        return None
    degrees, half = found.blocks - 1, (high - low) / 2
    if half <= ROUNDING * abs(mean):
        return None  # no variation: the probability is unknown
    return 2 * student_t_cdf(-abs(mean) / half * student_t_quantile((1 + level) / 2, degrees), degrees)


def _summarize_blocks(found: Sequence[float], reach: float | None) -> OverBlocks:
    mean, sd = mean_of(found), deviation(found)
    if reach is None or sd is None:
        return OverBlocks(mean)
    return OverBlocks(mean, mean - reach * sd, mean + reach * sd)


def _parts(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float | None]:
    """Slope, constant and bend of one block's values, by polynomials that are orthogonal at these x."""
    middle, level = mean_of(xs), mean_of(ys)
    first = [x - middle for x in xs]
    spread = math.fsum(each * each for each in first)
    slope = _along(first, ys)
    constant = level - slope * middle
    if len(xs) < LEAST_PLACES:
        return slope, constant, None
    squares = [each * each for each in first]
    mean_square = mean_of(squares)
    skew = math.fsum(a * b for a, b in zip(first, squares, strict=True)) / spread
    second = [square - mean_square - skew * each for square, each in zip(squares, first, strict=True)]
    return slope, constant, _along(second, ys)


def _along(shape: Sequence[float], ys: Sequence[float]) -> float:
    """The amount of a shape whose sum is zero in the values; 0 if that is rounding."""
    level = mean_of(ys)
    found = math.fsum(a * (y - level) for a, y in zip(shape, ys, strict=True)) / math.fsum(a * a for a in shape)
    return found if abs(found) * max(map(abs, shape)) > ROUNDING * max(map(abs, ys)) else 0.0
