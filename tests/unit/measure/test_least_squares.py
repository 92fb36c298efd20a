"""A line through values, held to the reference and to data that it was drawn from."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from labconsole.measure.statistics.regression import fit_line


def test_it_agrees_with_the_reference() -> None:
    draw = random.Random(4)
    points = [(float(x), 3 + 0.5 * x + draw.gauss(0, 1)) for x in (1, 2, 5, 10, 20) for _ in range(4)]
    found, reference = fit_line(points), stats.linregress(*zip(*points, strict=True))
    assert found is not None
    t = stats.t.ppf(0.975, len(points) - 2)
    assert (found.constant, found.slope) == pytest.approx((reference.intercept, reference.slope))
    assert found.slope_high == pytest.approx(reference.slope + t * reference.stderr)
    assert found.constant_low == pytest.approx(reference.intercept - t * reference.intercept_stderr)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(400):
        found = fit_line([(float(x), 1 + 2 * x + draw.gauss(0, 0.5)) for x in (1, 2, 5, 10)])
        assert found is not None
        assert found.slope_low is not None
        assert found.slope_high is not None
        held += found.slope_low <= 2 <= found.slope_high
    assert 0.92 <= held / 400 <= 0.98


def test_of_too_little_it_says_less() -> None:
    assert fit_line([(1.0, 2.0), (1.0, 3.0)]) is None
    assert fit_line([]) is None
    found = fit_line([(1.0, 2.0), (2.0, 4.0)])
    assert found is not None
    assert (found.constant, found.slope, found.slope_low, found.residual_sd) == (0.0, 2.0, None, None)


def bent(seed: int, curve: float) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    return [(float(x), 1 + 0.2 * x + curve * x * x + draw.gauss(0, 0.05)) for x in (1, 2, 5, 10) for _ in range(4)]


def test_lack_of_fit_is_seldom_found_on_a_line_and_nearly_always_on_a_curve() -> None:
    straight = [fit_line(bent(seed, 0.0)) for seed in range(400)]
    false = sum(found is not None and (found.lack_of_fit_p or 1) < 0.05 for found in straight)
    assert false <= 38  # 20 are expected
    curved = [fit_line(bent(seed, 0.02)) for seed in range(50)]
    assert sum(found is not None and (found.lack_of_fit_p or 1) < 0.05 for found in curved) >= 48


def test_the_tail_of_f_is_that_of_the_reference() -> None:
    """Means off a level line by d, -d, -d, d, and replicates at ± s around them: F = (16 d² / 2) / (16 s² / 12)."""
    d = (stats.f.ppf(0.95, 2, 12) * (16 / 12) * 2 / 16) ** 0.5
    points = [(float(x), sign * d + e) for x, sign in enumerate((1, -1, -1, 1)) for e in (1.0, -1.0, 1.0, -1.0)]
    found = fit_line(points)
    assert found is not None
    assert found.lack_of_fit_p == pytest.approx(0.05)
