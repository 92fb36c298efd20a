"""Components of the spread and the advice that rests on them: by hand, against an analysis of variance, by simulation."""

from __future__ import annotations

import math
import random

import numpy
import pytest
from scipy import stats

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.components import (
    Components,
    advise,
    components,
    pooled_components,
    set_ups_to_show,
    upper_variance_of_mean,
)
from labconsole.measure.statistics.effects import smallest_effect


def pilot(rng: random.Random, set_ups: int, repetitions: int, between: float, within: float) -> dict[int, list[float]]:
    found = {}
    for b in range(set_ups):
        centre = rng.gauss(0, between)
        found[b] = [1000 * math.exp(centre + rng.gauss(0, within)) for _ in range(repetitions)]
    return found


def test_components_by_hand():
    e = math.exp
    found = components({1: [e(1), e(3)], 2: [e(4), e(6)], 3: [e(8), e(8)]})
    assert found.variance_within == pytest.approx((2 + 2 + 0) / 3)
    assert found.variance_of_means == pytest.approx(9)  # of 2, 5, 8
    assert found.variance_between == pytest.approx(9 - 4 / 3 / 2)
    assert (found.set_ups, found.repetitions, found.points) == (3, 2, 1)


def test_components_are_those_of_an_analysis_of_variance():
    values = pilot(random.Random(1), 5, 4, 0.01, 0.02)
    found, logs = components(values), [numpy.log(trials) for trials in values.values()]
    f = stats.f_oneway(*logs).statistic  # mean square between over mean square within
    assert 4 * found.variance_of_means / found.variance_within == pytest.approx(f)


def test_a_negative_component_is_kept_and_the_mean_is_no_surer_for_it():
    e = math.exp
    found = components({b: [e(1), e(-1)] for b in range(4)})
    assert found.variance_between == pytest.approx(-1)
    for repetitions in (1, 2, 10):
        expected = (2 / repetitions) * 4 / stats.chi2.ppf(0.2, 4)
        assert upper_variance_of_mean(found, repetitions) == pytest.approx(expected), "T² is not below zero"


def test_points_of_a_platform_are_pooled_without_more_set_ups():
    one, other = Components(4.0, 10.0, 8.0, 5, 2.0), Components(2.0, 4.0, 3.0, 4, 2.0)
    assert pooled_components([one, other]) == Components(3.0, 7.0, 5.5, 4, 2.0, 2)
    with pytest.raises(MeasurementError, match="no components"):
        pooled_components([])


def test_advice_by_hand():
    found = Components(variance_within=9e-4, variance_of_means=5.5e-4, variance_between=1e-4, set_ups=10, repetitions=2)
    advice = advise(found, setup_s=90, trial_s=10, accuracy_ratio=0.02)
    low, high = (9e-4 * 10 / stats.chi2.ppf(share, 10) for share in (0.9, 0.2))
    seen = 5.5e-4 * 9 / stats.chi2.ppf(0.2, 9)
    bounds = {1: seen + high / 2} | {r: max(seen - (1 / 2 - 1 / r) * low, high / r) for r in range(2, 11)}

    def half_width(repetitions, set_ups):
        return stats.t.ppf(0.975, set_ups - 1) * math.sqrt(bounds[repetitions] / set_ups)

    needed = {r: next(s for s in range(3, 1000) if half_width(r, s) <= 0.02) for r in bounds}
    took_s, repetitions = min((s * (90 + r * 10), r) for r, s in needed.items())
    assert (advice.repetitions, advice.set_ups, advice.total_s) == (repetitions, needed[repetitions], took_s)
    assert 2 < repetitions < 10
    assert advice.variance_upper == pytest.approx(bounds[repetitions])
    assert advice.half_width_ratio == pytest.approx(half_width(repetitions, advice.set_ups))
    sd = math.sqrt(2 * bounds[repetitions])
    assert advice.smallest_effect_ratio == pytest.approx(smallest_effect(sd, advice.set_ups))


def test_where_a_set_up_costs_nothing_of_its_own_one_repetition_is_advised():
    """So it is of starts, whose guests are set up within the trial."""
    for between in (-2e-4, -1e-4, 0.0, 1e-4):
        for set_ups in (3, 6, 10):
            found = Components(4e-4, between + 2e-4, between, set_ups, 2)
            assert advise(found, 0.0, 10.0, 0.005).repetitions == 1
            assert advise(found, 200.0, 10.0, 0.005).repetitions > 1


def test_advice_never_goes_below_three_set_ups_or_beyond_what_can_be_done():
    quiet = advise(Components(1e-12, 1e-12, 5e-13, 3, 2), 30, 10, 0.05)
    assert (quiet.set_ups, quiet.repetitions) == (3, 1), "what three set-ups of one trial show needs no more"
    still = advise(Components(0.0, 0.0, 0.0, 3, 2), 30, 10, 0.05)
    assert (still.set_ups, still.repetitions, still.half_width_ratio, still.smallest_effect_ratio) == (3, 1, 0, None)
    assert advise(Components(1.0, 0.5, 5e-324, 40, 2), 1e6, 10, 0.1).repetitions == 10
    assert advise(Components(1.0, 0.25, -0.25, 40, 2), 0.0, 10, 0.021).repetitions == 2, "one takes too many set-ups"
    assert advise(Components(1e-6, 1.0, 1.0, 3, 2), 0.0, 10, 0.5).repetitions == 1
    with pytest.raises(MeasurementError, match="more than 10000 set-ups"):
        advise(Components(1.0, 1.0, 0.5, 3, 2), 30, 10, 1e-4)
    with pytest.raises(ValueError, match="above zero"):
        advise(Components(1.0, 1.0, 0.5, 3, 2), 30, 10, 0)


def test_more_repetitions_never_make_a_mean_less_sure():
    """Plans take the most repetitions and the most set-ups that any of their configurations needs."""
    low, high = (10 / stats.chi2.ppf(share, 10) for share in (0.9, 0.2))
    for between in (-3e-4, 0.0, 1e-4, 5e-4):
        found = Components(9e-4, between + 9e-4 / 3, between, 5, 3)
        bounds = [upper_variance_of_mean(found, repetitions) for repetitions in range(1, 11)]
        assert bounds == sorted(bounds, reverse=True)
        seen = (between + 9e-4 / 3) * 4 / stats.chi2.ppf(0.2, 4)
        assert bounds[0] == pytest.approx(max(seen + 9e-4 * high * (1 - 1 / 3), 9e-4 * high))
        assert bounds[2] == pytest.approx(max(seen, 9e-4 * high / 3))
        assert bounds[9] == pytest.approx(max(seen - 9e-4 * low * (1 / 3 - 1 / 10), 9e-4 * high / 10))


def test_what_shows_a_change_is_unknown_where_nothing_varied():
    assert set_ups_to_show(0.01, 1e-12) == 3
    assert set_ups_to_show(0.01, 1.0) is None, "more than 10 000"
    with pytest.raises(ValueError, match="above zero"):
        set_ups_to_show(0.01, 0.0)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0, 4.0])
def test_four_of_five_pilots_bound_the_variance_at_the_repetitions_that_they_advise(share):
    """Of pilots of two repetitions, whose T² is this share of s_w²: also where more are advised than they have."""
    rng = numpy.random.default_rng(4)
    covered = {}
    for set_ups in (3, 6, 10):
        between = (share + 1 / 2) * rng.chisquare(set_ups - 1, 400) / (set_ups - 1)
        within = rng.chisquare(set_ups, 400) / set_ups
        for cost in (0.0, 4.0, 20.0):
            advices = [
                advise(Components(w, b, b - w / 2, set_ups, 2), cost, 1.0, 0.5)
                for b, w in zip(between.tolist(), within.tolist(), strict=True)
            ]
            right = [advice.variance_upper >= share + 1 / advice.repetitions for advice in advices]
            covered[set_ups, cost] = numpy.mean(right)
    assert min(covered.values()) >= 0.75, covered  # of 400: 0.8 less 2.5 standard errors
    assert numpy.mean([*covered.values()]) >= 0.79


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({1: [1, 2], 2: [1, 2]}, "need 3 set-ups, there are 2"),
        ({1: [1, 2], 2: [1, 2], 3: [1]}, "need 2 repetitions in each set-up, one has 1"),
        ({1: [1, 2], 2: [1, 2], 3: [1, 0]}, "a value is zero or less"),
        ({}, "there are 0"),
    ],
)
def test_too_little_is_refused_with_words(values, words):
    with pytest.raises(MeasurementError, match=words):
        components(values)


def test_advice_from_too_little_is_refused():
    for parts in (Components(1.0, 1.0, 0.5, 2, 3), Components(1.0, 1.0, 0.5, 5, 1)):
        with pytest.raises(MeasurementError, match="advice needs 3 stored set-ups of 2 repetitions"):
            advise(parts, 30, 10, 0.1)


def test_components_are_right_on_average_and_four_of_five_plans_get_their_accuracy():
    rng = random.Random(3)
    between, within = 0.01, 0.02
    found = [components(pilot(rng, 4, 3, between, within)) for _ in range(4000)]
    assert numpy.mean([f.variance_between for f in found]) == pytest.approx(between**2, rel=0.05)
    assert numpy.mean([f.variance_within for f in found]) == pytest.approx(within**2, rel=0.03)
    enough = 0
    for parts in found[:1500]:
        advice = advise(parts, 30, 10, 0.01)
        truth = between**2 + within**2 / advice.repetitions
        enough += stats.t.ppf(0.975, advice.set_ups - 1) * math.sqrt(truth / advice.set_ups) <= 0.01
    assert 0.75 <= enough / 1500 <= 0.9
