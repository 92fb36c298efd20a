"""Effects: against scipy and statements by hand; false positives, power and equivalence by simulation."""

from __future__ import annotations

import math
import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labconsole.errors import MeasurementError
from labconsole.measure.statistics import effects as own
from labconsole.measure.statistics.distributions import noncentral_t_cdf, student_t_quantile

BLOCKS = {1: 101.0, 2: 98.0, 3: 107.0, 4: 103.0}
BASE = {4: 100.0, 3: 102.0, 2: 97.0, 1: 99.5, 9: 4.0}


def logs() -> list[float]:
    return [math.log(BLOCKS[b] / BASE[b]) for b in BLOCKS]


def test_a_paired_effect_is_the_one_sample_test_of_scipy_on_logarithms():
    found, expected = own.paired_effect(BLOCKS, BASE), stats.ttest_1samp(logs(), 0)
    interval, interval90 = expected.confidence_interval(0.95), expected.confidence_interval(0.90)
    assert found.change == pytest.approx(math.exp(numpy.mean(logs())) - 1)
    assert (found.ci_low, found.ci_high) == pytest.approx(numpy.expm1(interval))
    assert (found.ci90_low, found.ci90_high) == pytest.approx(numpy.expm1(interval90))
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.blocks, found.degrees, found.paired, found.absent) == (4, 3, True, None)
    assert found.sd_log == pytest.approx(numpy.std(logs(), ddof=1))


@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
def test_another_null_is_tested_on_the_side_asked_for(alternative):
    found = own.paired_effect(BLOCKS, BASE, null=0.98, alternative=alternative)
    assert found.p == pytest.approx(stats.ttest_1samp(logs(), math.log(0.98), alternative=alternative).pvalue)
    assert found.change == own.paired_effect(BLOCKS, BASE).change  # the interval stays about the change itself


def test_counts_move_in_steps_and_their_spread_is_no_less():
    same = dict.fromkeys(range(3), 1000.0)
    found = own.paired_effect(same, same, packets=1000)
    assert found.sd_log == pytest.approx(math.sqrt(2) / 1000)
    assert (found.change, found.p) == (0, 1)
    assert found.ci_high == pytest.approx(math.expm1(stats.t.ppf(0.975, 2) * math.sqrt(2) / 1000 / math.sqrt(3)))
    wide = own.paired_effect(BLOCKS, BASE, packets=1e9)
    assert wide.sd_log == own.paired_effect(BLOCKS, BASE).sd_log


@pytest.mark.parametrize("scale", [1.0, 1.1, 1 / 3])
def test_without_any_spread_and_steps_nothing_is_claimed(scale: float):
    base = {b: 1000.0 / 7 * (b + 1) for b in range(5)}
    found = own.paired_effect({b: value * scale for b, value in base.items()}, base)
    assert found.change == pytest.approx(scale - 1, abs=1e-12)
    assert (found.ci_low, found.p, found.absent) == (None, None, own.NOTHING_VARIED)
    assert own.unpaired_effect([5, 5, 5], [4, 4, 4]).absent == own.NOTHING_VARIED


@pytest.mark.parametrize(
    ("subject", "baseline", "reason"),
    [
        ({}, {}, "fewer than 3 blocks"),
        ({1: 5.0}, {2: 5.0}, "fewer than 3 blocks"),
        ({1: 5.0, 2: 5.1}, {1: 4.0, 2: 4.0, 3: 4.0}, "fewer than 3 blocks"),
        ({1: 0.0, 2: 5.0, 3: 5.0}, {1: 4.0, 2: 4.0, 3: 4.0}, "a mean is zero"),
        ({1: 0.0, 2: 5.0, 3: 5.0}, {1: 4.0, 2: 4.0, 3: 0.0}, "baseline is zero"),
        ({1: -1.0, 2: 5.0, 3: 5.0}, {1: 4.0, 2: 4.0, 3: 4.0}, "a mean is below zero"),
    ],
)
def test_what_cannot_be_said_has_a_reason(subject, baseline, reason):
    found = own.paired_effect(subject, baseline, packets=100)
    assert (found.ci_low, found.ci_high, found.p, found.ci90_low, found.degrees) == (None,) * 5
    assert found.absent == reason
    assert own.equivalence_p(found, 0.02) is None and own.find_detectable_effect(found) is None


def test_two_blocks_have_a_change_and_no_claim():
    found = own.paired_effect({1: 5.0, 2: 5.0}, {1: 4.0, 2: 4.0})
    assert found.change == pytest.approx(0.25) and found.blocks == 2 and found.p is None


@pytest.mark.parametrize("sizes", [(3, 3), (3, 9), (8, 4)])
def test_an_unpaired_effect_is_welchs_of_scipy_on_logarithms(sizes):
    rng = random.Random(5)
    a, b = ([rng.gauss(100, 4) for _ in range(size)] for size in sizes)
    found, expected = own.unpaired_effect(a, b), stats.ttest_ind(numpy.log(a), numpy.log(b), equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.ci_low, found.ci_high) == pytest.approx(numpy.expm1(expected.confidence_interval(0.95)))
    assert found.degrees == pytest.approx(expected.df)
    assert (found.paired, found.blocks) == (False, min(sizes))
    less = stats.ttest_ind(numpy.log(a), numpy.log(b), equal_var=False, alternative="less")
    assert own.unpaired_effect(a, b, alternative="less").p == pytest.approx(less.pvalue)


def test_an_unpaired_effect_needs_three_a_side():
    found = own.unpaired_effect([10, 11], [10, 11, 12])
    assert (found.p, found.absent) == (None, "fewer than 3 set-ups a side")
    assert found.change is not None and own.unpaired_effect([], [1, 2, 3]).change is None
    assert own.unpaired_effect([5, 5, 5], [4, 4, 4], packets=100).degrees == pytest.approx(4)


def test_one_spread_for_both_sides_is_students_of_scipy_on_logarithms():
    many, less = [100.0, 102.0, 97.0, 99.5, 101.0], [90.0, 93.0]
    found = own.one_spread_effect(less, many)
    expected = stats.ttest_ind(numpy.log(less), numpy.log(many))
    assert (found.p, found.degrees) == pytest.approx((expected.pvalue, expected.df))
    assert (found.ci_low, found.ci_high) == pytest.approx(numpy.expm1(expected.confidence_interval(0.95)))
    assert own.one_spread_effect(many, less).mean_log == pytest.approx(-found.mean_log or 0.0)
    single, expected = own.one_spread_effect(less[:1], many), stats.ttest_ind(numpy.log(less[:1]), numpy.log(many))
    assert single.mean_log / single.error_log == pytest.approx(expected.statistic) and single.degrees == expected.df
    assert own.one_spread_effect(less, many[:2]).absent == own.FEW_A_SIDE
    assert own.one_spread_effect([], many).absent == own.FEW_A_SIDE
    assert own.one_spread_effect([0.0], many).absent == "a mean is zero"
    assert own.one_spread_effect([100.0], [100.0] * 3).absent == own.NOTHING_VARIED
    assert own.one_spread_effect([100.0], [100.0] * 3, packets=1000).sd_log == 0.001


def of_two_kinds(rng: numpy.random.Generator, many: int) -> numpy.ndarray:
    return (rng.random(many) < 0.2) + 0.05 * rng.standard_normal(many)


@pytest.mark.parametrize("many", [6, 9, 20])
@pytest.mark.parametrize(
    "draw",
    [numpy.random.Generator.standard_normal, numpy.random.Generator.standard_exponential, of_two_kinds],
    ids=["normal", "exponential", "two kinds"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_one_occasion_is_called_different_without_ground_in_at_most_six_of_a_hundred(many: int, draw, sign: int):
    """Without a change, where occasions differ by about 3 %; with Student's t it is 7 to 11 with a tail or two kinds."""
    rng, different, times = numpy.random.default_rng(many), 0, 3000
    for _ in range(times):
        values = list(100.0 * numpy.exp(0.03 * sign * draw(rng, many + 1)))
        different += own.word(own.one_spread_effect(values[:1], values[1:]).p, None) == "different"
    assert different / times < 0.06


def test_a_streams_share_is_held_against_its_fair_one():
    found = own.share_effect({1: 0.3, 2: 0.35, 3: 0.32}, 3)
    expected = stats.ttest_1samp(numpy.log(numpy.array([0.3, 0.35, 0.32]) * 3), 0)
    assert found.p == pytest.approx(expected.pvalue)
    assert own.share_effect({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, 3, packets=1e5).p == pytest.approx(1)
    assert own.share_effect({1: 0.0, 2: 0.5, 3: 0.5}, 2).absent == "a mean is zero"


def test_holms_adjustment_by_hand():
    assert own.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert own.holm([0.5, 0.9]) == [1.0, 1.0]
    assert own.holm([]) == [] and own.holm([0.04]) == [0.04]
    assert own.holm([0.02, 0.02, 0.02]) == pytest.approx([0.06] * 3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=30))
def test_adjusted_p_values_keep_their_order_and_lie_between_the_plain_and_bonferronis(p_values: list[float]):
    adjusted = own.holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q <= min(1.0, p * len(p_values)) * (1 + 1e-12)
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [q for _, q in pairs] == sorted(adjusted)


@pytest.mark.parametrize("margin", [0.01, 0.03, 0.1, 0.3])
def test_equivalence_is_where_the_90_per_cent_interval_lies_inside(margin: float):
    found = own.paired_effect(BLOCKS, BASE)
    p = own.equivalence_p(found, margin)
    bound = math.log1p(margin)
    by_scipy = max(
        stats.ttest_1samp(logs(), bound, alternative="less").pvalue,
        stats.ttest_1samp(logs(), -bound, alternative="greater").pvalue,
    )
    assert p == pytest.approx(by_scipy)
    inside = math.log1p(found.ci90_low) > -bound and math.log1p(found.ci90_high) < bound
    assert (p <= 0.05) == inside
    with pytest.raises(ValueError):
        own.equivalence_p(found, 0)


@pytest.mark.parametrize(
    ("p", "equivalence", "expected"),
    [
        (0.05, None, "different"),
        (0.051, None, "inconclusive"),
        (0.2, 0.05, "equivalent"),
        (0.2, 0.06, "inconclusive"),
        (0.01, 0.01, "different, within the margin"),
        (0.01, 0.5, "different"),
        (None, None, "no claim"),
        (None, 0.01, "equivalent"),
    ],
)
def test_the_words_of_a_row(p, equivalence, expected):
    assert own.word(p, equivalence) == expected


@pytest.mark.parametrize("n", [3, 5, 9, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 56])
def test_power_is_that_of_the_noncentral_t(n: int, alpha: float):
    limit = stats.t.ppf(1 - alpha / 2, n - 1)
    shift = math.log(1.02) * math.sqrt(n) / 0.01
    expected = stats.nct.sf(limit, n - 1, shift) + numpy.nan_to_num(
        stats.nct.cdf(-limit, n - 1, shift)
    )  # nan: less than 1e-300
    assert own.power(0.02, 0.01, n, alpha) == pytest.approx(expected, abs=1e-9)
    smallest = own.smallest_effect(0.01, n, alpha)
    assert smallest is not None and own.power(smallest, 0.01, n, alpha) == pytest.approx(0.8)
    both = own.smallest_effect(0.01, n, alpha, paired=False)
    assert both is not None and own.power(both, 0.01, n, alpha, paired=False) == pytest.approx(0.8)


def test_the_price_of_56_claims_is_19_standard_deviations_at_three_set_ups_and_4_at_five():
    for n, limit, deviations in ((3, 33.4, 19), (5, 8.87, 3.9)):
        apart = {b: math.exp(0.01 * (deviations + 0.6 + w)) for b, w in enumerate(deviates(n))}
        near = {b: math.exp(0.01 * (deviations - 0.6 + w)) for b, w in enumerate(deviates(n))}
        level = dict.fromkeys(range(n), 1.0)
        p_far, p_near = (own.paired_effect(subject, level).p for subject in (apart, near))
        assert p_far * 56 < 0.05 < p_near * 56
        assert student_t_quantile(1 - 0.05 / 112, n - 1) == pytest.approx(limit, abs=0.05)


def deviates(n: int) -> list[float]:
    """n numbers of mean 0 and sample deviation 1."""
    raw = [i - (n - 1) / 2 for i in range(n)]
    return [x / float(numpy.std(raw, ddof=1)) for x in raw]


def test_no_power_asked_for_needs_no_effect():
    assert own.smallest_effect(0.01, 5, alpha=0.05, power=0.05) == 0
    assert own.smallest_effect(0.01, 3, alpha=1e-6, power=0.99) == pytest.approx(
        math.expm1(0.01 / math.sqrt(3) * needed(2, 1e-6, 0.99)), rel=1e-6
    )


def needed(degrees: int, alpha: float, power: float) -> float:
    limit = stats.t.ppf(1 - alpha / 2, degrees)
    # So far out that the normal part is small: P(chi-square / 2 < shift² / limit²) nearly.
    low, high = 0.0, 10 * limit
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - noncentral_t_cdf(limit, degrees, middle) < power else (low, middle)
    return high


def test_what_never_varied_or_is_too_few_has_no_smallest_effect():
    assert own.smallest_effect(0.0, 9) is None and own.smallest_effect(0.01, 2) is None
    assert own.power(0.02, 0.01, 2) is None
    found = own.paired_effect(BLOCKS, BASE)
    assert own.find_detectable_effect(found) == pytest.approx(own.smallest_effect(found.sd_log, 4))


@pytest.mark.parametrize(
    ("value", "reference", "least", "digits"),
    [
        (-0.04, 0, 1, 2),
        (-0.96, 0, 1, 1),
        (0.0004, 0, 1, 4),
        (0.0, 0, 1, 1),
        (1.26, 1, 0, 1),
        (2.04, 2, 1, 2),
        (5, 0, 0, 0),
    ],
)
def test_a_bound_shows_digits_enough_to_tell_its_side(value, reference, least, digits):
    assert own.digits_to_tell(value, reference, least) == digits


def test_what_is_not_a_number_is_refused():
    with pytest.raises(MeasurementError):
        own.paired_effect({1: math.nan}, {1: 1.0})
    with pytest.raises(MeasurementError):
        own.unpaired_effect([1, 2, 3], [1, 2, math.inf])


positive = st.floats(0, 1e150, allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(
    subject=st.dictionaries(st.integers(0, 5), positive, max_size=6),
    baseline=st.dictionaries(st.integers(0, 5), positive, max_size=6),
    packets=st.none() | st.floats(1, 1e9),
)
def test_any_numbers_give_an_effect_or_a_reason(subject, baseline, packets):
    for found in (
        own.paired_effect(subject, baseline, packets=packets),
        own.unpaired_effect(list(subject.values()), list(baseline.values()), packets=packets),
    ):
        assert (found.p is None) == (found.absent is not None)
        if found.p is not None:
            assert 0 <= found.p <= 1 and found.ci_low <= found.change <= found.ci_high
            assert found.ci_low <= found.ci90_low <= found.ci90_high <= found.ci_high
            assert 0 <= own.equivalence_p(found, 0.02) <= 1


def blocks(rng: random.Random, n: int, change: float, sd: float) -> tuple[dict[int, float], dict[int, float]]:
    """Blocks that drift, each with a baseline and a subject of independent set-ups of ``sd``."""
    level = [1000 * (1 - 0.05 * b / n) for b in range(n)]
    base = {b: level[b] * math.exp(rng.gauss(0, sd)) for b in range(n)}
    return {b: level[b] * (1 + change) * math.exp(rng.gauss(0, sd)) for b in range(n)}, base


@pytest.mark.parametrize("n", [3, 5, 9])
def test_no_effect_is_called_one_in_one_of_twenty_and_an_effect_as_often_as_the_noncentral_t_says(n: int):
    rng = random.Random(n)
    trials = 4000
    for change in (0.0, 0.02):
        seen = sum(1 for _ in range(trials) if own.paired_effect(*blocks(rng, n, change, 0.01)).p <= 0.05) / trials
        expected = own.power(change, 0.01 * math.sqrt(2), n) if change else 0.05
        assert seen == pytest.approx(expected, abs=0.02 if change else 0.011)


def test_a_family_of_rows_makes_a_false_claim_in_one_of_twenty_reports():
    rng = random.Random(8)
    reports, rows = 1000, 12
    false = 0
    for _ in range(reports):
        p_values = [own.paired_effect(*blocks(rng, 4, 0.0, 0.01)).p for _ in range(rows)]
        false += min(own.holm(p_values)) <= 0.05
    assert false / reports <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / reports)


def test_what_differs_by_the_margin_is_called_equivalent_in_at_most_one_of_twenty():
    rng = random.Random(9)
    for n in (3, 9):
        said = sum(
            1 for _ in range(3000) if own.equivalence_p(own.paired_effect(*blocks(rng, n, 0.02, 0.002)), 0.02) <= 0.05
        )
        assert said / 3000 == pytest.approx(0.05, abs=0.011)


def test_a_single_occasion_varies_by_no_less_than_its_own_set_ups_and_alone():
    before = [120.0, 120.6, 119.5]
    plain, off = own.one_spread_effect([114.0], before), own.one_spread_effect([114.0], before, own_sd_log=0.05)
    small = own.one_spread_effect([114.0], before, own_sd_log=1e-4)
    assert plain == small
    assert plain.error_log == pytest.approx(plain.sd_log * math.sqrt(1 + 1 / 3))
    assert off.error_log == pytest.approx(math.hypot(plain.sd_log / math.sqrt(3), 0.05))
    assert (off.degrees, off.change) == (plain.degrees, plain.change)
    assert own.one_spread_effect([60.0], [120.0] * 3).absent is not None
    assert own.one_spread_effect([60.0], [120.0] * 3, own_sd_log=0.01).error_log == pytest.approx(0.01)
