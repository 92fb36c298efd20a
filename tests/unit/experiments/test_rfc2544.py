"""RFC 2544's further tests on units whose truth is known: the loss sweep's end, bursts through a buffer, mean delay."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.experiments.search.goals import LoadTrial, Measure
from labconsole.experiments.search.rfc2544 import (
    MeasureBurst,
    back_to_back,
    frame_loss_curve,
    frame_loss_points,
    latency,
    longest_burst,
)
from labconsole.model.record.run import OneWayDelay, Quantiles
from labconsole.model.record.search import StreamLatency

LINE_PPS = 100_000.0


def unit(capacity_pps: float) -> Measure:
    def measure(duration_s: float, load_pps: float) -> LoadTrial:
        sent = round(load_pps * duration_s)
        return LoadTrial(
            run_id=f"at-{load_pps:.0f}",
            load_pps=load_pps,
            duration_s=duration_s,
            intended_packets=sent,
            offered_packets=sent,
            measured_packets=min(sent, round(capacity_pps * duration_s)),
            offered_pps=load_pps,
        )

    return measure


def buffer(packets: int, *, speed_ratio: float = 1.0, outside: bool = False) -> MeasureBurst:
    """A unit that takes so many packets at line rate, and a generator that reaches this share of the line rate."""

    def measure(length: int) -> LoadTrial:
        lost = max(0, length - packets)
        return LoadTrial(
            run_id=f"burst-{length}",
            load_pps=LINE_PPS,
            duration_s=length / LINE_PPS,
            intended_packets=length,
            offered_packets=length,
            measured_packets=length - lost,
            lost_outside_packets=lost if outside else 0,
            offered_pps=LINE_PPS * speed_ratio,
        )

    return measure


@pytest.mark.parametrize(
    ("capacity_pps", "loads"),
    [
        (200_000, [1.0, 0.9]),
        (75_000, [1.0, 0.9, 0.8, 0.7, 0.6]),
        (0, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
    ],
)
def test_the_sweep_goes_down_until_two_trials_running_lose_nothing(capacity_pps: float, loads: list[float]) -> None:
    trials = frame_loss_curve(unit(capacity_pps), line_pps=LINE_PPS, step_ratio=0.1, trial_s=1.0)
    points = frame_loss_points(trials, line_pps=LINE_PPS)
    assert [point.share_ratio for point in points] == pytest.approx(loads)
    assert points[0].loss_ratio == pytest.approx(max(0.0, 1 - capacity_pps / LINE_PPS))


def test_one_lucky_trial_does_not_end_the_sweep() -> None:
    lucky = iter([True, False, True, True])

    def measure(duration_s: float, load_pps: float) -> LoadTrial:
        return unit(1e9 if next(lucky) else 10)(duration_s, load_pps)

    assert len(frame_loss_curve(measure, line_pps=LINE_PPS, step_ratio=0.1, trial_s=1.0)) == 4


@given(st.integers(0, 300_000), st.integers(1, 200_000), st.integers(1, 300_000))
def test_the_longest_burst_is_bracketed_whatever_the_buffer_and_the_first_guess(
    packets: int, most: int, first: int
) -> None:
    found = longest_burst(buffer(packets), most_packets=most, first_packets=first, width_ratio=0.01)
    assert found.packets <= packets
    assert len(found.trials) < 60
    if packets >= most:
        assert (found.packets, found.upper_packets) == (most, None)
    else:
        assert found.upper_packets is not None
        assert found.packets <= packets < found.upper_packets
        assert found.upper_packets - found.packets <= max(1, 0.01 * found.packets)


@given(st.integers(0, 2**32))
def test_a_unit_that_loses_at_random_ends_the_search_all_the_same(seed: int) -> None:
    rng = random.Random(seed)
    found = longest_burst(
        lambda length: buffer(rng.randrange(200_000))(length), most_packets=200_000, first_packets=1, width_ratio=0.01
    )
    assert len(found.trials) < 60
    assert found.upper_packets is None or found.packets < found.upper_packets


def test_repetitions_give_mean_spread_and_the_buffer_that_rfc_9004_reckons() -> None:
    searches = [
        longest_burst(buffer(size), most_packets=200_000, first_packets=1, width_ratio=0.0001) for size in (900, 1100)
    ]
    found = back_to_back(searches, sources=1, line_pps=LINE_PPS, throughput_pps=25_000)
    assert (found.mean_packets, found.least_packets, found.most_packets) == (1000, 900, 1100)
    assert found.sd_packets == pytest.approx(141.42, rel=1e-3)
    assert found.buffer_s == pytest.approx(1000 / LINE_PPS * 0.75)
    assert {burst.limited_by for burst in found.bursts} == {"uut"}


@pytest.mark.parametrize(
    ("measure", "limit"),
    [
        (buffer(10**9), "trial_length"),
        (buffer(10**9, speed_ratio=0.5), "generator"),
        (buffer(1000, outside=True), "instrument"),
        (buffer(1000, speed_ratio=0.5), "uut"),
    ],
)
def test_a_burst_says_whose_limit_it_is(measure: MeasureBurst, limit: str) -> None:
    found = longest_burst(measure, most_packets=200_000, first_packets=200_000, width_ratio=0.01)
    (burst,) = back_to_back([found], sources=1, line_pps=LINE_PPS, throughput_pps=1.0).bursts
    assert burst.limited_by == limit


def test_a_burst_that_passed_below_line_rate_gives_no_buffer_time() -> None:
    found = longest_burst(buffer(10**9, speed_ratio=0.5), most_packets=1000, first_packets=1000, width_ratio=0.01)
    result = back_to_back([found], sources=1, line_pps=LINE_PPS, throughput_pps=1.0)
    assert (result.buffer_s, result.reached_ratio) == (None, 0.5)


def stream(p50: int, *, agrees: bool = True) -> StreamLatency:
    delay = OneWayDelay(min=1, mean=p50, p50=p50, p99=p50, p999=p50, max=p50)
    return StreamLatency(
        run_id="r",
        stream="s1",
        one_way_ns=delay if agrees else None,
        reason=None if agrees else "clocks differ",
        pdv_ns=Quantiles(p50=p50, p99=p50, p999=p50, max=p50),
        ipdv_ns=None,
    )


def test_delay_is_averaged_over_trials_and_withheld_where_one_clock_is_in_doubt() -> None:
    both = latency("ndr", 5.0, [stream(100), stream(300)])
    assert both.one_way_mean_ns is not None
    assert both.one_way_mean_ns["p50"] == 200
    doubtful = latency("ndr", 5.0, [stream(100), stream(300, agrees=False)])
    assert (doubtful.one_way_mean_ns, doubtful.reason) == (None, "clocks differ")
    assert doubtful.pdv_mean_ns is not None
    assert latency("ndr", 5.0, []).reason == "the trials have no time stamps"
