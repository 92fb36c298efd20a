"""Makes capture files from a list of packets, and counts the same list naively: the truth for the counters' tests."""

from __future__ import annotations

import ipaddress
import math
import struct
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from labconsole.measure.numpy_columns import NumpyRuns
from labconsole.packets.analysis import CaptureAnalysis

ETHERNET, NULL, RAW, LOOP, SLL, SLL2 = 1, 0, 101, 108, 113, 276
MAGIC = 0xBE9BE955


@dataclass(frozen=True)
class Packet:
    """One packet as it was on the wire; ``number`` None is a frame that is not pktgen's."""

    at_ns: int
    number: int | None = 1
    source: str = "198.18.1.1"
    sink: str = "198.19.1.1"
    source_port: int = 9
    sink_port: int = 9
    original_bytes: int = 1500
    captured_bytes: int = 64
    vlan_tags: tuple[int, ...] = ()
    identification: int = 0
    garbage: bytes = b""

    @property
    def key(self) -> tuple[bytes, bytes, int, int]:
        return (
            ipaddress.ip_address(self.source).packed,
            ipaddress.ip_address(self.sink).packed,
            self.source_port,
            self.sink_port,
        )

    def frame(self, link_type: int = ETHERNET) -> bytes:
        source, sink = self.key[:2]
        if self.number is None:
            return (self.garbage + bytes(self.captured_bytes))[: self.captured_bytes]
        payload = struct.pack(">IIII", MAGIC, self.number, 1, 2)
        udp = struct.pack(">HHHH", self.source_port, self.sink_port, 8 + len(payload), 0)
        if len(source) == 4:
            network = struct.pack(">BBHHHBBH", 0x45, 0, 60, self.identification, 0, 32, 17, 0) + source + sink
        else:
            network = struct.pack(">IHBB", 6 << 28, 60, 17, 64) + source + sink
        ethertype = struct.pack(">H", 0x0800 if len(source) == 4 else 0x86DD)
        for outermost, tag in enumerate(reversed(self.vlan_tags)):
            ethertype = struct.pack(">HH", 0x88A8 if outermost else 0x8100, tag) + ethertype
        family = 2 if len(source) == 4 else 30
        link = {
            ETHERNET: b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + ethertype,
            SLL: struct.pack(">HHH8s", 0, 1, 6, b"\x02\0\0\0\0\x01") + ethertype,
            SLL2: ethertype + struct.pack(">HIHBB8s", 0, 3, 1, 0, 6, b"\x02\0\0\0\0\x01"),
            RAW: b"",
            NULL: struct.pack("<I", family),
            LOOP: struct.pack(">I", family),
        }[link_type]
        frame = link + network + udp + payload
        return (frame + bytes(max(self.captured_bytes - len(frame), 0)))[: self.captured_bytes]


def pcap(packets: list[Packet], *, order: str = "<", unit_ns: int = 1000, link_type: int = ETHERNET) -> bytes:
    magic = 0xA1B2C3D4 if unit_ns == 1000 else 0xA1B23C4D
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65536, link_type)]
    for packet in packets:
        frame = packet.frame(link_type)
        seconds, rest_ns = divmod(packet.at_ns, 1_000_000_000)
        header = struct.pack(order + "IIII", seconds, rest_ns // unit_ns, len(frame), packet.original_bytes)
        parts.append(header + frame)
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link_type: int = ETHERNET, *, order: str = "<", resolution: int | None = None, offset_s: int = 0, snap: int = 0
) -> bytes:
    options = b""
    if resolution is not None:
        options += struct.pack(order + "HHBxxx", 9, 1, resolution)
    if offset_s:
        options += struct.pack(order + "HHq", 14, 8, offset_s)
    return block(1, struct.pack(order + "HHI", link_type, 0, snap) + options + bytes(4), order)


def enhanced(
    packet: Packet, *, order: str = "<", number: int = 0, units: int | None = None, link_type: int = ETHERNET
) -> bytes:
    units = packet.at_ns // 1000 if units is None else units
    frame = packet.frame(link_type)
    body = struct.pack(order + "IIIII", number, units >> 32, units & 0xFFFFFFFF, len(frame), packet.original_bytes)
    return block(6, body + frame, order)


def pcapng(packets: list[Packet], *, order: str = "<", unit_ns: int = 1000, link_type: int = ETHERNET) -> bytes:
    resolution = {1000: 6, 1: 9}[unit_ns]
    parts = [section(order), interface(link_type, order=order, resolution=resolution)]
    parts += [enhanced(p, order=order, units=p.at_ns // unit_ns, link_type=link_type) for p in packets]
    return b"".join(parts)


def naive_sequence(numbers: list[int]) -> dict[str, Any]:
    first = highest = numbers[0]
    seen, reordered, duplicates = {first}, 0, 0
    for number in numbers[1:]:
        number = highest + (number - highest + 2**31) % 2**32 - 2**31
        if number > highest:
            highest = number
        elif number in seen:
            duplicates += 1
        else:
            reordered += 1
            first = min(first, number)
        seen.add(number)
    arrived = sorted(seen)
    runs = Counter(after - before - 1 for before, after in zip(arrived, arrived[1:], strict=False))
    del runs[0]
    return {
        "first": first % 2**32,
        "last": highest % 2**32,
        "expected_packets": highest - first + 1,
        "lost_packets": highest - first + 1 - len(seen),
        "lost_runs": {str(length): runs[length] for length in sorted(runs)},
        "reordered_packets": reordered,
        "duplicate_packets": duplicates,
    }


def naive_gaps(times: list[int]) -> tuple[dict[str, Any] | None, int]:
    steps = [after - before for before, after in zip(times, times[1:], strict=False)]
    gaps = sorted(step for step in steps if step >= 0)
    if not gaps:
        return None, len(steps)
    rank = [gaps[math.ceil(len(gaps) * percent / 100) - 1] for percent in (50, 99)]
    report = {"min": gaps[0], "mean": sum(gaps) / len(gaps), "p50": rank[0], "p99": rank[1], "max": gaps[-1]}
    return report, len(steps) - len(gaps)


def naive_late(packets: list[Packet], sending_ns: int | None) -> dict[str, int]:
    if sending_ns is None:
        return {}
    after_ns = [packet.at_ns - packets[0].at_ns - sending_ns for packet in packets]
    return {
        "late_packets": sum(each > 0 for each in after_ns),
        "queued_packets": sum(each > 10_000_000 for each in after_ns),
    }


def naive_report(packets: list[Packet], unit_ns: int = 1000, sending_ns: int | None = None) -> dict[str, Any]:
    """What an analysis of these packets must say, counted in the plainest way."""
    packets = [replace(p, at_ns=p.at_ns // unit_ns * unit_ns) for p in packets]
    streams: dict[tuple[Any, ...], list[Packet]] = {}
    for packet in packets:
        header = 14 + 4 * len(packet.vlan_tags) + (20 if len(packet.key[0]) == 4 else 40) + 8
        if packet.number is not None and packet.captured_bytes >= header + 8:
            streams.setdefault(packet.key, []).append(packet)
    times = [p.at_ns for p in packets]
    listed = []
    for key in sorted(streams):
        members = streams[key]
        gaps, backward = naive_gaps([p.at_ns for p in members])
        listed.append(
            {
                "source_ip": members[0].source,
                "sink_ip": members[0].sink,
                "udp_source_port": key[2],
                "udp_sink_port": key[3],
                "packets": len(members),
                "bytes": sum(p.original_bytes for p in members),
                "first_at_ns": min(p.at_ns for p in members),
                "last_at_ns": max(p.at_ns for p in members),
                "sequence": naive_sequence([p.number for p in members if p.number is not None]),
                "gap_ns": gaps,
                "backward_steps": backward,
                **naive_late(members, sending_ns),
            }
        )
    return {
        "packets": len(packets),
        "bytes": sum(p.original_bytes for p in packets),
        "first_at_ns": min(times, default=None),
        "last_at_ns": max(times, default=None),
        "other_packets": len(packets) - sum(map(len, streams.values())),
        "streams": listed,
    }


def traffic(random: Random, packets: int, *, streams: int, trouble: float) -> list[Packet]:
    """Numbered streams with loss, reordering, copies, jumps, mixed lengths, foreign frames and clock steps."""
    at_ns = 1_700_000_000_000_000_000 - random.randrange(2_000_000_000)
    near_the_wrap = 2**32 - random.randrange(1, 200)
    next_number = [random.choice([1, near_the_wrap, random.randrange(2**32)]) for _ in range(streams)]
    usual_gap_ns = random.choice([700, 7_000, 300_000, 40_000_000])
    made: list[Packet] = []
    turn = 0
    for index in range(packets):
        at_ns += random.randrange(usual_gap_ns)
        if random.random() < trouble / 20:
            at_ns += random.choice([-5_000_000, -1_000_000_000, 17_000_000_000, 1_000_000])
        if random.random() < 0.02 * streams:
            turn = random.randrange(streams)
        packet = Packet(
            at_ns, next_number[turn], source=f"198.18.{turn + 1}.1", sink_port=9 + turn, identification=index & 0xFFFF
        )
        next_number[turn] = (next_number[turn] + 1) % 2**32
        event = random.random() / trouble if trouble else 9.0
        if event < 0.2:
            next_number[turn] = (next_number[turn] + random.choice([1, 1, 1, 3, 300])) % 2**32
        elif event < 0.4 and made:
            packet = replace(packet, number=random.choice(made[-30:]).number or 7, source=made[-1].source)
        elif event < 0.5:
            packet = replace(packet, captured_bytes=random.choice([0, 10, 30, 42, 46, 49, 50, 58, 61, 65, 66, 96]))
        elif event < 0.6:
            packet = replace(packet, original_bytes=random.choice([60, 64, 1499]))
        elif event < 0.7:
            packet = replace(packet, number=None, garbage=random.randbytes(random.choice([0, 14, 60])))
        elif event < 0.75:
            packet = replace(packet, vlan_tags=random.choice([(5,), (5, 6)]), captured_bytes=80)
        made.append(packet)
        if random.random() < trouble / 4 and len(made) > 4:
            other = -random.randrange(2, 5)
            mine, theirs = made[-1], made[other]
            made[-1], made[other] = replace(theirs, at_ns=mine.at_ns), replace(mine, at_ns=theirs.at_ns)
    return made


def analyze_buffer(chunks: bytes | memoryview | list[bytes], *, use_numpy: bool = True) -> dict[str, Any]:
    """Count a capture that is in memory, whole or in pieces. Raises NotACapture."""
    runs: Any = NumpyRuns() if use_numpy else None
    analysis = CaptureAnalysis(runs)
    kept = b""
    for chunk in [chunks] if isinstance(chunks, (bytes, bytearray, memoryview)) else chunks:
        kept += bytes(chunk)
        kept = kept[analysis.feed(kept) :]
    return analysis.report(unread=kept[:16])
