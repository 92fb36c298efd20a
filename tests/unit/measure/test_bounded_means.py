"""Intervals where Student's does not fit: rare events, an index that ends at 1, the least of several, what is due."""

from __future__ import annotations

import numpy as np
import pytest

from labconsole.measure.statistics.bounded_means import (
    deviation_over_set_ups,
    drop_interval,
    fairness_p,
    highest_mean,
    loss_of_trials,
    lower_bounded,
    lowest_mean,
    share_over_set_ups,
)
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups


def means_of(rates: np.ndarray) -> list[SetUpMean]:
    """Of guests in columns, over set-ups in rows."""
    return [mean_over_set_ups({n: [float(x)] for n, x in enumerate(column)}) for column in rates.T]


def test_events_that_were_not_seen_have_an_upper_bound_and_are_not_known_to_be_none():
    found = share_over_set_ups({n: [(0, 10)] for n in range(3)})
    assert found is not None
    assert (found.mean, found.ci_low, found.method) == (0.0, 0.0, "counts over set-ups")
    assert found.ci_high == pytest.approx(1 - 0.025 ** (1 / 30)), "as of losses"
    assert found.half_width is None, "0.0 ± 0.0 is what nobody knows"


def test_a_share_of_events_has_the_interval_of_losses_and_stays_within_0_and_1():
    trials = {1: [(1, 10)], 2: [(0, 10), (0, 10)], 3: [(2, 10)]}
    found, loss = share_over_set_ups(trials), loss_of_trials(trials)
    assert found is not None
    assert found.ci_low is not None
    assert (found.mean, found.ci_low, found.ci_high) == (3 / 40, loss.low, loss.high)
    assert found.ci_low >= 0


def test_of_several_shares_the_one_chosen_by_its_result_is_wider():
    trials = {n: [(1, 10)] for n in range(5)}
    alone, chosen = share_over_set_ups(trials), share_over_set_ups(trials, 8)
    assert alone is not None and chosen is not None
    assert chosen.ci_low is not None and alone.ci_low is not None and chosen.ci_low < alone.ci_low
    assert chosen.ci_high is not None and alone.ci_high is not None and chosen.ci_high > alone.ci_high


@pytest.mark.parametrize("trials", [{1: [(1, 10)], 2: [(0, 10)]}, {n: [(-1, 10)] for n in range(3)}])
def test_a_share_of_two_set_ups_or_of_counts_below_zero_has_no_interval(trials: dict[int, list[tuple[int, int]]]):
    found = share_over_set_ups(trials)
    assert found is not None
    assert (found.ci_low, found.ci_high, found.method) == (None, None, "no interval")


def test_nothing_that_could_happen_has_no_share():
    assert share_over_set_ups({1: [(0, 0)]}) is None


def test_an_index_has_a_lower_bound_alone():
    plain = mean_over_set_ups({1: [0.999], 2: [0.998], 3: [1.0]})
    found = lower_bounded(plain)
    assert (found.mean, found.ci_low, found.ci_high) == (plain.mean, plain.ci_low, None)
    two = mean_over_set_ups({1: [0.999], 2: [0.998]})
    assert lower_bounded(two) == two


def test_the_least_of_one_is_itself_and_of_none_is_not_there():
    (one,) = means_of(np.array([[1.0], [2.0], [4.0]]))
    assert lowest_mean([one]) is one
    assert highest_mean([]) is None


def test_the_least_of_several_has_an_interval_of_the_least_true_one():
    rng = np.random.default_rng(7)
    held = plain_held = 0
    for _ in range(600):
        means = means_of(1 + 0.01 * rng.standard_normal((5, 16)))
        found, plain = lowest_mean(means), min(means, key=lambda each: each.mean)
        assert found is not None and found.ci_low is not None and found.ci_high is not None
        assert plain.ci_low is not None and plain.ci_high is not None
        assert found.mean == plain.mean
        held += found.ci_low <= 1 <= found.ci_high
        plain_held += plain.ci_low <= 1 <= plain.ci_high
    assert held >= 0.95 * 600
    assert plain_held < 0.85 * 600, "the plain interval of the chosen one misses it"


@pytest.mark.parametrize("guests", [2, 4, 16])
def test_rates_with_a_tail_towards_high_ones_are_not_known_too_well(guests: int):
    """By the deviation of each guest alone the least of sixteen were held in two of three cases."""
    rng = np.random.default_rng(8)
    held = 0
    for _ in range(600):
        found = lowest_mean(means_of(1 + 0.01 * (rng.exponential(size=(5, guests)) - 1)))
        assert found is not None and found.ci_low is not None and found.ci_high is not None
        held += found.ci_low <= 1 <= found.ci_high
    assert held >= 0.93 * 600


def test_the_greatest_is_the_least_mirrored():
    rates = np.random.default_rng(3).normal(5, 1, (4, 3))
    most, least = highest_mean(means_of(rates), -np.inf), lowest_mean(means_of(-rates), -np.inf)
    assert most is not None and least is not None and least.ci_low is not None and least.ci_high is not None
    assert (most.mean, most.ci_low, most.ci_high) == (-least.mean, -least.ci_high, -least.ci_low)
    assert (most.minimum, most.maximum) == (-least.maximum, -least.minimum)


def test_no_bound_lies_below_what_can_be():
    means = means_of(np.array([[0.0, 1.0], [9.0, 2.0], [0.0, 1.5]]))
    for found in (lowest_mean(means), highest_mean(means)):
        assert found is not None
        assert found.ci_low == 0


def test_the_least_of_two_set_ups_has_no_interval():
    found = lowest_mean(means_of(np.array([[1.0, 2.0], [1.1, 2.1]])))
    assert found is not None
    assert (found.ci_low, found.method) == (None, "no interval")


@pytest.mark.parametrize(("set_ups", "packets"), [(3, 2.227), (12, 1.0)])
def test_a_deviation_is_signed_and_no_closer_than_one_packet(set_ups, packets):
    """Three equal counts are taken to scatter by what rounding to whole packets does; of twelve, a packet is more."""
    found = deviation_over_set_ups({n: [8 / 256] for n in range(set_ups)}, 1 / 31, 9, 1 / 256)
    assert found is not None
    assert found.mean == pytest.approx(8 / 256 - 1 / 31)
    assert found.ci_low is not None and found.ci_high is not None
    assert found.ci_low < 0 < found.ci_high, "as near as whole packets can be"
    assert found.ci_high - found.mean == pytest.approx(packets / 256, rel=1e-3)


def test_deviations_of_a_point_hold_their_due_together():
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(400):
        counts = rng.binomial(256, 0.5, (9, 5))
        found = [deviation_over_set_ups({n: [x / 256] for n, x in enumerate(step)}, 0.5, 9, 1 / 256) for step in counts]
        wrong += any(each is None or not (each.ci_low or 0) <= 0 <= (each.ci_high or 0) for each in found)
    assert wrong <= 30  # of 20


def test_guests_that_are_alike_by_chance_are_seldom_called_fair():
    """At the bound on the average: 1 - index is a multiple of chi-square with one degree, and t errs in 18 %."""
    rng = np.random.default_rng(9)
    found = [
        fairness_p({n: [1 - 0.01 * float(rng.standard_normal()) ** 2] for n in range(5)}, 2, 0.99) for _ in range(1000)
    ]
    assert all(each is not None for each in found)
    assert sum(each[0] <= 0.05 for each in found if each) <= 65  # of 50
    assert sum(each[1] <= 0.05 for each in found if each) <= 65


def test_fairness_that_is_plain_is_found_either_way():
    fair = fairness_p({n: [1 - 1e-4 * (1 + n)] for n in range(3)}, 2, 0.99)
    unfair = fairness_p({n: [0.9 + 1e-3 * n] for n in range(3)}, 2, 0.99)
    assert fair is not None and fair[0] < 0.01 and fair[1] > 0.9
    assert unfair is not None and unfair[1] < 0.01 and unfair[0] > 0.9
    assert fairness_p(dict.fromkeys(range(4), [1.0]), 2, 0.99) == (0.0, 1.0)
    assert fairness_p(dict.fromkeys(range(2), [1.0]), 2, 0.99) is None


def test_what_has_no_interval_keeps_its_mean_and_its_trials():
    found = drop_interval(mean_over_set_ups({1: [0.0], 2: [3.0], 3: [9.0]}))
    assert (found.mean, found.ci_low, found.minimum, found.maximum) == (4.0, None, 0.0, 9.0)
    assert found.half_width is None
