"""The spread that a limit hides, against scipy's integral and by simulation."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from labconsole.measure.statistics.effects import censored_sd_ratio, one_spread_effect, widen_effect


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.97])
def test_it_is_the_deviation_of_a_normal_that_is_cut_off(share):
    limit = stats.norm.isf(share)
    first, second = (
        integrate.quad(lambda x, power=power: x**power * stats.norm.pdf(x), -12, limit)[0] + share * limit**power
        for power in (1, 2)
    )
    assert censored_sd_ratio(share) == pytest.approx(math.sqrt(second - first**2), rel=1e-7)


def test_where_nothing_or_everything_is_cut_off_nothing_is_guessed():
    assert (censored_sd_ratio(0.0), censored_sd_ratio(1.0)) == (1.0, 1.0)
    with pytest.raises(ValueError):
        censored_sd_ratio(1.1)


def test_a_wider_effect_is_the_same_change():
    effect = one_spread_effect([95.0, 95.5], [100.0, 101.0, 99.5])
    wider = widen_effect(effect, 2.0)
    assert (wider.change, wider.degrees, wider.blocks) == (effect.change, effect.degrees, effect.blocks)
    assert wider.error_log == pytest.approx(2 * effect.error_log) and wider.sd_log == pytest.approx(2 * effect.sd_log)
    t = stats.t.isf(0.025, 3) * wider.error_log
    assert wider.ci_low == pytest.approx(math.exp(wider.mean_log - t) - 1)
    single = widen_effect(one_spread_effect([95.0], [100.0, 101.0, 99.5]), 2.0)
    assert (single.others_of_single, single.p, single.ci_low) == (3, None, None)
    absent = one_spread_effect([95.0], [100.0, 101.0])
    assert widen_effect(absent, 2.0) == absent


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_fall_of_just_the_margin_is_no_alarm_beside_a_baseline_that_is_cut_off(share):
    """Without the correction 8 to 9 % are."""
    rng, worse = np.random.default_rng(5), 0
    limit = 0.01 * stats.norm.isf(share)
    for _ in range(1500):
        before = np.minimum(0.01 * rng.standard_normal(5), limit)
        today = min(0.01 * rng.standard_normal() - math.log(1.02), limit)
        full = float((before == limit).mean())
        effect = one_spread_effect([math.exp(today)], list(np.exp(before)))
        if effect.error_log is not None:
            wider = widen_effect(effect, 1 / censored_sd_ratio(full))
            worse += (wider.mean_log + math.log(1.02)) / wider.error_log < stats.t.ppf(0.05, 4)
    assert worse <= 95
