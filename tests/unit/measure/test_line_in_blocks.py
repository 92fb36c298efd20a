"""A line from slopes within blocks, on simulated blocks whose truth is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

import numpy as np
import pytest
from scipy import stats

from labconsole.measure.statistics.regression import LineInBlocks, fit_line, line_in_blocks

COUNTS = (1.0, 2.0, 5.0, 10.0)
Values = dict[float, dict[Hashable, float]]


def simulated(
    draw: random.Random, truth: Callable[[float], float], *, blocks: int = 5, drift: float = 1.0, noise: float = 0.05
) -> Values:
    """Values at each number; what a block has in common moves all of its own alike."""
    found: Values = {x: {} for x in COUNTS}
    for block in range(blocks):
        common = draw.gauss(0, drift)
        for x in COUNTS:
            found[x][block] = truth(x) + common + draw.gauss(0, noise)
    return found


def line(values: Values) -> LineInBlocks:
    found = line_in_blocks(values)
    assert found is not None
    return found


def excludes_zero(low: float | None, high: float | None) -> bool:
    assert low is not None
    assert high is not None
    return low > 0 or high < 0


@pytest.mark.parametrize("blocks", [3, 5, 10])
def test_without_growth_a_drift_between_blocks_gives_false_slopes_and_bends_no_oftener_than_said(blocks: int) -> None:
    slopes = bends = 0
    for seed in range(1000):
        found = line(simulated(random.Random(seed), lambda _: 4.0, blocks=blocks))
        assert found.bend is not None
        slopes += excludes_zero(found.slope.low, found.slope.high)
        bends += bool(found.bent)
    assert slopes <= 70  # 50 are expected; more than 70 come once in 500 such tests
    assert bends <= 70


def test_a_slope_that_a_line_through_all_values_does_not_see_is_found_beside_the_drift() -> None:
    within = pooled = 0
    for seed in range(100):
        values = simulated(random.Random(seed), lambda x: 4.0 + 0.05 * x)
        found = line(values)
        assert found.slope.low is not None
        within += found.slope.low > 0
        all_of_them = fit_line([(x, y) for x, of in values.items() for y in of.values()])
        assert all_of_them is not None
        assert all_of_them.slope_low is not None
        pooled += all_of_them.slope_low > 0
    assert within >= 99
    assert pooled <= 30


def test_blocks_that_lack_a_number_do_not_pass_their_drift_off_as_growth() -> None:
    """Block 4 is slow and was only measured with many guests: a line through all values would grow."""
    values: Values = {x: dict.fromkeys(range(4), 4.0 + x / 1e4) for x in (1.0, 5.0, 10.0)}
    values[10.0][4] = 9.0
    found = line(values)
    assert found.blocks == 4
    assert found.slope.mean == pytest.approx(1e-4)
    pooled = fit_line([(x, y) for x, of in values.items() for y in of.values()])
    assert pooled is not None
    assert pooled.slope > 0.1


def test_the_parts_are_those_of_the_reference_and_their_interval_is_students() -> None:
    values = simulated(random.Random(4), lambda x: 3 + 0.5 * x + 0.02 * x * x, blocks=6)
    found = line(values)
    fitted = [np.polyfit(COUNTS, [values[x][block] for x in COUNTS], 1) for block in range(6)]
    parabolas = [np.polyfit(COUNTS, [values[x][block] for x in COUNTS], 2) for block in range(6)]
    for part, reference in (
        (found.slope, [each[0] for each in fitted]),
        (found.constant, [each[1] for each in fitted]),
        (found.bend, [each[0] for each in parabolas]),
    ):
        assert part is not None
        wanted = stats.t.interval(0.95, 5, loc=np.mean(reference), scale=stats.sem(reference))
        assert part.mean == pytest.approx(np.mean(reference))
        assert (part.low, part.high) == pytest.approx(wanted)


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = [0, 0]
    for seed in range(400):
        found = line(simulated(random.Random(seed), lambda x: 3.0 + 0.5 * x))
        for place, (part, truth) in enumerate(((found.slope, 0.5), (found.constant, 3.0))):
            assert part.low is not None
            assert part.high is not None
            held[place] += part.low <= truth <= part.high
    assert all(0.92 <= each / 400 <= 0.98 for each in held)


def test_a_bend_is_found_and_a_line_is_not_called_bent() -> None:
    assert all(line(simulated(random.Random(seed), lambda x: 4 + 0.01 * x * x)).bent for seed in range(50))
    bends = [line(simulated(random.Random(seed), lambda x: 4 + 2 * x)).bent for seed in range(400)]
    assert bends.count(True) <= 38  # 20 are expected


def test_rounding_is_neither_slope_nor_bend() -> None:
    """Blocks that are alike to the last digit have no deviation that would hide it."""
    found = line({x: dict.fromkeys(range(4), 0.1 + 0.7 * x) for x in (1.0, 2.0, 3.0, 7.0)})
    assert found.bent is False
    assert found.slope.low == pytest.approx(0.7)
    flat = line({x: dict.fromkeys(range(4), 0.1 + 0.2) for x in COUNTS})
    assert (flat.slope.low, flat.slope.high) == (0.0, 0.0)


def test_of_too_little_it_says_less() -> None:
    assert line_in_blocks({}) is None
    assert line_in_blocks({1.0: {1: 2.0}}) is None
    assert line_in_blocks({1.0: {1: 2.0}, 2.0: {2: 2.0}}) is None  # no block has both
    two = line({1.0: dict.fromkeys(range(9), 2.0), 2.0: dict.fromkeys(range(9), 4.0)})
    assert (two.slope.mean, two.constant.mean, two.bend, two.bent) == (2.0, 0.0, None, None)
    assert (two.slope.low, two.constant.low, two.absent) == (None, None, "too few numbers of guests")
    few = line({x: {1: 2 * x, 2: 2 * x} for x in COUNTS})
    assert (few.slope.mean, few.slope.low, few.absent, few.bent) == (2.0, None, "too few blocks", None)
