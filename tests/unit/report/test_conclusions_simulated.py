"""What reports conclude from runs whose truth is known: `make validate` in small, by the same programs and fixed seeds.

Bounds are wide enough for few repetitions and far from what the faults give that they are there for: trials taken for
replicates (42 to 73 % false), the highest of several means (+1 %), a rule that never says anything.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, chi2, nct, t

sys.path.append(str(Path(__file__).resolve().parents[3] / "tools" / "validation"))

import commanded  # noqa: E402
import lossy  # noqa: E402
import maxima  # noqa: E402
import null_evaluation  # noqa: E402
import one_set_up  # noqa: E402
import powers  # noqa: E402
import set_up_means  # noqa: E402
from simulating import Cell, Count, counted, lower_bound, tolerable, tolerable_of_reports  # noqa: E402
from synthetic import AR_MOST, DRIFT, IID, SET_UPS_DIFFER, SLOWED, Scenario, SyntheticPlan  # noqa: E402
from synthetic_records import records  # noqa: E402
from tables import Table  # noqa: E402

from labconsole.measure.recompute.derived import recompute  # noqa: E402


def rng(number: int = 1) -> np.random.Generator:
    return np.random.default_rng(number)


@pytest.mark.parametrize("scenario", [SET_UPS_DIFFER, DRIFT, AR_MOST, SLOWED], ids=lambda scenario: scenario.name)
def test_a_report_without_any_effect_finds_none(scenario: Scenario):
    found = null_evaluation.null_reports(rng(), 12, scenario, 3, 3)
    assert found["comparisons"] == 12 * 112
    assert found["plain"] / found["comparisons"] < 0.08
    assert found["false reports"] <= 2
    if scenario is SET_UPS_DIFFER:
        assert 0.92 < found["held"] / found["means"] < 0.98


def test_trials_of_one_set_up_are_no_replicates():
    found = one_set_up.concluded(rng(), 3, SET_UPS_DIFFER, "blocked-random", 9)
    assert found["detectable"] / found["comparisons"] > 0.6, "the runs are as those that misled before"
    assert found["claims"] == 0


@pytest.mark.parametrize(("most", "share"), [(3, 0.05), (5, 0.10), (9, 0.16)])
def test_stopping_at_the_first_block_that_says_different_misleads_as_often_as_the_documentation_says(most, share):
    d = rng().standard_normal((20_000, most))
    looks = [
        np.abs(d[:, :n].mean(1)) / d[:, :n].std(1, ddof=1) * np.sqrt(n) > t.ppf(0.975, n - 1)
        for n in range(3, most + 1)
    ]
    assert np.any(looks, axis=0).mean() == pytest.approx(share, abs=0.008)


def test_blocks_that_advise_how_many_follow_mislead_where_they_enter():
    """S from the upper 80 % bound of what three blocks vary by, for a mean known to 1.5 of their deviations."""
    d, counts = rng().standard_normal((20_000, 60)), np.arange(3, 61)
    spread = d[:, :3].std(1, ddof=1) * np.sqrt(2 / chi2.ppf(0.2, 2))
    enough = t.ppf(0.975, counts - 1) * spread[:, None] / np.sqrt(counts) <= 1.5
    taken = np.where(enough.any(1), counts[enough.argmax(1)], 60)
    false = 0
    for n in counts:
        held = d[taken == n, :n]
        false += np.sum(np.abs(held.mean(1)) / held.std(1, ddof=1) * np.sqrt(n) > t.ppf(0.975, n - 1))
    assert 0.075 < false / len(d) < 0.1


def test_an_effect_is_seen_as_often_as_the_noncentral_t_says():
    found = powers.changed_reports(rng(), 12, IID, 0.02, 5, 3)
    error = np.sqrt(2 / 3) * 0.005 / np.sqrt(5)
    for word, alpha in (("plain", 0.05), ("after Holm", 0.05 / 112)):
        limit = t.ppf(1 - alpha / 2, 4)
        assert found[word] / found["changed"] == pytest.approx(nct.sf(limit, 4, np.log(1.02) / error), abs=0.1)


def test_a_difference_of_the_margin_is_not_called_equivalent():
    at_margin, none = (powers.equivalent_reports(rng(), 10, IID, change, 5, 3) for change in (powers.MARGIN, 0.0))
    assert at_margin["plain"] / at_margin["changed"] < 0.12
    assert none["after Holm"] / none["changed"] > 0.95


def test_a_maximum_is_not_told_too_high_on_a_plateau():
    for by_pilot in (True, False):
        found = maxima.maximum(rng(), 300, by_pilot, 5, 1)
        assert abs(found["maximum", "error"] / 300) < 0.003
        assert 0.9 < found["maximum", "held"] / 300 < 0.99
        assert found["plateau", "collapses"] <= 6
        assert found[maxima.FALL, "collapses"] / 300 > 0.9


@pytest.mark.parametrize("ratio", [1e-6, 0.01, 0.5])
def test_intervals_of_a_loss_hold_it(ratio: float):
    for cv in (0.0, 0.3):
        found = lossy.held(rng(), 400, ratio, 3, round(100 / ratio), cv)
        assert 0.92 < found["held"] / found["intervals"] < 0.98


@pytest.mark.parametrize("count", set_up_means.COUNTS.values(), ids=set_up_means.COUNTS)
def test_intervals_over_set_ups_hold_the_truth(count: Count):
    found = count(rng(), 400, 5, 3, False)
    assert 0.92 < found["held"] / found["intervals"] < 0.98


def test_the_real_command_says_what_the_functions_find():
    found = commanded.commanded(rng(), 1, SET_UPS_DIFFER, 3, 1)
    assert found["alike"] == found["reports"] == 1


def test_synthetic_records_are_consistent():
    plan = SyntheticPlan(3, 1)
    made = records(plan, plan.drawn(rng(), IID))
    assert len(made) == 252
    assert [difference for record in made[::20] for difference in recompute(record)] == []


def test_the_order_is_that_of_a_plan_in_blocks():
    plan = SyntheticPlan(3, 3)
    rows = plan.drawn(rng(), IID)
    blocks = [row.block for row in rows if row.block is not None]
    assert len(blocks) == len(rows) and blocks == sorted(blocks), "block after block"
    set_ups = [row.set_up for row in rows]
    assert len([one for one, before in zip(set_ups, [None, *set_ups], strict=False) if one != before]) == 3 * 42
    first, second = ([(r.platform, r.background) for r in rows if r.block == block] for block in (1, 2))
    assert first != second, "each in an order of its own"


def test_scenarios_are_what_they_say():
    set_ups = np.repeat(np.arange(400), 25)
    drift = Scenario("d", trials_sd=0, drift_ratio=-0.05).values(rng(), set_ups)
    assert (drift[0], drift[-1], drift.mean()) == pytest.approx((1, 0.95, DRIFT.truth))
    slowed = Scenario("s", trials_sd=0, slowed_ratio=0.2).values(rng(), set_ups)
    assert slowed.mean() == pytest.approx(SLOWED.truth, abs=1e-4)
    assert np.count_nonzero(np.diff(slowed)) <= 2
    alike = AR_MOST.values(rng(), set_ups) - 1
    assert alike.std() == pytest.approx(0.01, rel=0.1)
    assert np.corrcoef(alike[1:], alike[:-1])[0, 1] == pytest.approx(0.9, abs=0.03)
    means = SET_UPS_DIFFER.values(rng(), set_ups).reshape(400, 25).mean(axis=1)
    assert means.std() == pytest.approx(0.01, rel=0.15)


def test_shares_pass_by_their_lower_bound():
    assert lower_bound(0, 100) == 0
    assert lower_bound(70, 1000) == pytest.approx(beta.ppf(0.01, 70, 931))
    assert tolerable(60, 1000) and not tolerable(80, 1000) and not tolerable(0, 0)
    independent = 100 * (0.06 * 112) ** 2 + 100 * 112 * 0.06 * 0.94
    assert not tolerable_of_reports(672, 11_200, round(independent), 100)
    assert tolerable_of_reports(672, 11_200, round(20 * independent), 100), "shared errors are fewer witnesses"


@pytest.mark.parametrize(
    ("plain", "false", "held", "right"),
    [
        (500, 5, 950, True),
        (4200, 5, 950, False),
        (500, 89, 950, False),
        (500, 5, 900, False),
        (0, 0, 1000, False),
    ],
)
def test_a_row_of_the_null_evaluation_fails_outside_its_band(plain: int, false: int, held: int, right: bool):
    table = Table("t", null_evaluation.COLUMNS)
    found = Counter(
        {
            "reports": 100,
            "comparisons": 10_000,
            "means": 1000,
            "plain": plain,
            "plain squares": plain * plain // 100,
            "false reports": false,
            "held": held,
        }
    )
    null_evaluation._row(table, IID, 3, 1, found)
    assert (not table.failures) is right


def test_a_rule_that_never_says_different_fails():
    table = Table("t", powers.COLUMNS)
    found = Counter({"changed": 7000, "claims": 112 * 500, "reports": 500, "plain": 0, "after Holm": 0})
    powers._power_rows(table, 0.02, IID, 5, 3, found)
    assert len(table.failures) == 2


def test_figures_do_not_depend_on_the_number_of_processes():
    cells = [
        Cell(9, lossy.held, (0.01, 3, 1000, 0.0), 40, chunk=10),
        Cell(9, lossy.held, (0.1, 3, 100, 0.3), 20, chunk=10),
    ]
    assert counted(cells, 1) == counted(cells, 2)
    assert counted(cells, 1)[0]["intervals"] == 40
