"""What lets a gate pass, against scipy's noncentral t and against simulations with fixed seeds."""

import math

import numpy as np
import pytest
from scipy import stats

from labconsole.measure.statistics.effects import fall_p, one_spread_effect, unpaired_effect
from labconsole.measure.statistics.gate_power import OccasionCounts, deciding_counts, passing_margin_ratio

MARGIN = 0.02


def effect_of(later: np.ndarray, baseline: np.ndarray):
    sides = [list(np.exp(side)) for side in (later, baseline)]
    return (unpaired_effect if min(map(len, sides)) >= 3 else one_spread_effect)(*sides)


@pytest.mark.parametrize(("baseline", "later"), [(3, 1), (5, 1), (9, 1), (5, 2)])
def test_the_margin_is_that_of_the_noncentral_t(baseline, later):
    effect = effect_of(*(0.01 * np.random.default_rng(many).standard_normal(many) for many in (later, baseline)))
    assert effect.error_log is not None and effect.degrees == baseline + later - 2
    margin = passing_margin_ratio(effect, is_spread_known=True)
    assert margin is not None
    limit = stats.t.ppf(0.95, effect.degrees)
    assert stats.nct.sf(limit, effect.degrees, math.log1p(margin) / effect.error_log) == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize(
    ("baseline", "later", "least", "most"),
    [(3, 1, 0.77, 0.84), (5, 1, 0.77, 0.84), (3, 3, 0.8, 0.93), (5, 3, 0.76, 0.9), (1, 3, 0.76, 0.9)],
)
def test_what_has_not_changed_passes_within_the_margin_in_eight_of_ten_cases(baseline, later, least, most):
    """The next change under test, against the same baseline."""
    rng, passed = np.random.default_rng(baseline + later), 0
    for _ in range(1500):
        before = 0.01 * rng.standard_normal(baseline)
        first, other = 0.01 * rng.standard_normal((2, later))
        margin = passing_margin_ratio(effect_of(first, before), is_spread_known=later == 1)
        assert margin is not None
        fall = fall_p(effect_of(other, before), margin)
        assert fall is not None
        passed += fall[1] <= 0.05
    assert least <= passed / 1500 <= most


def test_a_margin_without_a_spread_is_none():
    assert passing_margin_ratio(one_spread_effect([1.0], [1.0, 1.0, 1.0]), is_spread_known=True) is None


@pytest.mark.parametrize(
    ("sd_log", "least", "counts"),
    [
        (0.01, (5, 1), (5, 4)),
        (0.01, (3, 1), (5, 4)),
        (0.005, (3, 1), (4, 1)),
        (0.005, (9, 1), (9, 1)),
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
    assert deciding_counts(0.001, MARGIN, OccasionCounts(5, 1), least_error_log=0.005) == OccasionCounts(5, 1)
