"""Which load a maximum is read at, and that reading it elsewhere than where it was chosen is free of the highest's luck."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from labconsole.measure.maximum import choose_maximum, collapse, is_at_least, second_guest_loses
from labconsole.measure.statistics.set_ups import mean_over_set_ups

LOADS = {
    10.0: {1: [10], 2: [10], 3: [10], 4: [10]},
    20.0: {1: [19], 2: [18], 3: [17], 4: [18]},
    30.0: {1: [15], 2: [25], 3: [25], 4: [25]},
}


def test_the_pilots_load_is_read_from_all_blocks():
    found = choose_maximum(LOADS, 30.0)
    assert (found.load, found.method, found.highest, found.is_maximum) == (30, "pilot's load", 30, True)
    assert found.blocks == (1, 2, 3, 4) and found.values == LOADS[30.0]


def test_without_a_pilot_block_1_chooses_and_the_others_are_read():
    found = choose_maximum(LOADS, None)
    assert (found.load, found.blocks) == (20, (2, 3, 4))
    assert found.method == "chosen on block 1, read from the others" and found.is_maximum
    assert mean_over_set_ups(found.values).mean == pytest.approx(53 / 3)


def test_of_loads_that_do_the_same_the_lowest_is_read():
    same = {load: {b: [5.0] for b in range(1, 5)} for load in (30.0, 10.0, 20.0)}
    assert choose_maximum(same, None).load == 10


def test_three_set_ups_are_too_few_to_choose_and_to_read():
    three = {load: {b: v for b, v in values.items() if b < 4} for load, values in LOADS.items()}
    found = choose_maximum(three, None)
    assert (found.load, found.values, found.method) == (None, {}, "too few set-ups to choose")
    assert not found.is_maximum and choose_maximum(three, 20.0).load == 20
    assert choose_maximum({}, None).highest is None


def test_a_single_load_is_a_rate():
    for pilot in (None, 10.0):
        found = choose_maximum({10.0: LOADS[10.0]}, pilot)
        assert (found.load, found.method, found.is_maximum) == (10, "one load: a rate, no maximum", False)
    assert choose_maximum({10.0: LOADS[10.0], 20.0: {}}, None).method == "one load: a rate, no maximum"


def test_a_pilots_load_without_values_is_said():
    some: list[dict[float, Any]] = [{10.0: LOADS[10.0], 20.0: {1: []}}, {10.0: LOADS[10.0]}, {}]
    for loads in some:
        found = choose_maximum(loads, 20.0)
        assert (found.load, found.method) == (None, "the pilot's load was not measured")


def test_blocks_that_are_no_numbers_have_to_be_put_in_order():
    named = {load: {f"b{b}": v for b, v in values.items()} for load, values in LOADS.items()}
    with pytest.raises(ValueError, match="which of them came first"):
        choose_maximum(named, None)
    assert choose_maximum(named, None, "b2").load == 30
    assert choose_maximum(named, None, "b9").method == "too few set-ups to choose"


@pytest.mark.parametrize(
    ("load", "highest", "ratio", "expected"),
    [
        (30, 30, 0.0009, True),
        (30, 30, 0.001, False),
        (20, 30, 0.0, False),
        (30, 30, None, None),
        (None, 30, 0.0, None),
        (math.inf, math.inf, 0.0, True),
    ],
)
def test_a_maximum_at_the_highest_load_without_loss_is_only_at_least(load, highest, ratio, expected):
    assert is_at_least(load, highest, ratio) is expected


def test_a_collapse_is_a_fall_by_more_than_two_per_cent():
    fallen = {b: [v[0] * (0.9 + 0.001 * b)] for b, v in LOADS[20.0].items()}
    loads: dict[float, Any] = {**LOADS, 40.0: fallen}
    found = collapse(choose_maximum(loads, 20.0), fallen)
    assert found.p < 0.001 and found.change == pytest.approx(-0.0975, abs=1e-3) and found.blocks == 4
    slight = {b: [v[0] * (0.985 + 0.001 * b)] for b, v in LOADS[20.0].items()}
    assert collapse(choose_maximum({**LOADS, 40.0: slight}, 20.0), slight).p > 0.9
    assert collapse(choose_maximum(loads, None), fallen).blocks == 3  # not the block that chose
    assert collapse(choose_maximum(loads, 40.0), fallen) is None
    assert collapse(choose_maximum({10.0: LOADS[10.0]}, None), LOADS[10.0]) is None


def test_a_second_guest_loses_more_than_one_per_cent():
    received = {b: 1000.0 + b for b in range(4)}
    assert second_guest_loses({b: v * (0.95 + 0.001 * b) for b, v in received.items()}, received).p < 0.001
    assert second_guest_loses(received, received, packets=1e5).p > 0.99


@pytest.mark.parametrize("pilot", [True, False])
def test_the_maximum_of_a_plateau_is_unbiased_and_covered(pilot: bool):
    rng = random.Random(12)
    reports, held, total, collapsed = 1500, 0, 0.0, 0
    for _ in range(reports):
        loads = {float(load): {b: [rng.gauss(100, 2)] for b in range(1, 10)} for load in range(10)}
        chosen = max(range(10), key=lambda load: rng.gauss(100, 2)) if pilot else None
        choice = choose_maximum(loads, chosen)
        found = mean_over_set_ups(choice.values)
        total += found.mean
        held += found.ci_low <= 100 <= found.ci_high
        fall = collapse(choice, loads[9.0])
        collapsed += fall is not None and fall.p <= 0.05
    assert abs(total / reports / 100 - 1) < 0.002
    assert 0.93 <= held / reports <= 0.97
    assert collapsed / reports <= 0.05
