"""How guests share one NIC, against rates whose answer is plain."""

from __future__ import annotations

import pytest

from labconsole.measure import fairness
from labconsole.measure.fairness import MarkedBins

S = 10**9


def test_whole_bins_lie_wholly_between_two_times():
    assert fairness.whole_bins(0, 10 * S, 0, S) == (0, 10)
    assert fairness.whole_bins(1, 10 * S - 1, 0, S) == (1, 9)
    assert fairness.whole_bins(5 * S + 1, 5 * S + 2, 0, S) == (6, 6), "none"
    assert fairness.whole_bins(100 * S, 103 * S, 98 * S, S) == (2, 5)


def test_attained_interference_and_spread():
    assert fairness.attained_ratio([9.0, 10.0, 11.0], 20.0) == 0.5
    assert fairness.attained_ratio([], 20.0) is None
    assert fairness.interference_ratio([100.0, 100.0], [80.0, 60.0]) == pytest.approx(0.3)
    assert fairness.interference_ratio([50.0], [60.0]) == pytest.approx(-0.2), "it gains"
    assert fairness.interference_ratio([0.0], [60.0]) is None
    assert fairness.spread_bps([1.0, 3.0]) == pytest.approx(2**0.5)
    assert fairness.spread_bps([1.0]) is None


def test_dominance_counts_stretches_of_one_guest_and_not_of_two_that_follow_each_other():
    first = [50.0, 95.0, 95.0, 5.0, 5.0, 5.0, 0.0, 50.0]
    second = [50.0, 5.0, 5.0, 95.0, 95.0, 95.0, 0.0, 50.0]
    found = fairness.dominance([first, second])
    assert found == MarkedBins(5, 7, 3), "bins in which nothing came are nobody's"
    assert fairness.dominance([first]) is None
    assert fairness.dominance([[90.0], [10.0]]) == MarkedBins(0, 1, 0), "more than 90 %"
    assert fairness.dominance([[0.0], [0.0]]) is None


def test_who_starves():
    rates = [[99.9, 50.0, 99.9, 99.9], [0.1, 50.0, 0.1, 0.1]]
    assert fairness.starvation(rates, 1) == MarkedBins(3, 4, 2)
    assert fairness.starvation(rates, 0) == MarkedBins(0, 4, 0)


def test_share_and_utilization():
    rates = [[75.0, 75.0], [25.0, 25.0]]
    assert fairness.share_ratio(rates, 0) == 0.75
    assert fairness.utilization_ratio(rates, 200.0) == 0.5
    assert fairness.utilization_ratio([], 200.0) is None


def test_what_a_disturbance_leaves_and_how_long_until_it_is_over():
    rates = [100.0] * 5 + [40.0] * 5 + [60.0, 90.0, 96.0, 100.0]
    assert fairness.during_ratio(rates, (0, 5), (5, 10)) == pytest.approx(0.4)
    assert fairness.recovery_bins(rates, (0, 5), 10) == 2
    assert fairness.recovery_bins(rates[:11], (0, 5), 10) is None
    assert fairness.during_ratio(rates, (0, 0), (5, 10)) is None


def test_weights_are_missed_by_the_mean_distance_of_the_shares():
    rates = [[80.0], [20.0]]
    assert fairness.weight_error(rates, (30, 10)) == pytest.approx(0.05)
    assert fairness.weight_error(rates, (4, 1)) == pytest.approx(0.0)
    assert fairness.weight_error(rates, (1,)) is None
    assert fairness.weight_error([[0.0], [0.0]], (1, 1)) is None
