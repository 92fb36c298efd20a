"""Both ways of counting a capture, against a naive count of the packets that the capture was made from."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.cli.commands.analyze import analyze_path
from labconsole.cli.text.analysis import analysis_lines
from labconsole.errors import CaptureFormatError
from labconsole.measure.numpy_columns import NumpyRuns
from labconsole.packets import analysis as node_side
from labconsole.packets.analysis import CaptureAnalysis
from labconsole.packets.columns import RecordRuns
from labconsole.packets.follower import CaptureFollower, analyze_file
from support.capture_samples import Packet, analyze_buffer, naive_report, pcap, pcapng, traffic

RECORDINGS = Path(__file__).parents[2] / "recordings" / "pktgen"
WAYS: list[type[RecordRuns | NumpyRuns]] = [RecordRuns, NumpyRuns]


def only_keys_of(expected: object, found: object) -> object:
    """The part of ``found`` that the naive report knows about."""
    if isinstance(expected, dict) and isinstance(found, dict) and set(expected) <= set(found):
        if "packets" not in expected:
            return found
        return {key: only_keys_of(expected[key], found[key]) for key in expected}
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [only_keys_of(one, other) for one, other in zip(expected, found, strict=True)]
    return found


def fed_in_pieces(content: bytes, runs: Any, random: Random, largest: int, sending_ns: int | None = None) -> dict:
    analysis, kept, at = CaptureAnalysis(runs, sending_ns=sending_ns), bytearray(), 0
    while at < len(content):
        size = random.randrange(1, largest)
        kept += content[at : at + size]
        at += size
        del kept[: analysis.feed(kept)]
    return analysis.report(unread=bytes(kept))


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    packets=st.integers(1, 700),
    streams=st.integers(1, 3),
    trouble=st.sampled_from([0.0, 0.002, 0.02, 0.3]),
    order=st.sampled_from("<>"),
    unit_ns=st.sampled_from([1000, 1]),
    container=st.sampled_from([pcap, pcapng]),
    chunk_records=st.sampled_from([16, 100, 4096]),
    largest_piece=st.sampled_from([100, 3000, 10**6]),
    sending_ns=st.sampled_from([None, 0, 1_000_000, 90_000_000, 10**12]),
)
def test_both_ways_report_what_a_naive_count_of_the_packets_says(
    seed, packets, streams, trouble, order, unit_ns, container, chunk_records, largest_piece, sending_ns
):
    random = Random(seed)
    made = traffic(random, packets, streams=streams, trouble=trouble)
    content = container(made, order=order, unit_ns=unit_ns)
    reports = []
    for way in WAYS:
        runs = way()
        runs.chunk_records = chunk_records
        reports.append(fed_in_pieces(content, runs, random, largest_piece, sending_ns))
    assert reports[0] == reports[1]
    expected = naive_report(made, unit_ns, sending_ns)
    assert only_keys_of(expected, reports[0]) == expected
    assert not reports[0]["truncated"]
    assert all(stream["gaps_exact"] for stream in reports[0]["streams"])


@pytest.mark.parametrize("way", WAYS)
def test_what_comes_later_than_it_was_sent_is_counted_to_the_packet(way):
    """2000 packets in 1 s, then a queue that empties for another second: what came at the limit itself is in time."""
    first_ns = 1_700_000_000_000_000_000
    packets = [Packet(first_ns + 500_000 * k, k + 1) for k in range(4001)]
    analysis = CaptureAnalysis(way(), sending_ns=10**9)
    analysis.feed(pcap(packets, unit_ns=1))
    (stream,) = analysis.report()["streams"]
    assert (stream["late_packets"], stream["queued_packets"]) == (2000, 1980)


@pytest.mark.parametrize("trouble", [0.0, 0.01])
def test_numbers_that_cross_every_byte_boundary_and_the_wrap_are_followed(trouble):
    for first in (0xFFFF_FF00, 0x0000_FF80, 0x00FF_FF80, 0x1234_FFFF):
        packets = [Packet(1_000_000 * k, (first + k + (k > 600)) % 2**32, identification=k) for k in range(1200)]
        expected = naive_report(packets)
        for use_numpy in (False, True):
            report = analyze_buffer(pcap(packets), use_numpy=use_numpy)
            assert only_keys_of(expected, report) == expected


@pytest.mark.parametrize("use_numpy", [False, True])
def test_half_of_the_packets_lost_at_random_is_counted_exactly(use_numpy):
    random = Random(5)
    numbers = [number for number in range(30_000) if random.random() < 0.5]
    for at in range(100, len(numbers) - 10, 700):
        numbers[at], numbers[at + 4] = numbers[at + 4], numbers[at]
    packets = [Packet(6_000 * k, number) for k, number in enumerate(numbers)]
    expected = naive_report(packets)
    report = analyze_buffer(pcap(packets), use_numpy=use_numpy)
    assert only_keys_of(expected, report) == expected


def test_a_recording_of_real_pktgen_with_a_foreign_frame_in_it():
    for use_numpy in (False, True):
        report = analyze_path(RECORDINGS / "first-500.pcap", use_numpy=use_numpy)
        assert (report["packets"], report["other_packets"], report["truncated"]) == (500, 1, False)
        stream = report["streams"][0]
        assert (stream["source_ip"], stream["sink_ip"], stream["packets"]) == ("10.77.1.9", "10.77.1.2", 499)
        assert stream["sequence"]["expected_packets"] == 499 and stream["sequence"]["lost_runs"] == {}


def test_a_recording_of_real_pktgen_with_clones_shows_them_as_duplicates_and_their_numbers_as_lost():
    """clone_skb 100: each frame goes out 100 times with one number, while pktgen counts on."""
    sequence = analyze_file(RECORDINGS / "1500B-300.pcap")["streams"][0]["sequence"]
    assert (sequence["first"], sequence["last"]) == (1, 201)
    assert sequence["duplicate_packets"] == 297 and sequence["lost_runs"] == {"99": 2}


def test_following_a_growing_file_counts_what_is_complete_and_ends_with_the_whole(tmp_path):
    random = Random(3)
    content = pcap(traffic(random, 3000, streams=2, trouble=0.05))
    path = tmp_path / "growing.pcap"
    path.write_bytes(b"")
    follower = CaptureFollower(path)
    follower._buffer = bytearray(300)  # has to grow, and records lie across its end
    assert follower.poll() == 0
    at, before = 0, 0
    with path.open("ab") as file:
        while at < len(content):
            size = random.randrange(1, 5000)
            file.write(content[at : at + size])
            file.flush()
            at += size
            packets = follower.poll(max_bytes=10_000)
            assert packets >= before
            before = packets
    assert follower.finish() == analyze_file(path)


def test_the_digest_is_of_the_whole_file_however_it_was_read(tmp_path):
    path = tmp_path / "growing.pcap"
    content = pcap(traffic(Random(4), 3000, streams=1, trouble=0.02))
    path.write_bytes(content[:100_001])
    follower = CaptureFollower(path, digest=True)
    follower.poll(max_bytes=5000)
    follower.poll()
    path.write_bytes(content)
    follower.finish()
    assert follower.sha256 == hashlib.sha256(content).hexdigest()


def test_a_file_that_could_not_be_read_to_its_end_has_no_digest(tmp_path):
    path = tmp_path / "damaged.pcap"
    path.write_bytes(pcap([Packet(0)] * 50) + b"\xff" * 100_000)
    follower = CaptureFollower(path, digest=True)
    assert follower.finish()["corrupt_at_byte"] is not None
    assert follower.sha256 is None


def test_finishing_a_file_that_ends_within_a_record_says_truncated(tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap([Packet(0), Packet(1)])[:-1])
    report = CaptureFollower(path).finish()
    assert (report["packets"], report["truncated"], report["corrupt_at_byte"]) == (1, True, None)
    assert report["read_bytes"] == 24 + 80


def test_where_only_flows_are_asked_for_no_frame_is_looked_at_for_whose_it_is(tmp_path, monkeypatch):
    path = tmp_path / "many.pcap"
    path.write_bytes(pcap(traffic(Random(5), 3000, streams=5, trouble=0.05)))
    told = analyze_file(path)
    monkeypatch.setattr(node_side, "dissect", lambda *_: pytest.fail("a frame was taken apart"))
    untold = CaptureFollower(path, streams=False).finish()
    alike = ("packets", "bytes", "first_at_ns", "last_at_ns", "untimed_packets", "truncated", "pps")
    assert {name: untold[name] for name in alike} == {name: told[name] for name in alike}
    assert (untold["streams"], untold["other_packets"]) == ([], 3000)


def test_more_streams_than_are_listed_are_counted_apart(monkeypatch):
    monkeypatch.setattr(node_side, "MAX_STREAMS", 3)
    packets = [Packet(k, k, sink_port=1000 + k % 5) for k in range(100)]
    for use_numpy in (False, True):
        report = analyze_buffer(pcap(packets), use_numpy=use_numpy)
        assert len(report["streams"]) == 3
        assert report["unlisted_stream_packets"] == 40
        assert report["packets"] == 100 and report["other_packets"] == 0


def test_errors_name_the_file_and_what_is_wrong(tmp_path):
    path = tmp_path / "holiday.gif"
    path.write_bytes(b"GIF89a")
    with pytest.raises(CaptureFormatError, match=r"holiday\.gif is not a pcap or pcapng capture.*47 49 46"):
        analyze_path(path)
    with pytest.raises(CaptureFormatError, match=r"missing\.pcap cannot be read: No such file"):
        analyze_path(tmp_path / "missing.pcap")


def test_the_text_for_people_names_every_trouble(tmp_path):
    path = tmp_path / "a.pcap"
    packets = [Packet(k * 10_000, k + 3 * (k > 5)) for k in range(20)] + [Packet(0, None), Packet(-1 % 2**32, 2)]
    path.write_bytes(pcap(packets) + struct.pack("<IIII", 0, 0, 2**31, 0))
    text = "\n".join(analysis_lines(analyze_path(path)))
    for part in (
        "a.pcap: pcap, ethernet",
        "1 packets not from pktgen",
        "damaged",
        "1 of 3",
        "duplicates 1",
        "gaps (µs)",
    ):
        assert part in text, text


def test_random_bytes_behind_a_magic_number_are_read_without_an_error():
    random = Random(9)
    for magic in (b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a" + struct.pack("<II", 28, 0x1A2B3C4D)):
        for _ in range(30):
            content = magic + random.randbytes(5000)
            assert analyze_buffer(content, use_numpy=False) == analyze_buffer(content, use_numpy=True)
