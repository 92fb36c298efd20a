"""What a report says and what is reckoned again by another path are the same numbers; and the second path alone is right."""

from __future__ import annotations

import ast
import inspect
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labconsole.measure.recompute import intervals as again
from labconsole.measure.statistics.bounded_means import loss_over_set_ups, loss_within_set_up
from labconsole.measure.statistics.effects import (
    Effect,
    equivalence_p,
    holm,
    paired_effect,
    share_effect,
    unpaired_effect,
)
from labconsole.measure.statistics.set_ups import mean_over_set_ups

NEAR = 1e-7
rates = st.floats(1e-3, 1e9)
few = settings(max_examples=60, deadline=None)


def same(one: float | None, other: float | None, size: float = 0.0) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or math.isclose(one, other, rel_tol=NEAR, abs_tol=1e-12 + NEAR * size)


def agree(report: Effect, check: again.RecomputedEffect, margin: float) -> None:
    for name in ("change", "ci_low", "ci_high", "ci90_low", "ci90_high", "p"):
        assert same(getattr(report, name), getattr(check, name)), (name, report, check)
    assert same(equivalence_p(report, margin), check.equivalence_p), (report, check)


def test_the_second_path_takes_nothing_from_the_first():
    tree = ast.parse(inspect.getsource(again))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert not [module for module in modules if module and module.startswith("labconsole")]


@pytest.mark.parametrize("degrees", [1, 1.5, 2, 2.7, 8, 26, 100.5, 5000])
def test_its_t_is_that_of_scipy(degrees: float):
    for p in (0.6, 0.95, 0.975, 0.9999):
        assert again.recompute_t_quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-9)
    for t in (-300, -3, -0.1, 0, 0.5, 40):
        assert again.recompute_t_cdf(t, degrees) == pytest.approx(stats.t.cdf(t, degrees), rel=1e-9)


@few
@given(st.dictionaries(st.integers(), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5), min_size=1, max_size=9))
def test_means_over_set_ups(values):
    report, check = mean_over_set_ups(values), again.recompute_mean(values)
    size = max(abs(value) for trials in values.values() for value in trials)
    for one, other in zip((report.mean, report.ci_low, report.ci_high), check, strict=True):
        assert same(one, other, size)


@few
@given(
    subject=st.dictionaries(st.integers(0, 8), rates, max_size=9),
    baseline=st.dictionaries(st.integers(0, 8), rates, max_size=9),
    packets=st.none() | st.floats(100, 1e9),
    null=st.sampled_from([1.0, 0.98, 0.99]),
    alternative=st.sampled_from(["two-sided", "less", "greater"]),
    margin=st.sampled_from([0.01, 0.5, 30.0]),
)
def test_paired_and_unpaired_effects(subject, baseline, packets, null, alternative, margin):
    how = {"packets": packets, "null": null, "alternative": alternative}
    agree(
        paired_effect(subject, baseline, **how),
        again.recompute_paired_effect(subject, baseline, **how, margin_ratio=margin),
        margin,
    )
    ours, theirs = list(subject.values()), list(baseline.values())
    agree(
        unpaired_effect(ours, theirs, **how),
        again.recompute_unpaired_effect(ours, theirs, **how, margin_ratio=margin),
        margin,
    )


@few
@given(st.dictionaries(st.integers(0, 8), st.floats(1e-4, 1), max_size=9), st.integers(2, 9), st.floats(100, 1e9))
def test_shares_of_streams(shares, streams, packets):
    agree(
        share_effect(shares, streams, packets=packets),
        again.recompute_share_effect(shares, streams, packets=packets, margin_ratio=0.1),
        0.1,
    )


@pytest.mark.parametrize("zero", [{1: 0.0, 2: 1.0, 3: 1.0}, {1: -1.0, 2: 1.0, 3: 1.0}])
def test_what_has_no_ratio_has_none_on_both_paths(zero):
    one = {1: 1.0, 2: 1.0, 3: 1.1}
    agree(paired_effect(zero, one), again.recompute_paired_effect(zero, one), 0.1)
    agree(paired_effect(one, zero), again.recompute_paired_effect(one, zero), 0.1)
    agree(share_effect(zero, 3), again.recompute_share_effect(zero, 3), 0.1)
    agree(
        unpaired_effect([*zero.values()], [1, 2, 3]), again.recompute_unpaired_effect([*zero.values()], [1, 2, 3]), 0.1
    )
    agree(unpaired_effect([5, 5, 5], [4, 4, 4]), again.recompute_unpaired_effect([5, 5, 5], [4, 4, 4]), 0.1)
    agree(paired_effect(one, one), again.recompute_paired_effect(one, one), 0.1)


@few
@given(st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02]), max_size=40))
def test_adjusted_p_values(p_values):
    assert again.recompute_holm(p_values) == pytest.approx(holm(p_values), rel=1e-12)


def test_adjusted_p_values_of_many_claims_take_no_time():
    p_values = [(i * 7919 % 20_000) / 400_000 for i in range(20_000)]
    begun = time.process_time()
    assert again.recompute_holm(p_values)[:50] == pytest.approx(holm(p_values)[:50], rel=1e-12)
    assert time.process_time() - begun < 2


pairs = st.integers(1, 10**9).flatmap(
    lambda n: st.tuples(st.integers(0, n) | st.integers(0, min(n, 12)) | st.just(n), st.just(n))
)


@few
@given(st.lists(pairs | st.just((0, 0)), max_size=9))
def test_losses(counts):
    lost, offered = [x for x, _ in counts], [n for _, n in counts]
    within = loss_within_set_up(lost, offered), again.recompute_loss(lost, offered, of_trials=True)
    for report, check in ((loss_over_set_ups(lost, offered), again.recompute_loss(lost, offered)), within):
        for one, other in zip((report.ratio, report.low, report.high), check, strict=True):
            assert same(one, other), (report, check)


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 10**6, 10**9])
def test_binomial_bounds_of_a_run(n: int):
    for k in {0, 1, n // 3, n // 2, n - 1, n}:
        report, check = loss_over_set_ups([k], [n]), again.recompute_loss([k], [n])
        for one, other in zip((report.low, report.high), check[1:], strict=True):
            assert one == pytest.approx(other, rel=1e-7, abs=1e-15)
