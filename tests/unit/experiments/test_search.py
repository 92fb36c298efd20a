"""Load search on simulated units under test whose truth is known: where it converges, and what it does not claim."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from labconsole.errors import ConfigError, MeasurementError
from labconsole.experiments.search.goals import Goal, LoadTrial, Measure, SearchResult, parse_goal, search

LINE_PPS = 1_000_000.0
NDR = parse_goal("ndr")
PDR = parse_goal("pdr-0.5%")


def simulated(loss_at: Callable[[float], float], *, generator_pps: float = LINE_PPS) -> Measure:
    """A unit under test with this loss ratio at this load, behind a generator with this maximum."""
    taken = 0

    def measure(duration_s: float, load_pps: float) -> LoadTrial:
        nonlocal taken
        taken += 1
        intended = round(load_pps * duration_s)
        offered = round(min(load_pps, generator_pps) * duration_s)
        lost = round(offered * loss_at(min(load_pps, generator_pps)))
        return LoadTrial(
            run_id=f"run-{taken}",
            load_pps=load_pps,
            duration_s=duration_s,
            intended_packets=intended,
            offered_packets=offered,
            measured_packets=offered - lost,
        )

    return measure


def find(measure: Measure, *goals: Goal) -> SearchResult:
    return search(measure, goals or (NDR,), minimum_pps=1000, maximum_pps=LINE_PPS)


def step(capacity_pps: float) -> Callable[[float], float]:
    return lambda load: max(0.0, 1 - capacity_pps / load)


@pytest.mark.parametrize("capacity_pps", [3_000.0, 47_000.0, 333_333.0, 900_000.0])
def test_a_unit_that_drops_what_exceeds_its_capacity_is_found_to_half_a_per_cent(capacity_pps: float) -> None:
    (found,) = find(simulated(step(capacity_pps))).goals
    assert found.lower_bound_pps is not None
    assert found.upper_bound_pps is not None
    assert found.lower_bound_pps <= capacity_pps <= found.upper_bound_pps
    assert found.upper_bound_pps / found.lower_bound_pps < 1.0051
    assert found.limited_by == "uut"


def test_a_partial_drop_goal_allows_its_share_of_loss() -> None:
    found = find(simulated(step(200_000)), NDR, PDR).goals
    ndr, pdr = found
    assert ndr.lower_bound_pps is not None
    assert pdr.lower_bound_pps is not None
    assert ndr.lower_bound_pps <= 200_000 < pdr.lower_bound_pps <= 200_000 / 0.995


def test_a_unit_that_never_loses_is_limited_by_the_line_and_no_upper_bound_is_invented() -> None:
    (found,) = find(simulated(lambda _load: 0.0)).goals
    assert (found.upper_bound_pps, found.limited_by) == (None, "line_rate")
    assert found.lower_bound_pps == pytest.approx(LINE_PPS)


def test_a_unit_that_always_loses_has_no_lower_bound() -> None:
    (found,) = find(simulated(lambda _load: 0.1)).goals
    assert (found.lower_bound_pps, found.conditional_throughput_pps, found.limited_by) == (None, None, "below_minimum")


def test_a_generators_maximum_is_not_called_the_units() -> None:
    (found,) = find(simulated(lambda _load: 0.0, generator_pps=250_000)).goals
    assert found.lower_bound_pps is not None
    assert found.lower_bound_pps <= 250_000
    assert found.limited_by == "generator"


def test_what_a_source_or_a_sink_lost_by_itself_is_not_called_the_units() -> None:
    def deaf(duration_s: float, load_pps: float) -> LoadTrial:
        trial = simulated(step(250_000))(duration_s, load_pps)
        return replace(trial, lost_outside_packets=trial.offered_packets - trial.measured_packets)

    (found,) = find(deaf).goals
    assert found.lower_bound_pps is not None
    assert found.lower_bound_pps <= 250_000
    assert found.limited_by == "instrument"


def queueing(capacity_pps: float, buffer_packets: int) -> Measure:
    """A unit that forwards so much, and keeps what is more until its buffer is full: nothing else is lost."""

    def measure(duration_s: float, load_pps: float) -> LoadTrial:
        sent = round(load_pps * duration_s)
        over = max(0, round((load_pps - capacity_pps) * duration_s))
        buffered = min(over, buffer_packets)
        return LoadTrial(
            run_id="",
            load_pps=load_pps,
            duration_s=duration_s,
            intended_packets=sent,
            offered_packets=sent,
            measured_packets=sent - over + buffered,
            queued_packets=max(0, buffered - round(0.01 * capacity_pps)),
        )

    return measure


@pytest.mark.parametrize("goal", ["ndr", "pdr-0.5%", "pdr-5%"])
def test_what_a_queue_holds_when_the_source_stops_is_not_forwarded(goal: str) -> None:
    """A buffer of half a second passes 50 % more than is forwarded, for a second, without losing a packet."""
    (found,) = find(queueing(200_000, 100_000), parse_goal(goal)).goals
    assert found.lower_bound_pps is not None
    allowed = parse_goal(goal).loss_ratio
    # What passes unseen is at most as much as the goal allows, or a thousandth.
    assert 0.99 * 200_000 <= found.lower_bound_pps <= 200_000 / (1 - allowed) * (1 + max(allowed, 0.001)) * 1.001
    assert found.limited_by == "uut"


def test_what_the_source_lost_before_the_wire_is_not_called_the_units() -> None:
    def leaky(duration_s: float, load_pps: float) -> LoadTrial:
        trial = simulated(lambda _load: 0.0, generator_pps=250_000)(duration_s, load_pps)
        return replace(trial, source_lost_packets=trial.intended_packets - trial.offered_packets)

    (found,) = find(leaky).goals
    assert found.limited_by == "instrument"


def test_a_collapse_beyond_the_maximum_does_not_mislead_the_search() -> None:
    def collapsing(load: float) -> float:
        forwarded = load if load <= 300_000 else max(20_000.0, 300_000 - 2 * (load - 300_000))
        return 1 - forwarded / load

    (found,) = find(simulated(collapsing)).goals
    assert found.lower_bound_pps is not None
    assert 300_000 * 0.99 <= found.lower_bound_pps <= 300_000


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_unit_still_gets_bounds_near_its_typical_capacity(seed: int) -> None:
    rng = random.Random(seed)

    def noisy(load: float) -> float:
        return max(0.0, 1 - rng.gauss(400_000, 4_000) / load)

    (found,) = find(simulated(noisy)).goals
    assert found.lower_bound_pps is not None
    assert 400_000 * 0.96 <= found.lower_bound_pps <= 400_000 * 1.04


def test_rare_bursts_of_loss_are_forgiven_by_a_goal_that_allows_half_of_the_trials_to_exceed() -> None:
    rng = random.Random(7)

    def bursty(load: float) -> float:
        return 0.01 if load <= 500_000 and rng.random() < 0.1 else max(0.0, 1 - 500_000 / load)

    strict = parse_goal("rfc2544")
    forgiving, unforgiving = find(simulated(bursty), NDR, strict).goals
    assert forgiving.lower_bound_pps is not None
    assert forgiving.lower_bound_pps >= 490_000
    assert unforgiving.lower_bound_pps is None or unforgiving.lower_bound_pps <= forgiving.lower_bound_pps


@pytest.mark.parametrize("line_pps", [800.0, 8_202.0, 14_880_952.0, 2e9])
def test_any_line_rate_can_be_searched(line_pps: float) -> None:
    measure = simulated(step(line_pps / 3), generator_pps=line_pps)
    (found,) = search(measure, [NDR], minimum_pps=line_pps / 1000, maximum_pps=line_pps).goals
    assert found.lower_bound_pps == pytest.approx(line_pps / 3, rel=0.01)


def test_every_trial_is_listed_with_its_run() -> None:
    result = find(simulated(step(100_000)))
    assert [trial.run_id for trial in result.trials] == [f"run-{i}" for i in range(1, len(result.trials) + 1)]


def test_a_trial_that_cannot_be_taken_ends_the_search_with_its_own_error() -> None:
    def broken(_duration_s: float, _load_pps: float) -> LoadTrial:
        raise MeasurementError("the sink is gone")

    with pytest.raises(MeasurementError, match="the sink is gone"):
        find(broken)


@pytest.mark.parametrize("text", ["", "pdr", "pdr-0%", "pdr-100%", "pdr-x%", "NDR"])
def test_what_is_no_goal_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match="pdr-X%"):
        parse_goal(text)
