"""Capture containers and frames: formats, link types, damage and cuts. Every file is counted both ways."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from labconsole.packets.pcap import NotACapture
from support.capture_samples import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    Packet,
    analyze_buffer,
    block,
    enhanced,
    interface,
    naive_report,
    pcap,
    pcapng,
    section,
)

START_NS = 1_700_000_000_123_456_000


def numbered(count: int, **changes: Any) -> list[Packet]:
    return [Packet(START_NS + 7_000 * k, k + 1, **changes) for k in range(count)]


def counted(content: bytes) -> dict:
    reports = [analyze_buffer(content, use_numpy=use_numpy) for use_numpy in (False, True)]
    assert reports[0] == reports[1]
    return reports[0]


def assert_counts(content: bytes, packets: list[Packet]) -> dict:
    report, expected = counted(content), naive_report(packets)
    for key in expected.keys() - {"streams"}:
        assert report[key] == expected[key]
    for stream, wanted in zip(report["streams"], expected["streams"], strict=True):
        assert {key: stream[key] for key in wanted} == wanted
    return report


@pytest.mark.parametrize("container", [pcap, pcapng])
@pytest.mark.parametrize("link_type", [ETHERNET, NULL, RAW, LOOP, SLL, SLL2])
@pytest.mark.parametrize("addresses", [("198.18.1.1", "198.19.1.1"), ("2001:2::1", "2001:2:0:1::1")])
def test_streams_are_found_on_every_link_type(container, link_type, addresses):
    packets = numbered(100, source=addresses[0], sink=addresses[1], captured_bytes=96)
    report = assert_counts(container(packets, link_type=link_type), packets)
    assert report["streams"][0]["sequence"]["lost_packets"] == 0
    assert report["format"] == ("pcapng" if container is pcapng else "pcap")


def test_vlan_tags_before_the_network_header_are_stepped_over():
    packets = numbered(50, vlan_tags=(7,), captured_bytes=80) + numbered(50, vlan_tags=(7, 8), captured_bytes=80)
    assert assert_counts(pcap(packets), packets)["streams"][0]["packets"] == 100


@pytest.mark.parametrize("byte, value", [(12, 9), (14, 0x65), (20, 1), (21, 1), (23, 6), (42, 0xBF), (45, 0x54)])
def test_a_frame_that_is_not_pktgens_in_one_byte_is_counted_in_no_stream(byte, value):
    frame = bytearray(Packet(0).frame())
    frame[byte] = value
    for foreign in (1, 40):  # one among others, and a run of them
        packets = numbered(40) + foreign * [Packet(START_NS, None, garbage=bytes(frame))] + numbered(40)
        assert assert_counts(pcap(packets), packets)["other_packets"] == foreign


def test_options_in_the_ip_header_move_the_payload():
    frame = Packet(0, 5).frame()
    longer = bytearray(frame[:34] + bytes(4) + frame[34:])
    longer[14] = 0x46
    report = counted(pcap([Packet(START_NS, None, captured_bytes=68, garbage=bytes(longer))] * 40))
    assert report["streams"][0]["sequence"]["first"] == 5
    assert report["streams"][0]["sequence"]["duplicate_packets"] == 39


def test_bytes_are_those_on_the_wire_not_those_kept():
    assert counted(pcap(numbered(70, original_bytes=1514)))["bytes"] == 70 * 1514


@pytest.mark.parametrize("container", [pcap, pcapng])
def test_a_capture_without_packets_says_zero_and_null(container):
    report = counted(container([]))
    assert (report["packets"], report["bytes"], report["streams"], report["truncated"]) == (0, 0, [], False)
    assert report["first_at_ns"] is None and report["last_at_ns"] is None and report["pps"] is None
    assert report["link_type"] == "ethernet"


@pytest.mark.parametrize("container", [pcap, pcapng])
def test_a_capture_cut_at_any_byte_counts_the_complete_records_before_it(container):
    packets = numbered(20)
    whole = container(packets)
    ends = [len(container(packets[:count])) for count in range(len(packets) + 1)]
    for cut in range(4, len(whole) + 1):
        report = counted(whole[:cut])
        complete = sum(end <= cut for end in ends[1:])
        assert report["packets"] == complete
        # between the blocks before the first packet a pcapng file is whole as well
        boundaries = set(ends) | ({28} if container is pcapng else set())
        assert report["truncated"] == (cut not in boundaries)


@pytest.mark.parametrize("content", [b"", b"\xd4\xc3", b"\x1f\x8b\x08\x00junk", b"GIF89a" + bytes(50), bytes(100)])
def test_what_is_no_capture_is_refused_with_its_first_bytes(content):
    with pytest.raises(NotACapture) as refused:
        counted(content)
    assert (content[:8].hex(" ") or "is empty") in str(refused.value)


def test_an_absurd_record_length_stops_the_count_there_and_says_where():
    packets = numbered(100)
    content = pcap(packets) + struct.pack("<IIII", 1, 1, 0xFFFFFFF0, 1500) + bytes(100)
    report = counted(content)
    assert report["packets"] == 100 and report["truncated"]
    assert report["corrupt_at_byte"] == len(pcap(packets))
    assert "4294967280" in report["corrupt_reason"]


@pytest.mark.parametrize(
    "damage, reason",
    [
        (struct.pack("<II", 6, 0xFFFFFFFC) + bytes(40), "length of 4294967292"),
        (struct.pack("<II", 6, 8) + bytes(40), "length of 8"),
        (struct.pack("<II", 6, 33) + bytes(40), "length of 33"),
        (block(6, struct.pack("<IIIII", 9, 0, 0, 0, 0)), "interface 9 of 1"),
        (block(6, struct.pack("<IIIII", 0, 0, 0, 500, 500)), "500 captured bytes"),
        (block(6, bytes(8)), "shorter than its own header"),
        (block(1, bytes(4)), "too short"),
        (struct.pack("<III", 0x0A0D0D0A, 28, 77) + bytes(16), "byte-order magic"),
    ],
)
def test_a_damaged_pcapng_block_stops_the_count_there_and_says_why(damage, reason):
    before = pcapng(numbered(50))
    report = counted(before + damage)
    assert report["packets"] == 50 and report["truncated"]
    assert report["corrupt_at_byte"] == len(before)
    assert reason in report["corrupt_reason"]


def test_pcapng_sections_of_both_byte_orders_with_interfaces_of_their_own_are_one_capture():
    packets = numbered(90)
    nanoseconds = [enhanced(p, order=">", number=1, units=p.at_ns) for p in packets[30:60]]
    binary = [enhanced(p, number=0, units=(p.at_ns << 20) // 10**9 + 1) for p in packets[60:]]
    content = b"".join(
        [section(), interface(), *map(enhanced, packets[:30])]
        + [section(">"), interface(SLL, order=">"), interface(order=">", resolution=9), *nanoseconds]
        + [section(), interface(resolution=0x80 | 20), *binary]
    )
    report = counted(content)
    assert report["packets"] == 90
    assert report["link_type"] == "ethernet + linux_sll"
    stream = report["streams"][0]
    assert stream["sequence"]["lost_packets"] == 0 and stream["backward_steps"] == 0
    assert stream["first_at_ns"] == packets[0].at_ns
    assert 0 <= stream["last_at_ns"] - packets[-1].at_ns <= 10**9 >> 19


def test_a_time_offset_of_a_pcapng_interface_is_added():
    packets = numbered(50)
    shifted = [enhanced(replace(p, at_ns=p.at_ns - 3600 * 10**9)) for p in packets]
    assert_counts(b"".join([section(), interface(offset_s=3600), *shifted]), packets)


def test_unknown_blocks_are_skipped_and_simple_and_obsolete_packets_counted():
    packets = numbered(4)
    frame = packets[1].frame()
    simple = block(3, struct.pack("<I", 1500) + frame)
    units = packets[2].at_ns // 1000
    header = struct.pack("<HHIIII", 0, 7, units >> 32, units & 0xFFFFFFFF, len(frame), 1500)
    obsolete = block(2, header + packets[2].frame())
    content = b"".join(
        [section(), interface(snap=64), block(0xBAD, bytes(33)), enhanced(packets[0]), simple, obsolete]
        + [block(5, bytes(20)), enhanced(packets[3])]
    )
    report = counted(content)
    assert report["packets"] == 4 and report["bytes"] == 6000 and report["untimed_packets"] == 1
    assert report["streams"][0]["sequence"]["expected_packets"] == 4
    assert report["streams"][0]["sequence"]["lost_packets"] == 0
    assert report["streams"][0]["gap_ns"]["min"] == 7_000


def test_high_bits_in_pcapng_time_words_change_no_gap():
    """Low words beyond 2^31, gaps beyond 2^24 units and the carry into the high word, inside one run of records."""
    for base_units in (0x5_8000_0000, 0x5_7FFF_FF00, 0x5_FFFF_FF00, 0x5_F000_0000):
        units = [base_units + k * (3 if k < 200 else 20_000_000) for k in range(220)]
        packets = [Packet(unit * 1000, k, identification=k) for k, unit in enumerate(units)]
        assert_counts(pcapng(packets), packets)
