"""The frame against frames of a real pktgen (recordings/pktgen/frames.txt), and the batch against the single frame."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.packets import frame as frames

RECORDED = Path(__file__).parents[2] / "recordings" / "pktgen" / "frames.txt"


def recorded_frames() -> list[bytes]:
    lines = RECORDED.read_text().splitlines()
    return [bytes.fromhex(line.split()[2]) for line in lines if not line.startswith("#")]


def template_like(frame: bytes) -> frames.FrameTemplate:
    return frames.FrameTemplate(
        destination_mac=frame[:6],
        source_mac=frame[6:12],
        source_ip=".".join(map(str, frame[26:30])),
        sink_ip=".".join(map(str, frame[30:34])),
        udp_source_port=struct.unpack("!H", frame[34:36])[0],
        udp_sink_port=struct.unpack("!H", frame[36:38])[0],
        size_bytes=len(frame),
    )


def test_every_frame_is_byte_for_byte_what_a_real_pktgen_sent() -> None:
    recorded = recorded_frames()
    assert {len(frame) for frame in recorded} == {60, 1500}
    for frame in recorded:
        sequence, seconds, microseconds = struct.unpack("!III", frame[46:58])
        identification = struct.unpack("!H", frame[18:20])[0]
        wall_ns = seconds * 10**9 + microseconds * 1000
        assert template_like(frame).frame(sequence, wall_ns, identification) == frame


def test_the_identification_of_a_fresh_run_counts_up_from_zero_as_in_pktgen() -> None:
    short = [frame for frame in recorded_frames() if len(frame) == 60]
    for frame in short:
        sequence, seconds, microseconds = struct.unpack("!III", frame[46:58])
        assert template_like(frame).frame(sequence, seconds * 10**9 + microseconds * 1000) == frame


TEMPLATE = frames.FrameTemplate(b"\x02\0\0\0\1\2", b"\x02\0\0\0\6\1", "198.18.1.1", "198.19.1.1", 9, 4097, 60)


@settings(max_examples=60, deadline=None)
@given(
    slots=st.sampled_from([1, 16, 64]),
    steps=st.lists(st.tuples(st.integers(0, 63), st.integers(1, 64), st.integers(0, 2**62)), min_size=1, max_size=4),
    first=st.one_of(st.integers(1, 200), st.integers(65_400, 65_700), st.integers(2**32 - 200, 2**32 + 200)),
    size=st.sampled_from([60, 61, 1514]),
    destinations=st.sampled_from([1, 2, 4096, 16384]),
)
def test_a_batch_holds_the_same_bytes_as_single_frames(
    slots: int, steps: list[tuple[int, int, int]], first: int, size: int, destinations: int
) -> None:
    template = frames.FrameTemplate(
        b"\x02\0\0\0\1\2", b"\x02\0\0\0\6\1", "198.18.1.1", "198.19.64.0", 9, 4097, size, destinations
    )
    stride = (size + 63) & ~63
    buffer = bytearray(slots * stride)
    ring = frames.FrameRing(template, buffer, slots, stride)
    sequence = first
    for start, packets, wall_ns in steps:
        slot = start % slots
        filled = ring.fill(slot, packets, sequence, wall_ns)
        assert 1 <= filled <= packets
        for index in range(filled):
            at = (slot + index) * stride
            assert bytes(buffer[at : at + size]) == template.frame(sequence + index, wall_ns)
        sequence += filled


def test_a_batch_stops_at_the_end_of_the_buffer_and_at_a_carry_of_the_sequence_number() -> None:
    ring = frames.FrameRing(TEMPLATE, bytearray(64 * 64), 64, 64)
    assert ring.fill(60, 64, 1, 0) == 4
    assert ring.fill(0, 64, 65_530, 0) == 6
    assert ring.fill(0, 64, 65_536, 0) == 64


def test_the_header_checksum_adds_up_for_every_identification() -> None:
    buffer = bytearray(256 * 64)
    ring = frames.FrameRing(TEMPLATE, buffer, 256, 64)
    sequence = 1
    while sequence <= 65_536:
        filled = ring.fill(0, 256, sequence, 0)
        for slot in range(filled):
            total = sum(struct.unpack_from("!10H", buffer, slot * 64 + 14))
            while total > 0xFFFF:
                total = (total & 0xFFFF) + (total >> 16)
            assert total == 0xFFFF
        sequence += filled


def test_a_frame_below_60_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="59"):
        frames.FrameTemplate(b"\0" * 6, b"\0" * 6, "198.18.1.1", "198.19.1.1", 9, 9, 59)


@pytest.mark.parametrize("text", ["", "02:00", "02:00:00:00:01:0g", "02-00-00-00-01-02", "02:00:00:00:01:02\n"])
def test_a_malformed_mac_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a MAC address"):
        frames.parse_mac(text)


def test_a_mac_address_may_be_written_in_either_case() -> None:
    assert frames.parse_mac("02:Ab:00:00:01:fF").hex() == "02ab000001ff"


def test_frames_go_to_one_address_after_the_other() -> None:
    template = frames.FrameTemplate(b"\x02\0\0\0\1\2", b"\x02\0\0\0\6\1", "198.18.1.1", "198.19.64.0", 9, 4097, 60, 512)
    sinks = [".".join(map(str, template.frame(number, 0)[30:34])) for number in (1, 2, 257, 512, 513)]
    assert sinks == ["198.19.64.0", "198.19.64.1", "198.19.65.0", "198.19.65.255", "198.19.64.0"]


@pytest.mark.parametrize(("sink_ip", "destinations"), [("198.19.64.0", 3), ("198.19.64.1", 2), ("198.19.64.0", 0)])
def test_addresses_that_frames_cannot_go_round_are_refused(sink_ip: str, destinations: int) -> None:
    with pytest.raises(ValueError, match="destinations"):
        frames.FrameTemplate(b"\x02\0\0\0\1\2", b"\x02\0\0\0\6\1", "198.18.1.1", sink_ip, 9, 4097, 60, destinations)
