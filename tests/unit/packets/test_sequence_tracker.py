"""Sequence numbers and gaps against naive counts, and what happens when they are made to hurt."""

from __future__ import annotations

import json
from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.packets import sequence as module
from labconsole.packets.sequence import GapStatistics, SequenceTracker, StreamCounts, bucket_of, bucket_width
from support.capture_samples import naive_gaps, naive_sequence


def tracked(numbers: list[int]) -> SequenceTracker:
    tracker = SequenceTracker()
    for number in numbers:
        tracker.add_run(number, 1)
    return tracker


near_the_wrap = st.integers(-40, 40).map(lambda offset: offset % 2**32)


@given(st.lists(near_the_wrap | st.integers(0, 60), min_size=1, max_size=60))
def test_any_order_of_arrival_is_judged_as_by_a_set_of_what_was_seen(numbers):
    assert tracked(numbers).report() == (naive_sequence(numbers), None)


@given(st.lists(st.tuples(near_the_wrap, st.integers(1, 30)), min_size=1, max_size=30))
def test_runs_count_like_their_packets(runs):
    numbers = [(first + k) % 2**32 for first, count in runs for k in range(count)]
    tracker = SequenceTracker()
    for first, count in runs:
        tracker.add_run(first, count)
    assert tracker.report() == tracked(numbers).report() == (naive_sequence(numbers), None)


@pytest.mark.parametrize(
    "numbers, lost, reordered, duplicates",
    [
        ([1, 2, 3], {}, 0, 0),
        ([1, 3, 2], {}, 1, 0),
        ([1, 2, 2], {}, 0, 1),
        ([3, 1, 1], {"1": 1}, 1, 1),
        ([1, 5, 9], {"3": 2}, 0, 0),
        ([1, 5, 3, 3], {"1": 2}, 1, 1),
        ([2**32 - 1, 1, 0], {}, 1, 0),
        ([7], {}, 0, 0),
    ],
)
def test_the_definitions_in_small(numbers, lost, reordered, duplicates):
    report, error = tracked(numbers).report()
    assert report is not None and error is None
    assert report["lost_runs"] == lost
    assert (report["reordered_packets"], report["duplicate_packets"]) == (reordered, duplicates)


def test_many_losses_are_settled_in_bounded_memory_and_still_counted_exactly(monkeypatch):
    monkeypatch.setattr(module, "MAX_INTERVALS", 64)
    random = Random(1)
    numbers = [number for number in range(20_000) if random.random() < 0.5]
    for at in range(0, len(numbers) - 5, 50):
        numbers[at], numbers[at + 3] = numbers[at + 3], numbers[at]
    tracker = tracked(numbers)
    assert len(tracker._starts) <= 65
    assert tracker.report() == (naive_sequence(numbers), None)


def test_a_packet_later_than_can_be_remembered_takes_the_result_away_instead_of_guessing(monkeypatch):
    monkeypatch.setattr(module, "MAX_INTERVALS", 64)
    tracker = tracked([*range(0, 1000, 2), 1])
    report, error = tracker.report()
    assert report is None
    assert error is not None and "late" in error
    tracker.add_run(2000, 5)
    assert tracker.report()[0] is None


def test_random_numbers_end_without_a_result_and_without_eating_memory():
    random = Random(2)
    tracker = tracked([random.randrange(2**32) for _ in range(200_000)])
    assert tracker.report()[0] is None
    assert len(tracker._starts) <= module.MAX_INTERVALS + 1
    assert len(tracker._run_lengths) <= module.MAX_RUN_LENGTHS


@given(st.lists(st.integers(2, 5), min_size=1, max_size=300), st.integers(0, 40))
def test_rising_numbers_given_at_once_settle_as_they_do_one_by_one(steps, after):
    numbers = [0]
    for step in steps:
        numbers.append(numbers[-1] + step)
    late = numbers[-1] - after
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_INTERVALS", 16)
        one_by_one = tracked(numbers)
        at_once = tracked([0])
        starts = array("q", [number + 1 for number in numbers[:-1]])
        ends = array("q", [number - 1 for number in numbers[1:]])
        at_once.add_forward(starts, ends, numbers[-1])
        for tracker in (one_by_one, at_once):
            tracker.add_run(late % 2**32, 1)
        assert one_by_one.report() == at_once.report()


@given(st.integers(0, 2**70))
def test_a_bucket_holds_its_gap_and_is_at_most_one_percent_wide(gap_ns):
    lowest = bucket_of(gap_ns)
    assert lowest <= gap_ns < lowest + bucket_width(lowest)
    assert bucket_of(lowest) == lowest
    assert (bucket_width(lowest) - 1) * 128 <= lowest


@given(st.lists(st.integers(-50, 10**12), max_size=300), st.integers(1, 400))
def test_gaps_are_exact_while_few_and_within_half_a_percent_when_many(steps, most_exact):
    times = [10**15]
    for step in steps:
        times.append(times[-1] + step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_EXACT_GAPS", most_exact)
        stream = StreamCounts()
        for at_ns in times:
            stream.arrived(at_ns)
        report = stream.gaps.report()
        expected, backward = naive_gaps(times)
    assert stream.gaps.backward_steps == backward
    assert stream.gaps.bucketed == (len({step for step in steps if step >= 0}) > most_exact)
    if not stream.gaps.bucketed:
        assert report == expected
        return
    assert report is not None and expected is not None
    for exact in ("min", "mean", "max"):
        assert report[exact] == expected[exact]
    for percentile in ("p50", "p99"):
        assert abs(report[percentile] - expected[percentile]) * 250 <= expected[percentile]


def test_nothing_arrived_is_no_result():
    report, error = SequenceTracker().report()
    assert report is None and error is not None and "no packet" in error
    assert GapStatistics().report() is None


def test_a_report_is_json():
    assert json.loads(json.dumps(tracked([1, 3, 9]).report()[0]))["lost_runs"] == {"1": 1, "5": 1}
