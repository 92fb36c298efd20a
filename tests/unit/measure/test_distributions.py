"""Distributions against scipy, over wide ranges, and against exact arithmetic where scipy itself is not exact."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext

import pytest
from scipy import stats

from labconsole.measure.statistics import distributions as own
from labconsole.measure.statistics.distributions import incomplete_beta, incomplete_gamma, student_t_quantile

DEGREES = [1.0, 1.3, 2.0, 2.7, 4.0, 8.0, 8.31, 26.0, 100.0, 1000.0, 1e5]


def test_the_quantile_of_t_is_the_one_that_has_long_been_there():
    assert own.student_t_quantile is student_t_quantile
    assert own.normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975), rel=1e-12)


@pytest.mark.parametrize("degrees", [*DEGREES, math.inf])
@pytest.mark.parametrize("x", [-1e6, -40.0, -3.0, -1.0, -1e-3, 0.0, 0.2, 2.0, 12.7, 1e4])
def test_shares_of_t_are_those_of_scipy(x: float, degrees: float):
    assert own.student_t_cdf(x, degrees) == pytest.approx(stats.t.cdf(x, degrees), rel=1e-10, abs=1e-250)


@pytest.mark.parametrize("degrees", DEGREES)
def test_a_share_of_t_and_its_quantile_belong_together(degrees: float):
    for p in (1e-9, 0.01, 0.3, 0.5, 0.9, 0.999):
        assert own.student_t_cdf(student_t_quantile(p, degrees), degrees) == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize("degrees", DEGREES)
def test_shares_of_noncentral_t_are_those_of_scipy(degrees: float):
    rng = random.Random(degrees)
    compared = 0
    for _ in range(150):
        x, delta = rng.gauss(0, 1) * 10 ** rng.uniform(-1, 2), rng.gauss(0, 1) * 10 ** rng.uniform(-1, 1.5)
        expected = stats.nct.cdf(x, degrees, delta)
        if math.isfinite(expected):  # scipy gives up in the far tails
            assert own.noncentral_t_cdf(x, degrees, delta) == pytest.approx(expected, abs=1e-9)
            compared += 1
    assert compared > 75


@pytest.mark.parametrize("degrees", [1.5, 2.0, 4.0, 50.0])
def test_noncentral_t_without_a_shift_is_students(degrees: float):
    for x in (-30.0, -2.0, 0.0, 0.1, 4.3, 100.0):
        assert own.noncentral_t_cdf(x, degrees, 0.0) == pytest.approx(own.student_t_cdf(x, degrees), abs=1e-11)


def test_noncentral_t_goes_on_where_scipy_gives_up():
    # Two degrees: chi-square over them is exponential, so that a large shift leaves P(s > delta / x).
    assert own.noncentral_t_cdf(500.0, 2.0, 567.0) == pytest.approx(math.exp(-((567 / 500) ** 2)), rel=2e-5)
    assert own.noncentral_t_cdf(-3.0, 20.0, 60.0) == 0.0
    assert own.noncentral_t_cdf(3.0, 20.0, -60.0) == 1.0


@pytest.mark.parametrize("degrees", [0.5, 1.0, 2.0, 2.7, 8.0, 100.0, 1e4, 76614.1])
@pytest.mark.parametrize("p", [1e-9, 1e-3, 0.2, 0.5, 0.8, 0.9188, 0.999999])
def test_quantiles_of_chi_square_are_those_of_scipy(p: float, degrees: float):
    assert own.chi_square_quantile(p, degrees) == pytest.approx(stats.chi2.ppf(p, degrees), rel=1e-9)


def test_quantiles_of_chi_square_are_those_of_the_table():
    assert own.chi_square_quantile(0.2, 2) == pytest.approx(-2 * math.log(0.8), rel=1e-12)
    assert own.chi_square_quantile(0.95, 1) == pytest.approx(3.841, abs=5e-4)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_binomial_bounds_are_those_of_scipy(level: float):
    rng = random.Random(4)
    for n in (1, 2, 10, 437, 42_615, 10**7, 10**9):
        for k in {0, 1, min(2, n), n // 3, n // 2, n - 1, n, round(n ** rng.random())}:
            low, high = own.binomial_bounds(k, n, level)
            tail = (1 - level) / 2
            expected = (
                stats.beta.ppf(tail, k, n - k + 1) if k else 0.0,
                stats.beta.isf(tail, k + 1, n - k) if k < n else 1.0,
            )
            assert (low, high) == pytest.approx(expected, rel=1e-8)  # scipy's own error with large n
            assert low <= k / n <= high


def test_binomial_bounds_solve_their_equation_where_digits_are_scarce():
    k, n = 2, 248_144_208
    low, high = own.binomial_bounds(k, n)
    with localcontext() as context:
        context.prec = 60

        def chance(most: int, at: float) -> float:
            p = Decimal(at)
            return float(sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(most + 1)))

        assert chance(k, high) == pytest.approx(0.025, rel=1e-9)
        assert 1 - chance(k - 1, low) == pytest.approx(0.025, rel=1e-9)


def test_none_of_so_many_has_the_bound_of_a_pocket_calculator():
    assert own.binomial_bounds(0, 42_615, 0.9)[1] == pytest.approx(1 - 0.05 ** (1 / 42_615), rel=1e-9)
    assert own.binomial_bounds(9, 9, 0.9) == pytest.approx((0.05 ** (1 / 9), 1.0))


def test_incomplete_functions_meet_where_their_methods_change():
    for x in (0.3, 0.49, 0.5, 0.51):  # quadrature on one side, the fraction on the other
        for b in (2999.0, 3001.0):
            assert incomplete_beta(x, 4000.0, b) == pytest.approx(stats.beta.cdf(x, 4000, b), rel=1e-8, abs=1e-15)
    assert incomplete_beta(0.0, 2, 3) == 0 and incomplete_beta(1.0, 2, 3) == 1
    below, above = incomplete_gamma(3.0, 700.0)
    assert below == 1.0 and above == pytest.approx(stats.gamma.sf(700, 3), rel=1e-10)
    assert incomplete_gamma(3.0, 0.0) == (0.0, 1.0) and incomplete_gamma(3.0, math.inf) == (1.0, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: own.student_t_cdf(math.nan, 3),
        lambda: own.student_t_cdf(1.0, 0.5),
        lambda: own.noncentral_t_cdf(1.0, 0.5, 1.0),
        lambda: own.noncentral_t_cdf(1.0, 5, math.nan),
        lambda: own.chi_square_quantile(0.0, 3),
        lambda: own.chi_square_quantile(0.5, 0),
        lambda: own.binomial_bounds(4, 3),
        lambda: own.binomial_bounds(0, 0),
    ],
)
def test_what_does_not_exist_is_refused(call):
    with pytest.raises(ValueError):
        call()
