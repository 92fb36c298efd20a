"""Intervals of a loss: by hand, at the ends of the scale, and their coverage by simulation with a known truth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.bounded_means import loss_of_trials, loss_over_set_ups, loss_within_set_up


def test_the_bounds_are_where_the_score_equation_holds():
    lost, offered = [40, 55, 90, 47], [1000, 1010, 990, 1000]
    n, p = 4000, 232 / 4000
    variance = 4 / 3 * sum((x - p * of) ** 2 for x, of in zip(lost, offered, strict=True)) / n**2
    effect = variance * n / (p * (1 - p))
    found = loss_over_set_ups(lost, offered)
    assert found.ratio == p and found.design_effect == pytest.approx(effect)
    t = stats.t.ppf(0.975, 3)
    for bound, start in ((found.low, 0.0), (found.high, 1.0)):
        root = optimize.brentq(lambda q: (p - q) ** 2 - t * t * effect * q * (1 - q) / n, p, start, xtol=1e-15)
        assert bound == pytest.approx(root, rel=1e-9)
    assert (found.lost_packets, found.offered_packets, found.set_ups, found.method) == (232, 4000, 4, "over set-ups")
    assert (found.upper_if_none_lost, found.upper_share_of_lossy_trials) == (None, None)


def test_none_lost_is_not_known_to_be_nothing():
    found = loss_over_set_ups([0, 0, 0], [14_205] * 3, [False] * 9)
    assert found.upper_if_none_lost == pytest.approx(7.03e-5, abs=1e-7)
    assert found.upper_share_of_lossy_trials == pytest.approx(0.283, abs=1e-3)
    assert (found.ratio, found.low) == (0, 0)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 42_615))
    three = loss_over_set_ups([0, 0, 0], [14_205] * 3, [False] * 3)
    assert three.upper_share_of_lossy_trials == pytest.approx(0.63, abs=0.002)
    assert loss_over_set_ups([0, 0, 0], [14_205] * 3).upper_share_of_lossy_trials is None


def test_all_lost_is_the_mirror_of_none_lost():
    none, full = loss_over_set_ups([0] * 3, [500] * 3), loss_over_set_ups([500] * 3, [500] * 3)
    assert full.ratio == full.high == 1
    assert full.low == pytest.approx(1 - none.high, abs=1e-15)
    assert full.upper_if_none_lost is None


def test_few_lost_evenly_are_no_evidence_of_less_scatter_than_chance():
    assert loss_over_set_ups([4, 4, 4], [1000] * 3).design_effect == 1
    assert loss_over_set_ups([5, 5, 5], [1000] * 3).design_effect == 0
    assert loss_over_set_ups([996, 996, 996], [1000] * 3).design_effect == 1
    evenly = loss_over_set_ups([5, 5, 5], [1000] * 3)
    assert (evenly.low, evenly.high) == pytest.approx((14 / 3000, 16 / 3000))  # no closer than one packet


def test_a_billion_packets_keep_their_digits():
    found = loss_over_set_ups([3, 0, 10], [10**9] * 3)
    assert found.ratio == pytest.approx(13 / 3e9) and 0 < found.low < 1e-9 < found.high < 1e-7
    mirrored = loss_over_set_ups([10**9 - 3, 10**9, 10**9 - 10], [10**9] * 3)
    assert mirrored.low == pytest.approx(1 - found.high, abs=1e-15)
    assert mirrored.high == pytest.approx(1 - found.low, abs=1e-15)
    assert loss_over_set_ups([500_000_000] * 3, [10**9] * 3).design_effect == 0


def test_the_packets_of_two_set_ups_do_not_tell_how_set_ups_scatter():
    found = loss_over_set_ups([10_000, 50_000], [10**6] * 2)
    assert (found.ratio, found.low, found.high, found.method) == (0.03, None, None, "over set-ups")
    for lost in (0, 1000):  # none and all of each
        end = loss_over_set_ups([lost] * 2, [1000] * 2)
        assert (end.ratio, end.low, end.high) == (lost / 1000, None, None)


def test_below_three_trials_the_bounds_are_about_these_packets():
    found = loss_within_set_up([3, 5], [1000, 1000])
    tail = stats.beta.ppf(0.025, 8, 1993), stats.beta.isf(0.025, 9, 1992)
    assert (found.low, found.high) == pytest.approx(tail)
    assert (found.method, found.design_effect) == ("of this run", None)
    alone = loss_within_set_up([3, 5, 4], [1000] * 3)
    assert (alone.method, alone.set_ups) == ("this set-up only", 1)
    assert (alone.low, alone.high) == (
        loss_over_set_ups([3, 5, 4], [1000] * 3).low,
        loss_over_set_ups([3, 5, 4], [1000] * 3).high,
    )
    assert loss_within_set_up([3], [1000]).method == "of this run"


def test_trials_are_taken_in_the_form_that_their_number_allows():
    three = loss_of_trials({b: [(1, 100), (2, 100)] for b in range(3)})
    assert (three.method, three.lost_packets, three.offered_packets, three.set_ups) == ("over set-ups", 9, 600, 3)
    one = loss_of_trials({7: [(0, 100)] * 4, 8: []})
    assert (one.method, one.set_ups) == ("this set-up only", 1)
    assert one.upper_share_of_lossy_trials == pytest.approx(1 - 0.05**0.25)
    assert loss_of_trials({1: [(1, 100)] * 9, 2: [(1, 100)] * 9}).low is None
    assert loss_of_trials({1: [(1, 100)] * 2}).method == "of this run"
    assert loss_of_trials({}).method == "nothing offered"


def test_nothing_offered_has_no_loss_and_a_set_up_without_packets_is_none():
    found = loss_over_set_ups([0, 0], [0, 0])
    assert (found.ratio, found.low, found.high, found.method) == (None, None, None, "nothing offered")
    assert loss_over_set_ups([1, 2, 0], [100, 100, 0]).low is None
    assert loss_over_set_ups([1, 0, 0], [100, 0, 0]).method == "of this run"


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(MeasurementError, match="-1 of 10 packets cannot have been lost"):
        loss_over_set_ups([-1], [10])
    with pytest.raises(MeasurementError, match="11 of 10 packets"):
        loss_over_set_ups([11], [10])
    with pytest.raises(ValueError, match="2 counts lost for 1 offered"):
        loss_over_set_ups([1, 2], [10])


pairs = st.integers(1, 10**9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(max_examples=200, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=9))
def test_bounds_are_ratios_about_the_ratio_and_never_closer_than_a_packet(counts):
    found = loss_over_set_ups([x for x, _ in counts], [n for _, n in counts])
    p, step = Fraction(found.lost_packets, found.offered_packets), 1 / found.offered_packets
    if len(counts) == 2:
        assert (found.low, found.high) == (None, None)
        return
    assert 0 <= found.low <= found.ratio <= found.high <= 1
    if len(counts) >= 3:
        assert found.low <= max(p - step, 0) + 1e-15 and found.high >= min(p + step, 1) - 1e-15


# --- against a known truth


def coverage(rng, p: float, set_ups: int, expected_each: float, variation: float, reports: int) -> float:
    """Share of intervals that hold the truth; ``variation``: of the set-ups' own loss (beta-binomial)."""
    n = max(1, round(expected_each / p))
    truth = numpy.full((reports, set_ups), p)
    if variation:
        weight = (1 - p) / (p * variation**2) - 1
        truth = rng.beta(p * weight, (1 - p) * weight, size=(reports, set_ups))
    held = 0
    for lost in rng.binomial(n, truth).tolist():
        found = loss_over_set_ups(lost, [n] * set_ups)
        held += found.low <= p <= found.high
    return held / reports


@pytest.mark.parametrize("variation", [0.0, 0.3])
@pytest.mark.parametrize("set_ups", [3, 5, 9, 27])
def test_95_of_100_intervals_hold_the_truth_where_ten_are_lost_in_each_set_up(set_ups: int, variation: float):
    rng = numpy.random.default_rng(set_ups)
    reports = 3000
    noise = 2.6 * math.sqrt(0.95 * 0.05 / reports)
    for p in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5):
        for expected in (10, 100):
            found = coverage(rng, p, set_ups, expected, variation, reports)
            assert 0.945 - noise < found < 0.96 + noise, (p, expected, found)


@pytest.mark.parametrize("variation", [0.0, 0.3])
@pytest.mark.parametrize("set_ups", [3, 5, 9, 27])
def test_93_or_more_do_where_fewer_are_lost(set_ups: int, variation: float):
    rng = numpy.random.default_rng(set_ups)
    for p in (1e-6, 1e-3, 0.1):
        for in_all in (0.1, 0.5, 0.96, 3.05, 3.75, 12, 4 * set_ups):
            found = coverage(rng, p, set_ups, in_all / set_ups, variation, 2000)
            assert found > 0.93 - 0.005, (p, in_all, found)
