"""Statistics of repetitions: against scipy, against simulation with a known truth, and where values say too little."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labconsole.errors import MeasurementError
from labconsole.measure.statistics import repetitions as own

NEAR = 1e-9


def samples(seed: int, n: int, mean: float = 100.0, sd: float = 5.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(mean, sd) for _ in range(n)]


# --- against scipy


@pytest.mark.parametrize(
    "degrees", [1, 1.0001, 1.5, 2, 2.7, 8, 8.31, 15.999, 100.5, 4999.5, 5000.5, 1e5, 1e9, math.inf]
)
@pytest.mark.parametrize("probability", [1e-10, 0.001, 0.025, 0.2, 0.4999, 0.5, 0.75, 0.95, 0.975, 0.9999])
def test_quantiles_are_those_of_scipy(degrees: float, probability: float):
    expected = stats.t.ppf(probability, degrees)
    assert own.student_t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("bad", [(0.0, 5), (1.0, 5), (math.nan, 5), (0.5, 0.99), (0.5, math.nan), (-1, 5)])
def test_a_quantile_that_does_not_exist_is_refused(bad: tuple[float, float]):
    with pytest.raises(ValueError):
        own.student_t_quantile(*bad)


@pytest.mark.parametrize("n", [3, 4, 9, 50])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_of_a_mean_is_that_of_scipy(n: int, level: float):
    values = samples(n, n)
    found = own.summarize(values, level)
    low, high = stats.t.interval(level, n - 1, numpy.mean(values), stats.sem(values))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), rel=NEAR)
    assert (found.mean, found.sd) == pytest.approx((numpy.mean(values), numpy.std(values, ddof=1)))
    assert (found.minimum, found.maximum, found.median) == (min(values), max(values), numpy.median(values))
    assert found.ci_level == level and found.n == n


@pytest.mark.parametrize("sizes", [(3, 3), (9, 9), (3, 9), (30, 4)])
@pytest.mark.parametrize("sd", [0.001, 5.0, 50.0])
def test_a_difference_is_welchs_of_scipy(sizes: tuple[int, int], sd: float):
    a, b = samples(1, sizes[0], 103), samples(2, sizes[1], 100, sd)
    found = own.difference(a, b)
    welch = stats.ttest_ind(a, b, equal_var=False)
    interval = welch.confidence_interval()
    assert (found.ci_low, found.ci_high) == pytest.approx((interval.low, interval.high), rel=NEAR)
    assert found.degrees == pytest.approx(welch.df)
    assert found.detectable == (welch.pvalue < 0.05)


def test_order_is_the_regression_on_position_with_a_level_for_each_point():
    points = [point for _ in range(5) for point in range(3)]
    values = [
        100 * point + 0.7 * i + noise for i, (point, noise) in enumerate(zip(points, samples(4, 15), strict=True))
    ]
    found = own.order_effect(range(15), values, points)
    design = numpy.column_stack([range(15), *[[float(p == point) for p in points] for point in range(3)]])
    solution, residual, *_ = numpy.linalg.lstsq(design, numpy.array(values), rcond=None)
    error = math.sqrt(residual[0] / (15 - 4) * numpy.linalg.inv(design.T @ design)[0, 0])
    reach = stats.t.ppf(0.975, 15 - 4) * error
    assert found.degrees == 11
    assert (found.slope_per_position, found.ci_low, found.ci_high) == pytest.approx(
        (solution[0], solution[0] - reach, solution[0] + reach), rel=1e-7
    )
    assert found.change == pytest.approx(14 * solution[0])


def test_fiellers_bounds_are_where_welchs_interval_of_a_minus_ratio_times_b_touches_zero():
    a, b = samples(5, 9, 90, 4), samples(6, 9, 100, 8)
    found = own.ratio(a, b)
    assert found.ci_low is not None and found.ci_high is not None and found.absent is None
    degrees = stats.ttest_ind(a, [found.value * x for x in b], equal_var=False).df
    for bound in (found.ci_low, found.ci_high):
        distance = abs(numpy.mean(a) - bound * numpy.mean(b))
        error = math.hypot(stats.sem(a), bound * stats.sem(b))
        assert distance / error == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-7)


# --- against a known truth: 95 of 100 intervals hold it


def coverage(trials: int, covers: Callable[[random.Random], bool]) -> float:
    rng = random.Random(20)
    return sum(covers(rng) for _ in range(trials)) / trials


def gauss(rng: random.Random, n: int, mean: float, sd: float) -> list[float]:
    return [rng.gauss(mean, sd) for _ in range(n)]


@pytest.mark.parametrize("n", [3, 9])
def test_the_interval_of_a_mean_covers_as_often_as_it_says(n: int):
    def covers(rng: random.Random) -> bool:
        found = own.summarize(gauss(rng, n, 100, 5))
        return found.ci_low is not None and found.ci_high is not None and found.ci_low <= 100 <= found.ci_high

    assert coverage(8000, covers) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(("sizes", "sds"), [((9, 9), (1, 10)), ((5, 9), (3, 1))])
def test_the_intervals_of_difference_and_ratio_cover_as_often_as_they_say(sizes, sds):
    def of_difference(rng: random.Random) -> bool:
        found = own.difference(gauss(rng, sizes[0], 100, sds[0]), gauss(rng, sizes[1], 90, sds[1]))
        return found.ci_low <= 10 <= found.ci_high

    def of_ratio(rng: random.Random) -> bool:
        found = own.ratio(gauss(rng, sizes[0], 100, sds[0]), gauss(rng, sizes[1], 90, sds[1]))
        return found.ci_low <= 100 / 90 <= found.ci_high

    assert coverage(5000, of_difference) == pytest.approx(0.95, abs=0.01)
    assert coverage(5000, of_ratio) == pytest.approx(0.95, abs=0.01)


def test_the_interval_of_a_slope_covers_as_often_as_it_says():
    def covers(rng: random.Random) -> bool:
        found = own.order_effect(range(9), [value + 0.3 * i for i, value in enumerate(gauss(rng, 9, 5, 1))])
        return found.ci_low <= 0.3 <= found.ci_high

    assert coverage(5000, covers) == pytest.approx(0.95, abs=0.01)


def test_few_clean_samples_are_said_to_hold_an_outlier():
    assert coverage(2000, lambda rng: bool(own.outliers(gauss(rng, 9, 0, 1)))) < 0.09


# --- where values say too little


def test_no_values_have_no_summary():
    for call in (lambda: own.summarize([]), lambda: own.difference([], [1]), lambda: own.ratio([1, 2, 3], [])):
        with pytest.raises(MeasurementError, match="no values"):
            call()


def test_one_and_two_values_have_a_mean_and_no_interval():
    one, two = own.summarize([7]), own.summarize([7, 9])
    assert (one.mean, one.median, one.sd, one.ci_low, one.ci_high, one.half_width) == (7, 7, None, None, None, None)
    assert (two.mean, two.ci_low, two.ci_high) == (8, None, None)
    assert two.sd == pytest.approx(math.sqrt(2))


def test_two_values_a_side_are_too_few_to_tell_which_is_not_no_difference():
    found = own.difference([1, 2], [50, 51, 52])
    assert (found.mean, found.ci_low, found.degrees, found.detectable) == (-49.5, None, None, None)
    assert found.finding == "too few values"
    assert own.ratio([1, 2], [50, 51, 52]).absent == "too few values"


def test_equal_values_have_an_interval_of_no_width():
    found = own.summarize([0.1] * 9)
    assert (found.sd, found.ci_low, found.ci_high) == (0, 0.1, 0.1)
    same, other = own.difference([0.1] * 3, [0.1] * 4), own.difference([5, 5, 5], [4, 4, 4])
    assert (same.mean, same.detectable, same.finding) == (0, False, "no detectable difference")
    assert (other.ci_low, other.ci_high, other.degrees, other.detectable) == (1, 1, None, True)
    assert other.finding == "difference"
    assert own.ratio([5] * 3, [4] * 3) == own.Ratio(1.25, 1.25, 1.25)


def test_one_side_without_deviation_leaves_the_degrees_of_the_other():
    assert own.difference([5, 5, 5, 5], [1, 2, 3]).degrees == pytest.approx(2)


def test_a_baseline_that_may_be_zero_has_no_interval():
    assert own.ratio([1, 2, 3], [0, 0, 0]) == own.Ratio(None, None, None, "baseline is zero")
    found = own.ratio([1, 2, 3], [-3, 1, 4])
    assert found.value == pytest.approx(3) and found.ci_low is None and found.absent == "baseline may be zero"
    assert own.ratio([0, 0, 0], [4, 5, 6]).value == 0


def test_points_are_compared_with_themselves_only():
    rising = own.order_effect([0, 1, 2, 3], [1, 1, 900, 900], ["small", "small", "large", "large"])
    assert (rising.slope_per_position, rising.detectable, rising.finding) == (0, False, "no detectable trend")
    alone = own.order_effect([0, 1], [1, 900], ["small", "large"])
    assert (alone.slope_per_position, alone.values_used, alone.values_left_out) == (None, 0, 2)
    assert own.order_effect([], []).finding == "too few values"


def test_a_relative_order_effect_weighs_slow_and_fast_points_alike():
    values = [100, 1000, 90, 900, 80, 800]
    found = own.order_effect(range(6), values, ["slow", "fast"] * 3, relative=True)
    assert found.change is not None and found.change < -0.2 and found.detectable
    zero = own.order_effect(range(6), [0] * 6, ["slow", "fast"] * 3, relative=True)
    assert (zero.slope_per_position, zero.values_left_out) == (None, 6)


def test_outliers_do_not_hide_each_other():
    clean = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98]
    assert own.outliers(clean) == []
    assert own.outliers([*clean, 20.0, 20.5]) == [7, 8]
    assert own.outliers([0, 0, 0, 0, 5, 0, 0, 0, 0]) == [4]
    assert own.outliers([0, 0, 0, 0, 5, 5, 5, 0, 0]) == []
    assert own.outliers([1, 1, 1, 1, 1, 50]) == []


def test_outliers_are_those_of_the_handbooks_example():
    rosner = """-0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77 1.81
    1.91 1.94 1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64 2.90 2.92 2.92 2.93
    3.21 3.26 3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01"""
    assert own.outliers([float(word) for word in rosner.split()]) == [51, 52, 53]


def test_fairness_goes_from_one_who_has_all_to_all_who_have_the_same():
    assert own.jain_index([5, 0, 0, 0]) == pytest.approx(0.25)
    assert own.jain_index([3, 3, 3]) == pytest.approx(1)
    assert own.jain_index([]) is None and own.jain_index([0, 0]) is None
    assert own.jain_index([1e150, 1e150]) == pytest.approx(1)
    with pytest.raises(MeasurementError):
        own.jain_index([1, -1])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 10**400, 1e200])
def test_what_is_not_a_number_is_refused_wherever_it_is(bad: float):
    good = [1.0, 2.0, 3.0]
    for call in (
        lambda: own.summarize([1, bad]),
        lambda: own.difference(good, [*good, bad]),
        lambda: own.ratio([*good, bad], good),
        lambda: own.order_effect([1, bad, 3], good),
        lambda: own.order_effect(good, [1, bad, 3]),
        lambda: own.outliers([bad]),
        lambda: own.jain_index([bad]),
    ):
        with pytest.raises(MeasurementError, match="not a finite number"):
            call()


def test_sides_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="2 positions for 3 values"):
        own.order_effect([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="1 points for 2 values"):
        own.order_effect([1, 2], [1, 2], ["a"])
    with pytest.raises(ValueError, match="confidence level"):
        own.summarize([1, 2, 3], level=1)


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=100, deadline=None)
@given(a=st.lists(finite, min_size=1, max_size=12), b=st.lists(finite, min_size=1, max_size=12))
def test_any_numbers_give_numbers_or_one_sentence(a: list[float], b: list[float]):
    n = min(len(a), len(b))
    for call in (
        lambda: own.summarize(a),
        lambda: own.difference(a, b),
        lambda: own.ratio(a, b),
        lambda: own.order_effect(a[:n], b[:n]),
        lambda: own.order_effect(range(len(a)), a, relative=True),
        lambda: own.outliers(a) or None,
    ):
        try:
            found = call()
        except MeasurementError:
            continue
        numbers = [] if found is None or isinstance(found, list) else [getattr(found, name) for name in found.__slots__]
        assert all(math.isfinite(x) for x in numbers if isinstance(x, float)), found
        low, high = getattr(found, "ci_low", None), getattr(found, "ci_high", None)
        assert low is None or low <= high
