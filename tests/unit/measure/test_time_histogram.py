"""Histograms of times, held against HdrHistogram's own."""

from __future__ import annotations

import base64
import random

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from labconsole.measure.time_histogram import TimeHistogram, bucket_of, highest_ns, lowest_ns
from labconsole.wire.packet_times import BUCKETS, HIGHEST_BITS

HIGHEST_NS = (1 << HIGHEST_BITS) - 1
times_ns = st.integers(0, HIGHEST_NS)


def reference() -> HdrHistogram:
    return HdrHistogram(1, HIGHEST_NS, 2)


def ours(values: list[int]) -> TimeHistogram:
    packets: dict[int, int] = {}
    for value in values:
        packets[bucket_of(value)] = packets.get(bucket_of(value), 0) + 1
    return TimeHistogram(dict(sorted(packets.items())))


@given(times_ns)
def test_a_bucket_holds_what_falls_into_it_and_is_narrow(value_ns: int) -> None:
    bucket = bucket_of(value_ns)
    assert 0 <= bucket < BUCKETS
    assert lowest_ns(bucket) <= value_ns <= highest_ns(bucket)
    assert highest_ns(bucket) - lowest_ns(bucket) <= value_ns / 128
    assert lowest_ns(bucket + 1) == highest_ns(bucket) + 1


@given(times_ns)
def test_buckets_are_those_of_hdrhistogram(value_ns: int) -> None:
    counts = reference()
    counts.record_value(value_ns)
    assert highest_ns(bucket_of(value_ns)) == counts.get_highest_equivalent_value(value_ns)
    assert lowest_ns(bucket_of(value_ns)) == counts.get_lowest_equivalent_value(value_ns)


def test_what_is_beyond_the_end_is_in_the_last_bucket_and_what_is_before_it_nowhere() -> None:
    assert bucket_of(1 << 60) == BUCKETS - 1
    with pytest.raises(ValueError, match="-1 ns"):
        bucket_of(-1)


@given(st.lists(times_ns, min_size=1, max_size=200))
def test_its_encoding_is_read_by_hdrhistogram_and_the_other_way_round(values: list[int]) -> None:
    made, counts = ours(values), reference()
    for value in values:
        counts.record_value(value)
    there = HdrHistogram.decode(made.encoded())
    assert there.get_total_count() == len(values) == made.total
    for rank in {1, (len(values) + 1) // 2, len(values)}:  # between ranks that library rounds, where others go up
        percent = 100 * rank / len(values)
        assert there.get_value_at_percentile(percent) == counts.get_value_at_percentile(percent)
        assert made.quantile_ns(rank / len(values)) == counts.get_value_at_percentile(percent)
    assert TimeHistogram.decoded(made.encoded()) == made
    assert TimeHistogram.decoded(counts.encode().decode()) == made


def test_quantiles_are_those_of_the_values() -> None:
    drawn = random.Random(7)
    values = sorted(round(drawn.lognormvariate(10, 2)) for _ in range(20_000))
    made = ours(values)
    for ratio in (0.1, 0.5, 0.9, 0.99, 0.999):
        exact = values[round(ratio * len(values)) - 1]
        assert exact <= made.quantile_ns(ratio) <= exact * (1 + 1 / 128)


def test_two_are_added() -> None:
    left, right = ours([1, 2, 300_000]), ours([2, 5_000_000_000])
    assert left.added(right) == ours([1, 2, 2, 300_000, 5_000_000_000])


def test_ranks_are_those_of_whole_numbers_however_many_there_are() -> None:
    many = TimeHistogram({100: 10**18 + 100})
    assert many.quantile_ns(1) == many.quantile_ns(0.999) == 100
    tail = TimeHistogram({1: 9_999, 2: 1})
    assert (tail.quantile_ns(0.9999), tail.supported_quantile_ns(0.9999)) == (1, 1)
    assert (
        TimeHistogram({1: 9_998, 2: 1}).supported_quantile_ns(0.9999),
        TimeHistogram({1: 1000}).supported_quantile_ns(0.999),
    ) == (None, 1)


def test_of_nothing_there_are_no_quantiles() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        TimeHistogram({}).quantile_ns(0.5)


def encoded_of(*values: int) -> bytes:
    return base64.b64decode(ours(list(values)).encoded())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none of it",
        "ÄÖÜ",
        base64.b64encode(b"\0" * 40).decode(),
        base64.b64encode(encoded_of(1, 2, 3)[:-3]).decode(),
        base64.b64encode(encoded_of(1, 2, 3) + b"more").decode(),
        TimeHistogram({}).encoded(),
        HdrHistogram(1, 10**6, 3).encode().decode(),
    ],
)
def test_what_is_no_such_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HdrHistogram"):
        TimeHistogram.decoded(text)
