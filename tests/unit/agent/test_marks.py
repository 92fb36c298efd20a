"""What of a frame is a mark, and what is counted as strange: every field that somebody could forge."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from labconsole.agent.reading import marks
from labconsole.agent.reading.port_listeners import PACKET_OUTGOING
from labconsole.wire.marks import SeenMarks, TimeMark
from labconsole.wire.session import Clocks

ADDRESS, PEER = socket.inet_aton("198.18.127.1"), socket.inet_aton("198.18.64.7")
OURS, THEIRS = bytes.fromhex("020000000001"), bytes.fromhex("020000000007")
OTHER_HOST = 3
BUSYBOX = b"\x12\x34\x56\x78" + b"\xa5" * 36
"""As ``busybox ping -s 40 -p a5`` has it: its clock, then the pattern."""


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data + bytes(len(data) % 2)) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo(
    *,
    reply: bool = False,
    payload: bytes = BUSYBOX,
    code: int = 0xA5,
    fragment: int = 0x4000,
    options: bytes = b"",
    kind: int | None = None,
    protocol: int = 1,
    ethertype: int = 0x0800,
    version: int = 4,
    icmp_wrong: int = 0,
    ip_wrong: int = 0,
    longer: int = 0,
    padding: int = 0,
) -> bytes:
    """A frame with an echo from the peer, or with our reply to it."""
    icmp = struct.pack("!BBHHH", (0 if reply else 8) if kind is None else kind, code, 0, 4711, 3) + payload
    icmp = icmp[:2] + struct.pack("!H", checksum(icmp) ^ icmp_wrong) + icmp[4:]
    source, sink = (ADDRESS, PEER) if reply else (PEER, ADDRESS)
    words, total_bytes = 5 + len(options) // 4, 20 + len(options) + len(icmp) + longer
    ip = struct.pack("!BBHHHBBH", version << 4 | words, 0, total_bytes, 1, fragment, 64, protocol, 0)
    ip += source + sink + options
    ip = ip[:10] + struct.pack("!H", checksum(ip) ^ ip_wrong) + ip[12:]
    macs = THEIRS + OURS if reply else OURS + THEIRS
    return macs + struct.pack("!H", ethertype) + ip + icmp + bytes(padding)


def parsed(frame: bytes, kind: int) -> TimeMark | None:
    fields = marks.parse(frame, kind, ADDRESS)
    return None if fields is None else TimeMark.parse({**fields, "wall_ns": 5})


@pytest.mark.parametrize("reply", [False, True])
def test_a_mark_is_told_with_its_other_end_its_numbers_and_its_pattern(reply: bool) -> None:
    kind = PACKET_OUTGOING if reply else marks.PACKET_HOST
    assert parsed(echo(reply=reply), kind) == TimeMark(
        reply=reply,
        address="198.18.64.7",
        mac="02:00:00:00:00:07",
        icmp_id=4711,
        icmp_sequence=3,
        icmp_code=0xA5,
        payload_bytes=40,
        pattern=0xA5,
        pattern_from_byte=4,
        wall_ns=5,
    )


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"", (0, None, None)),
        (b"\x07", (1, 7, 0)),
        (b"\x01\x02\x03\xa5" + b"\xa5" * 4, (8, 0xA5, 3)),
        (bytes(8), (8, 0, 0)),
        (bytes(range(9)), (9, 8, 8)),
        (b"\xa5" * 20 + b"\x5a", (21, 0x5A, 20)),
    ],
)
def test_it_is_said_from_which_byte_on_a_payload_is_one_byte(payload: bytes, told: tuple[Any, ...]) -> None:
    mark = parsed(echo(payload=payload), marks.PACKET_HOST)
    assert mark is not None and (mark.payload_bytes, mark.pattern, mark.pattern_from_byte) == told


def test_options_of_ip_and_the_padding_of_a_short_frame_are_no_payload() -> None:
    mark = parsed(echo(payload=b"\1\2\3\4\5", options=b"\1\1\1\0", padding=9), marks.PACKET_HOST)
    assert mark is not None and (mark.payload_bytes, mark.pattern) == (5, 5)


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": 13},
        {"kind": 0},
        {"protocol": 17},
        {"version": 6},
        {"ethertype": 0x86DD},
        {"fragment": 0x2000},
        {"fragment": 0x0001},
        {"icmp_wrong": 1},
        {"ip_wrong": 0x100},
        {"longer": 1},
        {"longer": -48},
    ],
)
def test_what_is_no_whole_echo_is_no_mark(forged: dict[str, Any]) -> None:
    assert parsed(echo(**forged), marks.PACKET_HOST) is None


def test_an_echo_in_the_wrong_direction_or_for_another_machine_is_no_mark() -> None:
    for reply, kind in ((False, PACKET_OUTGOING), (False, OTHER_HOST), (True, marks.PACKET_HOST), (True, OTHER_HOST)):
        assert parsed(echo(reply=reply), kind) is None
    for kind in (marks.PACKET_HOST, PACKET_OUTGOING):
        assert marks.parse(echo(), kind, PEER) is None, "of another address"


def test_a_frame_that_was_cut_anywhere_is_no_mark_and_no_error() -> None:
    whole = echo()
    assert all(parsed(whole[:length], marks.PACKET_HOST) is None for length in range(len(whole)))


def seen(started: Clocks, stopped: Clocks) -> SeenMarks:
    return SeenMarks(
        marks=[],
        untold_marks=0,
        strange_packets=0,
        dropped_kernel_packets=0,
        unread_packets=0,
        started=started,
        stopped=stopped,
        interrupted=None,
    )


def test_a_clock_that_was_set_is_seen() -> None:
    started = Clocks(monotonic_ns=100, wall_ns=5_000)
    assert seen(started, Clocks(monotonic_ns=400, wall_ns=5_300)).clock_step_ns == 0
    assert seen(started, Clocks(monotonic_ns=400, wall_ns=4_300)).clock_step_ns == -1000


def test_both_clocks_are_read_at_one_moment() -> None:
    first, second = marks.clocks(), marks.clocks()
    assert second.monotonic_ns > first.monotonic_ns
    assert abs(seen(first, second).clock_step_ns) < 10**8
