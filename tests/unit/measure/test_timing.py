"""Delay, delay variation and spacing from captures: against a naive reckoning, and when delay may be called one-way."""

from __future__ import annotations

import math
import random
import struct
from itertools import pairwise

import pytest

from labconsole.measure.timing import build_delay, clock_bound_ns
from labconsole.packets.analysis import CaptureAnalysis
from labconsole.packets.delay import MAX_PAIRS, PairPlaces
from labconsole.packets.frame import FrameTemplate
from labconsole.wire.capture import CountedDelay
from support.capture_samples import Packet, analyze_buffer, enhanced, interface, section
from support.observed_trials import bent

SENT_NS = 1_700_000_000_000_000_000


HEAD = FrameTemplate(bytes(6), bytes(6), "198.18.1.1", "198.19.1.1", 9, 9, 64).frame(1, 0)[:46]


def pcap(frames: list[tuple[int, int, int]]) -> bytes:
    """A capture in ns of frames (arrived, number, sent or 0 for no stamp), 64 bytes each."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 64, 1)]
    for at_ns, number, sent_ns in frames:
        parts.append(struct.pack("<IIII", *divmod(at_ns, 10**9), 64, 64) + HEAD)
        parts.append(struct.pack(">III", number, sent_ns // 10**9, sent_ns % 10**9 // 1000) + bytes(6))
    return b"".join(parts)


def capture(delays_ns: list[int], *, gap_ns: int = 10_000, stamped: bool = True) -> bytes:
    """A capture of frames sent ``gap_ns`` apart (stamped to the microsecond), each arriving after its delay."""
    sent = [SENT_NS + number * gap_ns for number in range(len(delays_ns))]
    return pcap(
        [(at + delay, n + 1, at if stamped else 0) for n, (at, delay) in enumerate(zip(sent, delays_ns, strict=True))]
    )


def nearest_rank(values: list[int], share: float) -> int:
    return sorted(values)[math.ceil(len(values) * share - 1e-9) - 1]


def delay_of(data: bytes | list[bytes], **options) -> dict:
    (stream,) = analyze_buffer(data, **options)["streams"]
    assert stream["delay_error"] is None
    return stream["delay"]


@pytest.mark.parametrize("numpy", [False, True])
def test_few_packets_are_all_looked_at(numpy):
    draw = random.Random(1)
    delays = [1000 * draw.randrange(20, 500) for _ in range(5000)]
    found = delay_of(capture(delays), use_numpy=numpy)
    assert (found["packets"], found["pair_every_packets"]) == (5000, 1)
    raw = found["raw_ns"]
    assert (raw["min"], raw["max"]) == (min(delays), max(delays))
    assert raw["mean"] == pytest.approx(sum(delays) / len(delays))
    assert raw["p999"] == nearest_rank(delays, 0.999)
    assert found["pdv_ns"]["p99"] == nearest_rank([d - min(delays) for d in delays], 0.99)
    neighbours = [abs(b - a) for a, b in pairwise(delays)]
    assert found["ipdv_ns"]["max"] == max(neighbours)
    assert found["ipdv_ns"]["mean"] == pytest.approx(sum(neighbours) / len(neighbours))


@pytest.mark.parametrize("cut", [70_000, 1_000_003])
def test_many_packets_are_sampled_alike_however_they_come(cut):
    """The sample depends on the packets' numbers and the seed: not on numpy, nor on how the file was cut into pieces."""
    draw = random.Random(2)
    packets = 6 * MAX_PAIRS + 17
    delays = [1000 * draw.randrange(20, 500) for _ in range(packets)]
    data = capture(delays)
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    found = [delay_of(data, use_numpy=True), delay_of(data, use_numpy=False), delay_of(pieces, use_numpy=False)]
    assert found[0] == found[1] == found[2]
    every = found[0]["pair_every_packets"]
    assert every == 8
    places = PairPlaces(0)
    begins = [at for at in range(packets) if places.last_level(at) >= 3]
    sample = {at: delays[at] for first in begins for at in (first, first + 1) if at < packets}
    assert found[0]["packets"] == len(sample)
    assert found[0]["raw_ns"]["p50"] == nearest_rank(list(sample.values()), 0.5)
    between = [abs(delays[at + 1] - delays[at]) for at in begins if at + 1 < packets]
    assert found[0]["ipdv_ns"]["mean"] == pytest.approx(sum(between) / len(between))


def test_one_packet_at_a_time_gives_the_same_sample_as_many_at_once():
    draw = random.Random(3)
    data = capture([1000 * draw.randrange(20, 500) for _ in range(2 * MAX_PAIRS + 5)])
    singly = CaptureAnalysis(sampling_seed=7)
    singly._singly = 1 << 40
    at_once = CaptureAnalysis(sampling_seed=7)
    other = CaptureAnalysis(sampling_seed=8)
    for analysis in (singly, at_once, other):
        analysis.feed(data)
    found = [analysis.report()["streams"][0]["delay"] for analysis in (singly, at_once, other)]
    assert found[0] == found[1] != found[2]


def test_the_places_of_pairs_are_random_nested_and_as_many_in_every_block():
    for seed in (0, 1, 2**32 - 1):
        places = PairPlaces(seed)
        before = set(places.find_places(0, 5 * 4096)[0])
        for level in range(1, 13):
            places.level = level
            now, last_levels = places.find_places(0, 5 * 4096)
            assert set(now) < before
            assert now == [at for at in range(5 * 4096) if places.last_level(at) >= level]
            assert len(now) == 5 * 4096 >> level
            assert list(last_levels) == [places.last_level(at) for at in now]
            assert places.find_places(100, 9000)[0] == [at for at in now if 100 <= at < 9000]
            before = set(now)
        places.level = 16
        now, _ = places.find_places(0, 4096 << 12)
        assert 180 < len(now) < 340  # of 256 expected: here whole blocks are left out at random
        assert all(places.last_level(at) >= 16 for at in now)


def test_frames_that_are_stamped_by_the_burst_are_seen_at_every_place_of_it():
    """Bursts of 32 that go out 1 µs apart with one stamp: every second, fourth, ... of them stands at one place."""
    delays = [1000 * (5 + at % 32) for at in range(40 * MAX_PAIRS)]
    found = delay_of(capture(delays, gap_ns=1000))
    assert found["pair_every_packets"] == 64
    assert found["raw_ns"]["p50"] == pytest.approx(nearest_rank(delays, 0.5), abs=1000)
    assert found["raw_ns"]["p99"] == pytest.approx(nearest_rank(delays, 0.99), abs=1000)
    # One pair in 32 is of two bursts.
    assert found["ipdv_ns"]["mean"] == pytest.approx((31 * 1000 + 31_000) / 32, rel=0.1)


def test_a_stamp_of_whole_microseconds_is_in_the_bound():
    assert build_delay(COUNTED, clocks_ns=0, stamp_lead_ns=0).clock_bound_ns == 1000
    short = bent(COUNTED, raw_ns=bent(COUNTED.raw_ns, p50=9_999))
    coarse = build_delay(short, clocks_ns=0, stamp_lead_ns=0)
    assert not coarse.one_way
    assert coarse.reason == "frames are stamped to 1000 ns only, too coarse for a median of 9999 ns"
    assert coarse.sampling == "random"


def test_frames_without_time_stamps_have_no_delay_and_say_why():
    (stream,) = analyze_buffer(capture([50_000] * 100, stamped=False))["streams"]
    assert stream["delay"] is None
    assert "without a time stamp" in stream["delay_error"]


@pytest.mark.parametrize("units", [2**62, 2**64 - 100])
@pytest.mark.parametrize("numpy", [False, True])
def test_times_that_no_clock_has_give_no_delay_and_no_crash(units, numpy):
    """pcapng may count seconds in 64 bits: a delay of that size fits no number that is kept."""
    packets = [enhanced(Packet(0, number=n + 1), units=units + n) for n in range(40)]
    data = b"".join([section(), interface(resolution=0), *packets])
    (stream,) = analyze_buffer(data, use_numpy=numpy)["streams"]
    assert stream["delay"] is None
    assert "time stamp" in stream["delay_error"]
    analysis = CaptureAnalysis(spacing_gap_ns=0)
    analysis.feed(data)
    assert analysis.report()["streams"][0]["spacing"] is None


def spacing_of(arrivals_ns: list[int], gap_ns: int) -> dict:
    analysis = CaptureAnalysis(spacing_gap_ns=gap_ns)
    analysis.feed(pcap([(SENT_NS + at, number + 1, SENT_NS) for number, at in enumerate(arrivals_ns)]))
    (stream,) = analysis.report()["streams"]
    return stream["spacing"]


def test_a_stall_and_what_catches_up_after_it_is_a_burst_and_a_peak():
    even = [number * 10_000 for number in range(20_000)]
    steady = spacing_of(even, 10_000)
    assert steady["burst_packets"] == 1
    assert steady["peak_packets"] == {"1": 100, "10": 1000, "100": 10_000}
    # Nothing for 3 ms after the 5000th, then 1 µs apart until it has caught up.
    late = [max(at, 53_000_000 + 1_000 * (number - 5000)) if number >= 5000 else at for number, at in enumerate(even)]
    caught = spacing_of(late, 10_000)
    assert 300 <= caught["burst_packets"] <= 340
    assert 390 <= caught["peak_packets"]["1"] <= 440
    assert caught["gap_ns"]["max"] == 3_010_000


def test_what_is_shorter_than_a_window_has_no_peak_in_it():
    assert spacing_of([0, 100_000, 500_000], 0)["peak_packets"] == {"1": None, "10": None, "100": None}


COUNTED = CountedDelay.parse(
    {
        "packets": 100,
        "pair_every_packets": 2,
        "raw_ns": {"min": 40_000, "mean": 60_000.0, "p50": 60_000, "p99": 80_000, "p999": 90_000, "max": 95_000},
        "pdv_ns": {"p50": 20_000, "p99": 40_000, "p999": 50_000, "max": 55_000},
        "ipdv_ns": None,
    }
)


def test_delay_is_one_way_only_where_the_clocks_agree_far_better_than_it_is_long():
    assert build_delay(COUNTED, clocks_ns=0, stamp_lead_ns=0).one_way
    assert build_delay(COUNTED, clocks_ns=5_000, stamp_lead_ns=0).one_way_ns.p50 == 60_000
    coarse = build_delay(COUNTED, clocks_ns=5_001, stamp_lead_ns=0)
    assert (coarse.one_way, coarse.one_way_ns) == (False, None)
    assert "clocks" in coarse.reason
    assert coarse.pdv_ns.p99 == 40_000  # variation needs no clocks that agree
    unknown = build_delay(COUNTED, clocks_ns=None, stamp_lead_ns=0)
    assert (unknown.one_way, unknown.clock_bound_ns) == (False, None)
    assert build_delay(None, clocks_ns=0, stamp_lead_ns=0) is None


def test_a_generator_that_stamps_before_it_waits_blurs_the_delay():
    slow = build_delay(COUNTED, clocks_ns=0, stamp_lead_ns=70_000)
    assert not slow.one_way
    assert "stamps frames" in slow.reason


def test_nodes_of_one_boot_share_a_clock_and_others_are_as_far_apart_as_they_may_be():
    one = {"facts": {"boot_id": "a"}, "clock_offset_ns": 900, "clock_error_ns": 100}
    assert clock_bound_ns(one, {**one, "clock_offset_ns": -5}) == 0
    other = {"facts": {"boot_id": "b"}, "clock_offset_ns": -100, "clock_error_ns": 50}
    assert clock_bound_ns(one, other) == 1000 + 150
    assert clock_bound_ns(one, {"facts": {}, "clock_offset_ns": None, "clock_error_ns": 50}) is None
