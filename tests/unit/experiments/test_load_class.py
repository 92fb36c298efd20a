"""Load classification against the library's own, and what no search may ever claim, on units that behave anyhow."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat
from MLRsearch.trial_measurement import MeasurementResult

from labconsole.experiments.search.goals import (
    GOALS,
    Goal,
    LoadTrial,
    conditional_throughput_pps,
    goal_result,
    group_by_load,
    meets,
    parse_goal,
    search,
)

LINE_PPS = 1_000_000.0


def trial(number: int, load_pps: float, duration_s: float, offered: int, measured: int, intended: int) -> LoadTrial:
    return LoadTrial(
        run_id=f"run-{number}",
        load_pps=load_pps,
        duration_s=duration_s,
        intended_packets=intended,
        offered_packets=offered,
        measured_packets=measured,
    )


@st.composite
def trials_at_one_load(draw: st.DrawFn) -> list[LoadTrial]:
    found = []
    for number in range(draw(st.integers(1, 12))):
        intended = draw(st.integers(1, 1000))
        offered = draw(st.integers(0, intended))
        duration_s = draw(st.sampled_from([0.5, 1.0, 60.0]))
        found.append(trial(number, 1000.0, duration_s, offered, draw(st.integers(0, offered)), intended))
    return found


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    preset = draw(st.sampled_from([*GOALS.values(), parse_goal("pdr-0.5%"), parse_goal("pdr-20%")]))
    return replace(preset, trial_duration_s=draw(st.sampled_from([0.5, 1.0, 60.0])))


def theirs(goal: Goal, trials: list[LoadTrial]) -> TargetStat:
    spec = TargetSpec(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        discrete_width=None,
        trial_duration=goal.trial_duration_s,
        duration_sum=goal.duration_sum_s,
        expansion_coefficient=2,
        fail_fast=False,
        preceding=None,
    )
    stat = TargetStat(spec)
    for each in trials:
        stat.add(
            MeasurementResult(
                intended_duration=each.duration_s,
                intended_load=each.load_pps,
                offered_count=each.offered_packets,
                forwarding_count=each.measured_packets,
                intended_count=each.intended_packets,
            )
        )
    return stat


@given(goals(), trials_at_one_load())
def test_a_load_is_classified_as_the_library_does(goal: Goal, trials: list[LoadTrial]) -> None:
    goal = replace(goal, duration_sum_s=max(goal.duration_sum_s, goal.trial_duration_s))
    stat = theirs(goal, trials)
    optimistic, pessimistic = stat.estimates()
    assert meets(goal, trials) == (optimistic if optimistic == pessimistic else None)
    lost = 1 - conditional_throughput_pps(goal, 1000.0, trials) / 1000.0
    expected = stat.pessimistic_loss_ratio
    assert abs(lost - (1.0 if expected is None else expected)) < 1e-9


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    capacity=st.floats(500, 2_000_000),
    generator=st.floats(800, LINE_PPS),
    noise=st.sampled_from([0.0, 0.001, 0.05]),
    burst_share=st.sampled_from([0.0, 0.1, 0.6]),
    collapse=st.floats(0, 3),
    outside=st.booleans(),
    most=st.integers(1, 400),
    chosen=st.lists(st.sampled_from(["ndr", "pdr-0.5%", "pdr-10%", "rfc2544", "tst009"]), min_size=1, unique=True),
)
def test_no_unit_however_it_behaves_gets_a_bound_that_no_trial_supports(
    seed: int,
    capacity: float,
    generator: float,
    noise: float,
    burst_share: float,
    collapse: float,
    outside: bool,
    most: int,
    chosen: list[str],
) -> None:
    rng = random.Random(seed)

    def measure(duration_s: float, load_pps: float) -> LoadTrial:
        intended = max(1, round(load_pps * duration_s))
        offered = min(intended, round(generator * duration_s))
        able = rng.gauss(capacity, capacity * noise)
        over = max(0.0, min(load_pps, generator) - able)
        forwarded = max(0.0, min(load_pps, generator, able) - collapse * over) * duration_s
        if rng.random() < burst_share:
            forwarded *= 0.99
        measured = min(offered, max(0, round(forwarded)))
        made = trial(rng.randrange(10**9), load_pps, duration_s, offered, measured, intended)
        return replace(made, lost_outside_packets=offered - measured) if outside else made

    asked = [parse_goal(word) for word in chosen]
    found = search(measure, asked, minimum_pps=LINE_PPS / 1000, maximum_pps=LINE_PPS, max_trials=most)
    assert len(found.trials) <= most
    loads = group_by_load(found.trials)
    for result in found.goals:
        lower, upper = result.lower_bound_pps, result.upper_bound_pps
        if lower is not None:
            assert meets(result.goal, loads[lower]) is True
            assert set(result.lower_run_ids) == {t.run_id for t in loads[lower]}  # type: ignore[attr-defined]
            assert 0 <= result.conditional_throughput_pps <= lower  # type: ignore[operator]
            assert lower * (1 - result.goal.loss_ratio) <= generator * 1.01 + 1
        if upper is not None:
            assert meets(result.goal, loads[upper]) is False
        if lower is not None and upper is not None:
            assert lower < upper
        if found.ended_early is None:
            assert result.complete
            assert result.limited_by != "undecided"
        if outside and result.limited_by == "uut":
            assert result.goal.loss_ratio == 0
        assert (result.limited_by == "line_rate") <= (upper is None and lower is not None)
        assert (result.limited_by == "below_minimum") <= (lower is None and upper is not None)
        again = goal_result(result.goal, found.trials, minimum_pps=LINE_PPS / 1000, maximum_pps=LINE_PPS)
        assert again == result
