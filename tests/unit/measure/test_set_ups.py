"""Means over set-ups: by hand, against scipy, and by simulation with a known truth."""

from __future__ import annotations

import math
import random

import numpy
import pytest
from scipy import stats

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups, set_up_means


def test_the_replicate_is_the_set_up():
    found = mean_over_set_ups({1: [10, 12], 2: [13, 13, 13], 3: [15, 15]})
    assert found.mean == pytest.approx(13)  # of 11, 13, 15: set-ups weigh alike
    assert found.sd == pytest.approx(2)
    reach = stats.t.ppf(0.975, 2) * 2 / math.sqrt(3)
    assert (found.ci_low, found.ci_high) == pytest.approx((13 - reach, 13 + reach))
    assert found.half_width == pytest.approx(reach)
    assert (found.set_ups, found.trials, found.scope) == (3, 7, "set-ups")
    assert (found.minimum, found.maximum, found.median) == (10, 15, 13)
    assert found.method == "student-t over set-ups"


@pytest.mark.parametrize("set_ups", [3, 9, 27])
def test_the_interval_over_set_ups_is_that_of_scipy(set_ups: int):
    rng = random.Random(set_ups)
    values = {b: [rng.gauss(100, 5) for _ in range(rng.randint(1, 4))] for b in range(set_ups)}
    found, means = mean_over_set_ups(values), [numpy.mean(trials) for trials in values.values()]
    expected = stats.t.interval(0.95, set_ups - 1, numpy.mean(means), stats.sem(means))
    assert (found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-9)
    assert set_up_means(values) == pytest.approx(dict(enumerate(means)))


def test_one_set_up_speaks_for_itself_only():
    found = mean_over_set_ups({"a": [9, 10, 11]})
    reach = stats.t.ppf(0.975, 2) / math.sqrt(3)
    assert (found.ci_low, found.ci_high) == pytest.approx((10 - reach, 10 + reach))
    assert (found.scope, found.method, found.sd) == ("this set-up only", "student-t within one set-up", 1)


@pytest.mark.parametrize(
    ("values", "mean", "sd", "method"),
    [
        ({1: [7]}, 7, None, "student-t within one set-up"),
        ({1: [7, 9]}, 8, math.sqrt(2), "student-t within one set-up"),
        ({1: [7] * 5, 2: [9, 9]}, 8, math.sqrt(2), "student-t over set-ups"),
    ],
)
def test_too_few_have_a_mean_and_no_interval(values, mean, sd, method):
    found = mean_over_set_ups(values)
    assert (found.mean, found.ci_low, found.ci_high, found.half_width) == (mean, None, None, None)
    assert found.scope == "too few" and found.method == method
    assert found.sd == (None if sd is None else pytest.approx(sd))


def test_a_set_up_without_values_does_not_count():
    assert mean_over_set_ups({1: [], 2: [5, 6, 7], 3: []}).scope == "this set-up only"
    assert set_up_means({1: [], 2: [5]}) == {2: 5}
    with pytest.raises(MeasurementError, match="no values"):
        mean_over_set_ups({1: []})


@pytest.mark.parametrize("value", [0.1, 1 / 49, 1e-170, 0.0])
def test_equal_values_have_an_interval_of_no_width(value: float):
    found = mean_over_set_ups({b: [value] * 7 for b in range(49)})
    assert (found.mean, found.sd, found.ci_low, found.ci_high) == (value, 0, value, value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 10**400, 1e200])
def test_what_is_not_a_number_is_refused(bad: float):
    for call in (mean_over_set_ups, set_up_means):
        with pytest.raises(MeasurementError, match="value 2 is .* not a finite number"):
            call({1: [1.0, 2.0], 2: [1, bad]})


@pytest.mark.parametrize(("set_ups", "repetitions"), [(3, 3), (5, 1), (9, 2)])
def test_the_interval_covers_as_often_as_it_says_where_set_ups_differ(set_ups: int, repetitions: int):
    rng = random.Random(11)

    def one() -> SetUpMean:
        values = {}
        for b in range(set_ups):
            centre = 100 * (1 + rng.gauss(0, 0.01))
            values[b] = [centre * (1 + rng.gauss(0, 0.005)) for _ in range(repetitions)]
        return mean_over_set_ups(values)

    found = [one() for _ in range(8000)]
    covered = sum(1 for f in found if f.ci_low <= 100 <= f.ci_high) / len(found)
    assert covered == pytest.approx(0.95, abs=0.01)
