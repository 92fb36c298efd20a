"""A value that is off its group, and how often clean groups have one."""

import numpy as np
import pytest

from labconsole.measure.statistics.set_ups import find_outlier

FELLOWS = [{"a1": 120.0, "a2": 120.5, "a3": 119.6}, {"b1": 121.0, "b2": 120.4, "b3": 120.6}]


@pytest.mark.parametrize("value", [96.0, 140.0])
def test_the_one_that_is_off_is_named_and_by_how_much(value):
    found = find_outlier([*FELLOWS, {"c1": 120.2, "c2": value, "c3": 119.9}])
    assert found is not None and found.key == "c2"
    assert found.change_ratio == pytest.approx(value / np.sqrt(120.2 * 119.9) - 1)
    logs = [np.log(list(group.values())) for group in (*FELLOWS, {"c1": 120.2, "c3": 119.9})]
    assert found.sd_log == pytest.approx(np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in logs) / 5))


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [{"a": 1.0}],
        [{"a": 1.0, "b": 2.0}],
        FELLOWS,
        [{"a": 0.0, "b": 1.0, "c": 5.0}],
        [{"a": 1.0, "b": 3.0}, *FELLOWS],  # of two either may be the one
        [{"a": 100.0, "b": 100.0, "c": 100.001}, {"d": 100.0, "e": 100.0, "f": 100.0}],  # a packet more
    ],
)
def test_nothing_is_off_where_it_cannot_be_told(groups):
    assert find_outlier(groups) is None


def test_of_equal_values_but_for_the_next_step_none_is_off():
    """Searches whose loads move in steps of 0.5 %: of 18 all find the same, but for one."""
    groups = [{(row, n): 30_000.0 for n in range(3)} for row in range(6)]
    groups[5][5, 0] /= 1.005
    assert find_outlier(groups, 0.005 / np.sqrt(12)) is None
    assert find_outlier(groups) is not None
    groups[5][5, 0] /= 1.01
    found = find_outlier(groups, 0.005 / np.sqrt(12))
    assert found is not None and found.key == (5, 0), "three steps are no chance"


def test_one_group_in_a_hundred_has_one_by_chance():
    rng, flagged = np.random.default_rng(3), 0
    for _ in range(3000):
        groups = [dict(enumerate(np.exp(0.005 * rng.standard_normal(3)), 3 * number)) for number in range(4)]
        flagged += find_outlier(groups) is not None
    assert flagged <= 45
