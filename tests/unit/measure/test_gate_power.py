"""What lets a gate pass, against scipy's noncentral t and against simulations with fixed seeds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from labconsole.measure.statistics.effects import (
    equivalence_p,
    fall_p,
    find_detectable_effect,
    one_spread_effect,
    unpaired_effect,
    word,
)
from labconsole.measure.statistics.gate_power import (
    OccasionCounts,
    deciding_counts,
    passing_margin_ratio,
)

MARGIN = 0.02


def effect_of(later: np.ndarray, baseline: np.ndarray):
    sides = [list(np.exp(side)) for side in (later, baseline)]
    return (unpaired_effect if min(map(len, sides)) >= 3 else one_spread_effect)(*sides)


@pytest.mark.parametrize(("baseline", "later"), [(6, 1), (9, 1), (20, 1)])
def test_the_margin_is_that_of_the_noncentral_t(baseline, later):
    effect = effect_of(*(0.01 * np.random.default_rng(many).standard_normal(many) for many in (later, baseline)))
    assert effect.error_log is not None and effect.degrees == baseline + later - 2
    margin = passing_margin_ratio(effect, OccasionCounts(baseline, later))
    assert margin is not None
    limit = max(stats.t.ppf(0.95, effect.degrees), math.sqrt(19))
    assert stats.nct.sf(limit, effect.degrees, math.log1p(margin) / effect.error_log) == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize(
    ("baseline", "later", "least", "most"),
    [(6, 1, 0.77, 0.89), (9, 1, 0.77, 0.84), (3, 3, 0.8, 0.93), (5, 3, 0.76, 0.9), (1, 6, 0.76, 0.9)],
)
def test_what_has_not_changed_passes_within_the_margin_in_eight_of_ten_cases(baseline, later, least, most):
    """The next change under test, against the same baseline."""
    rng, passed, counts = np.random.default_rng(baseline + later), 0, OccasionCounts(baseline, later)
    for _ in range(1500):
        before = 0.01 * rng.standard_normal(baseline)
        first, other = 0.01 * rng.standard_normal((2, later))
        margin = passing_margin_ratio(effect_of(first, before), counts)
        assert margin is not None
        fall = fall_p(effect_of(other, before), margin)
        assert fall is not None
        passed += fall[1] <= 0.05
    assert least <= passed / 1500 <= most


def test_a_margin_without_a_spread_is_none():
    assert passing_margin_ratio(one_spread_effect([1.0], [1.0] * 6), OccasionCounts(6, 1)) is None


def test_a_single_occasion_differs_by_so_many_errors_as_no_distribution_often_shows():
    """Cantelli: of a distribution of two values, k and 1 / k deviations from the mean, 1 in 1 + k² lies at the first."""
    before = np.array([0.01, -0.01, 0.012, -0.012, 0.008, -0.008])
    limit = math.sqrt(1 / 0.05 - 1)
    for errors, worse in ((-1.01 * limit, True), (-0.99 * limit, False)):
        plain = effect_of(np.array([0.0]), before)
        assert plain.error_log is not None
        effect = effect_of(np.array([errors * plain.error_log - math.log1p(MARGIN)]), before)
        found, plainly = fall_p(effect, MARGIN), fall_p(replace(effect, others_of_single=None), MARGIN)
        assert found is not None and plainly is not None
        assert (found[0] <= 0.05, plainly[0] <= 0.01) == (worse, True)
        assert found[0] == pytest.approx(1 / (1 + errors**2), rel=1e-6) and found[1] == 1


def test_compared_with_a_single_occasion_a_difference_holds_for_any_distribution():
    """Chebyshev: at most 1 in k² values lies k deviations or more from the mean, in either direction."""
    before = np.array([0.01, -0.01, 0.012, -0.012, 0.008, -0.008])
    plain = effect_of(np.array([0.0]), before)
    assert plain.error_log is not None and plain.degrees is not None
    limit = math.sqrt(1 / 0.05)
    for errors, different in ((1.01 * limit, True), (-1.01 * limit, True), (0.99 * limit, False)):
        effect = effect_of(np.array([errors * plain.error_log]), before)
        assert effect.p == pytest.approx(1 / errors**2, rel=1e-6)
        assert effect.ci_low is not None and effect.ci_high is not None
        assert (effect.p <= 0.05) == different == (not effect.ci_low <= 0 <= effect.ci_high)
        # One-sided at 5 % each way, so that the 90 % interval and the two tests agree.
        for margin in (0.05, 0.1, 0.2):
            inside = math.log1p(effect.ci90_high) <= math.log1p(margin) and -math.log1p(margin) <= math.log1p(
                effect.ci90_low
            )
            assert (equivalence_p(effect, margin) <= 0.05) == inside
    tail = stats.t.sf(limit, plain.degrees)
    detectable = find_detectable_effect(plain)
    assert detectable is not None
    shown = math.log1p(detectable) / plain.error_log
    assert stats.nct.sf(stats.t.isf(tail, plain.degrees), plain.degrees, shown) == pytest.approx(0.8, abs=1e-3)


def test_with_fewer_than_six_others_a_single_occasion_shows_no_difference():
    effect = one_spread_effect([1.5], [1.0, 1.01, 0.99, 1.02, 0.98])
    assert effect.change == pytest.approx(0.5, abs=0.01) and effect.others_of_single == 5
    assert (effect.p, effect.ci_low, effect.ci90_high, equivalence_p(effect, 0.02)) == (None,) * 4
    assert find_detectable_effect(effect) is None and word(effect.p, None) == "no claim"
    assert one_spread_effect([1.5], [1.0, 1.01, 0.99, 1.02, 0.98, 1.0]).p is not None


@pytest.mark.parametrize(
    ("counts", "enough"), [((5, 1), False), ((6, 1), True), ((1, 3), False), ((3, 2), True), ((2, 2), False)]
)
def test_one_occasion_is_judged_beside_six(counts, enough):
    assert OccasionCounts(*counts).are_enough is enough
    if not enough:
        effect = one_spread_effect([1.0], [1.0, 1.01, 0.99])
        assert passing_margin_ratio(effect, OccasionCounts(*counts)) is None


@pytest.mark.parametrize(
    ("sd_log", "least", "counts"),
    [
        (0.01, (5, 1), (5, 4)),
        (0.01, (3, 1), (5, 4)),
        (0.005, (3, 1), (3, 2)),
        (0.005, (9, 1), (9, 2)),
        (0.003, (5, 1), (6, 1)),
        (0.02, (5, 1), (14, 13)),
        (0.01, (1, 3), (5, 4)),
        (0.2, (5, 1), None),
    ],
)
def test_the_fewest_occasions_that_decide(sd_log, least, counts):
    found = deciding_counts(sd_log, MARGIN, OccasionCounts(*least))
    assert found == (None if counts is None else OccasionCounts(*counts))


@pytest.mark.parametrize("sd", [0.006, 0.01, 0.015])
def test_with_as_many_occasions_what_has_not_changed_passes_in_eight_of_ten_cases(sd):
    counts = deciding_counts(sd, MARGIN, OccasionCounts(3, 1))
    assert counts is not None
    rng, passed = np.random.default_rng(7), 0
    for _ in range(2000):
        fall = fall_p(effect_of(*(sd * rng.standard_normal(many) for many in (counts.later, counts.baseline))), MARGIN)
        assert fall is not None
        passed += fall[1] <= 0.05
    assert 0.77 <= passed / 2000 <= 0.9


def test_no_number_of_occasions_takes_away_what_all_have_in_common():
    assert deciding_counts(0.001, MARGIN, OccasionCounts(5, 1), least_error_log=0.01) is None
    assert deciding_counts(0.001, MARGIN, OccasionCounts(5, 1), least_error_log=0.005) == OccasionCounts(5, 2)
