"""Levels of a series: what is a change, what is an outlier, and what is neither."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from labconsole.measure.trend import (
    CUT_RESULTS,
    LARGEST_P,
    NORMAL_80,
    Resolution,
    Segmentation,
    clearest_places,
    order_p,
    segment,
    smallest_steps,
    wandering_error,
)

ONE_PACKET = Resolution(1 / math.sqrt(12), 1.5)


def spans(found: Segmentation) -> list[tuple[int, int]]:
    return [(level.first, level.last) for level in found.levels]


@pytest.mark.parametrize(
    "values",
    [
        [3768320.0] * 5 + [3767927.5] + [3768320.0] * 6,
        [30.0] * 3 + [29.97] * 2 + [30.0] * 7,
        [30.0, 30.0, 29.97, 29.97],
        [30.0] * 4 + [29.98] * 3 + [30.0] * 5,
    ],
)
def test_equal_results_but_for_a_few_that_are_a_little_lower_have_one_level_and_no_outlier(values):
    found = segment(values)
    assert (len(found.levels), found.outliers) == (1, ())


def test_one_packet_of_a_few_set_ups_is_no_change():
    rng, cut, blind = np.random.default_rng(4), 0, 0
    for _ in range(100):
        values = (60 - rng.binomial(3, 0.05, 30) / 3).tolist()
        cut += len(segment(values, ONE_PACKET).levels) > 1
        blind += segment(values).outliers != () or len(segment(values).levels) > 1
    assert cut == 0
    assert blind > 10


def test_results_that_are_held_and_fall_have_changed():
    assert spans(segment([30.0] * 4 + [20.0] * 4)) == [(0, 3), (4, 7)]
    assert spans(segment([30.0] * 6 + [29.0] * 6)) == [(0, 5), (6, 11)]


def test_levels_that_come_and_go_with_two_kinds_of_nights_are_none():
    """Of 14 results 3 that are lower, 2 of them neighbours: one order in two has as much."""
    values = [100.0, 99.9, 100.1, 92.0, 91.9, 100.0, 99.8, 100.2, 92.1, 100.0, 99.9, 100.1, 100.0, 100.2]
    assert len(segment(values).levels) == 1


def test_nine_results_of_two_kinds_of_nights_are_judged_by_their_order_with_an_outlier_among_them():
    """Without it eight would be left, which are too few to judge by: 4.7 % of such series were cut."""
    rng, cut = np.random.default_rng(5), 0
    for _ in range(400):
        values = 100 + 5 * (rng.random(9) < 0.5) + 0.3 * rng.standard_normal(9)
        cut += len(segment(values.tolist()).levels) > 1
    assert cut <= 0.03 * 400


@pytest.mark.parametrize("results", range(4, 9))
def test_few_results_of_two_kinds_of_nights_are_seldom_cut(results):
    """All series of two values that come equally often; 13 % were cut before."""
    series = [[100.0 - low for low in each] for each in product((0, 1), repeat=results)]
    cut = sum(len(segment(values).levels) > 1 for values in series)
    assert cut / len(series) <= (0.0 if results < CUT_RESULTS else 2 / 64)


def test_five_results_have_no_change_and_show_an_outlier():
    values = [100.0, 100.4, 99.7, 90.1, 90.0]
    assert (len(segment(values).levels), segment(values).outliers) == (1, ())
    assert smallest_steps(segment(values)).middle_ratio is None
    assert segment([100.0, 100.4, 99.7, 100.1, 90.0]).is_latest_outlier


def test_outliers_are_named_and_neither_hide_a_step_nor_each_other():
    rng = np.random.default_rng(2)
    values = 100 + 0.3 * rng.standard_normal(20)
    values[4] += 4
    values[13] -= 4
    found = segment(values.tolist())
    assert (len(found.levels), found.outliers, found.is_latest_outlier) == (1, (4, 13), False)
    assert found.levels[0].sd == pytest.approx(0.3, abs=0.1)
    values[10:] -= 3
    found = segment(values.tolist())
    assert (spans(found), found.outliers) == ([(0, 9), (10, 19)], (4, 13))


def test_the_latest_result_alone_is_off_and_no_change_before_others_agree():
    rng = np.random.default_rng(3)
    values = (100 + 0.3 * rng.standard_normal(17)).tolist()
    one = segment([*values, 95.0])
    assert (len(one.levels), one.outliers, one.is_latest_outlier) == (1, (17,), True)
    assert spans(segment([*values, 95.0, 95.2, 94.9])) == [(0, 16), (17, 19)]


def test_a_result_between_two_levels_is_no_outlier():
    values = [100.0, 100.2, 99.9, 100.1, 99.8, 100.0, 97.0, 94.0, 94.2, 93.9, 94.1, 93.8, 94.0]
    found = segment(values)
    assert (len(found.levels), found.outliers) == (2, ())


@pytest.mark.parametrize("seed", range(6))
def test_read_backwards_or_mirrored_a_series_has_the_same_changes(seed):
    rng = np.random.default_rng(seed)
    values = 100 + rng.standard_normal(24)
    values[9:] += 6
    there = segment(values.tolist())
    back, mirrored = segment(values[::-1].tolist()), segment((200 - values).tolist())
    assert spans(there) == [(23 - last, 23 - first) for first, last in reversed(spans(back))] == spans(mirrored)
    assert len(there.levels) == 2


def test_a_change_within_the_margin_is_none():
    values = [100.0, 100.2, 99.9, 100.1, 99.8, 100.0, 97.0, 97.2, 96.9, 97.1, 96.8, 97.0]
    assert len(segment(values).levels) == 2
    assert len(segment(values, Resolution(margin_ratio=0.02)).levels) == 2
    within = segment(values, Resolution(margin_ratio=0.04))
    assert (len(within.levels), within.outliers) == (1, ())


def test_what_would_be_found_exceeds_the_margin_and_the_step_of_a_count():
    values = [100.0, 100.2, 99.9, 100.1, 99.8, 100.0, 100.1, 99.9]
    found = segment(values, Resolution(margin_ratio=0.05))
    middle, latest = smallest_steps(found)
    sd = float(np.std(values, ddof=1))
    assert middle == pytest.approx(0.05 + NORMAL_80 * sd * 2 / math.sqrt(8) / 100)
    assert latest == pytest.approx(0.05 + NORMAL_80 * sd * math.sqrt(9 / 8) / 100)
    held = smallest_steps(segment([100.0] * 8))
    assert held == pytest.approx((0.002, 0.002))


def test_the_order_of_results_is_judged_by_all_orders():
    """Of ten results in two halves 2 of 252 orders part them as clearly; of eight 2 of 70."""
    halves = [1.0, 1.1, 0.9, 1.05, 0.95, 5.0, 5.1, 4.9, 5.05, 4.95]
    assert order_p(halves, 3) == pytest.approx(2 / 252, abs=0.007)
    assert order_p(halves[::-1], 3) == order_p(halves, 3)
    assert order_p([1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0], 3) > LARGEST_P
    assert order_p([1.0] * 3 + [0.9] * 2 + [1.0] * 7, 2) > 0.1


def test_results_part_where_they_differ_most():
    values = [1.0] * 5 + [3.0] * 5 + [3.1] * 5
    assert clearest_places(values, [5, 10]) == (5,)
    assert clearest_places([1.0] * 5 + [3.0] * 5 + [1.0] * 5, [5, 10]) == (5, 10)


def test_the_error_of_results_that_resemble_their_neighbours_is_larger():
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(4000)
    wandering = np.empty(4000)
    wandering[0] = noise[0]
    for place in range(1, 4000):
        wandering[place] = 0.5 * wandering[place - 1] + math.sqrt(0.75) * noise[place]
    assert wandering_error([noise.tolist()]) == pytest.approx(1.0, abs=0.05)
    assert wandering_error([wandering.tolist()]) == pytest.approx(math.sqrt(3), abs=0.1)
    assert wandering_error([[2.0, 2.0], [3.0]], 0.25) == 0.25
