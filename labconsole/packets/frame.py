"""The test frame, as Linux pktgen builds it: Ethernet, IPv4, UDP, then magic, sequence number and time stamp.

The one decision here: everything that differs from frame to frame lies on an even offset, so a few strided copies
between arrays of 16-bit words update a batch of frames. Those run at C speed without numpy (measured: 3 ns per word and
frame), and the IPv4 checksum depends on nothing but the identification, so it comes from a table. Byte for byte what
pktgen 2.75 sends, except that the identification starts at 0 for every run.

Also classifies other frames: one word for the protocol of each.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Sequence

MAGIC = 0xBE9BE955
"""After Ethernet 14, IPv4 20 and UDP 8 bytes: the start of pktgen's own header."""
_MAGIC_BYTES = struct.pack("!I", MAGIC)
MIN_FRAME_BYTES = 60
TTL = 32
"""pktgen's value, not configurable there."""
UDP_PROTOCOL = 17

ID_WORD, CHECKSUM_WORD, SINK_WORD, SEQUENCE_WORD, SECONDS_WORD, MICROSECONDS_WORD = 9, 12, 16, 23, 25, 27
"""Offsets in 16-bit words from the start of the frame. The last three take two words each; SINK_WORD is the lower half
of the address.
"""

VLANS = (0x8100, 0x88A8)
ETHERTYPES = {0x0806: "arp", 0x88CC: "lldp"}
IPV4 = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp"}
IPV6 = {6: "tcp", 17: "udp", 58: "icmpv6"}
ICMP_ERRORS = {3: "icmp_unreachable", 5: "icmp_redirect", 11: "icmp_time_exceeded"}
PORT_UNREACHABLE, PROHIBITED = (3, 3), ((3, 9), (3, 10), (3, 13))
"""ICMP type and code, by RFC 792 and RFC 1812."""
NEIGHBOUR_DISCOVERY = range(133, 138)
LISTENER_DISCOVERY = (130, 131, 132, 143)
BRIDGES = b"\x01\x80\xc2\x00\x00\x00"
PVST = b"\x01\x00\x0c\xcc\xcc\xcd"
PVST_SNAP = b"\xaa\xaa\x03\x00\x00\x0c\x01\x0b"
CONTROL = ("arp", "nd", "mld", "lldp", "stp")
"""Control protocols found on every wire."""

_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_WRAP = 0x10000


def parse_mac(text: str) -> bytes:
    """Parse ``02:00:00:00:01:02`` to six bytes. Raises ValueError."""
    if not _MAC.fullmatch(text):
        raise ValueError("%r is not a MAC address such as 02:00:00:00:01:02" % text)
    return bytes.fromhex(text.replace(":", ""))


def _address(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


@dataclass(frozen=True)
class FrameTemplate:
    """The common part of all frames of one stream."""

    destination_mac: bytes
    source_mac: bytes
    source_ip: str
    sink_ip: str
    udp_source_port: int
    udp_sink_port: int
    size_bytes: int
    """Frame size without the frame check sequence, as pktgen's pkt_size."""
    destinations: int = 1
    """Frames go to this number of addresses from sink_ip on, in turn: a power of two up to 65536; sink_ip is a multiple
    of it.
    """

    def __post_init__(self) -> None:
        if self.size_bytes < MIN_FRAME_BYTES:
            raise ValueError("a frame of %d byte is shorter than %d" % (self.size_bytes, MIN_FRAME_BYTES))
        low = struct.unpack("!H", _address(self.sink_ip)[2:])[0]
        if not 1 <= self.destinations <= _WRAP or _WRAP % self.destinations or low % self.destinations:
            raise ValueError("%d destinations from %s on" % (self.destinations, self.sink_ip))

    def frame(self, sequence: int, wall_ns: int, identification: int | None = None) -> bytes:
        """Build one frame, computed in full: the reference that the batch must agree with."""
        ident = (sequence - 1) % _WRAP if identification is None else identification
        ip_bytes = self.size_bytes - 14
        net, low = struct.unpack("!2sH", _address(self.sink_ip))
        sink = net + struct.pack("!H", low + ident % self.destinations)
        ip = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, ip_bytes, ident, 0, TTL, UDP_PROTOCOL, 0, _address(self.source_ip), sink
        )
        checksum = _fold(sum(struct.unpack("!10H", ip))) ^ 0xFFFF
        ethernet = self.destination_mac + self.source_mac + b"\x08\x00"
        # UDP checksum 0: "none", as pktgen without UDPCSUM.
        udp = struct.pack("!HHHH", self.udp_source_port, self.udp_sink_port, ip_bytes - 20, 0)
        seconds, rest_ns = divmod(wall_ns, 1_000_000_000)
        mark = struct.pack("!IIII", MAGIC, sequence % 2**32, seconds % 2**32, rest_ns // 1000)
        head = ethernet + ip[:10] + struct.pack("!H", checksum) + ip[12:] + udp + mark
        return head + bytes(self.size_bytes - len(head))


def _fold(total: int) -> int:
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _wire(values: Any) -> memoryview:
    """Return 16-bit words in network byte order, to be copied into frames unchanged."""
    words16 = array("H", values)
    if struct.pack("=H", 1) != struct.pack("!H", 1):
        words16.byteswap()
    return memoryview(words16)


class FrameRing:
    """``slots`` frames in one buffer, ``stride_bytes`` apart, with their changing fields rewritten in place.

    ``fill(slot, packets, sequence)`` makes the slots carry consecutive sequence numbers. It may fill fewer than
    requested and returns how many, so that a run of slots never crosses the end of the buffer or a carry into the upper
    half of the sequence number (once in 65 536 frames).
    """

    def __init__(self, template: FrameTemplate, buffer: Any, slots: int, stride_bytes: int) -> None:
        if stride_bytes % 2 or stride_bytes < template.size_bytes:
            raise ValueError("stride of %d byte for frames of %d" % (stride_bytes, template.size_bytes))
        self.slots = slots
        self._stride = stride_bytes // 2
        view = memoryview(buffer)[: slots * stride_bytes]
        first = template.frame(1, 0)
        for slot in range(slots):
            view[slot * stride_bytes : slot * stride_bytes + len(first)] = first
        self._words16 = view.cast("B").cast("H")
        # Both tables run on past their wrap by one buffer, so that a slice never has to be assembled from two.
        base = sum(struct.unpack("!10H", first[14:34])) - struct.unpack("!H", first[24:26])[0]
        many = template.destinations
        checksums = [_fold(base + ident + ident % many) ^ 0xFFFF for ident in range(_WRAP)]
        low = struct.unpack("!H", first[32:34])[0]
        # Like the checksum, the address depends on nothing but the identification.
        self._sinks = None if many == 1 else _wire(low + ident % many for ident in range(_WRAP + slots))
        self._low = _wire(value % _WRAP for value in range(_WRAP + slots + 1))
        self._checksums = _wire(checksums + checksums[:slots])
        self._high: int | None = None
        self._seconds: int | None = None

    def fill(self, slot: int, packets: int, sequence: int, wall_ns: int) -> int:
        """Write up to ``packets`` frames from ``slot`` on, numbered from ``sequence`` (>= 1); return the number
        written.
        """
        low = sequence % _WRAP
        packets = min(packets, self.slots - slot, _WRAP - low)
        ident = (low - 1) % _WRAP
        words16, stride = self._words16, self._stride
        begin, end = slot * stride, (slot + packets) * stride
        words16[begin + ID_WORD : end : stride] = self._low[ident : ident + packets]
        words16[begin + CHECKSUM_WORD : end : stride] = self._checksums[ident : ident + packets]
        if self._sinks is not None:
            words16[begin + SINK_WORD : end : stride] = self._sinks[ident : ident + packets]
        words16[begin + SEQUENCE_WORD + 1 : end : stride] = self._low[low : low + packets]
        seconds, rest_ns = divmod(wall_ns, 1_000_000_000)
        high, microseconds = sequence >> 16, rest_ns // 1000
        words16[begin + MICROSECONDS_WORD : end : stride] = self._constant(microseconds >> 16, packets)
        words16[begin + MICROSECONDS_WORD + 1 : end : stride] = self._constant(microseconds, packets)
        # The next two change once in 65 536 frames and once a second; then all slots are rewritten at once.
        if high != self._high:
            words16[SEQUENCE_WORD::stride] = self._constant(high, self.slots)
            self._high = high
        if seconds != self._seconds:
            words16[SECONDS_WORD::stride] = self._constant(seconds >> 16, self.slots)
            words16[SECONDS_WORD + 1 :: stride] = self._constant(seconds, self.slots)
            self._seconds = seconds
        return packets

    def _constant(self, value: int, packets: int) -> memoryview:
        return memoryview(array("H", [int.from_bytes((value & 0xFFFF).to_bytes(2, "big"), sys.byteorder)]) * packets)

    def release(self) -> None:
        """Release the buffer, so that a mapping below it can be closed."""
        self._words16.release()


class StreamAddresses(NamedTuple):
    """The fields that identify a stream's frames: addresses in network order, and the UDP port of the sink."""

    source: bytes
    sink: bytes
    udp_sink_port: int


def classify_discovery(kind: int) -> Optional[str]:
    """Classify an ICMPv6 type as neighbour or listener discovery, or None."""
    return "nd" if kind in NEIGHBOUR_DISCOVERY else "mld" if kind in LISTENER_DISCOVERY else None


def classify_frame(frame: bytes, streams: Sequence[StreamAddresses]) -> str:
    """Return one word for the protocol of a frame that begins with these bytes."""
    at = 12
    kind = int.from_bytes(frame[at : at + 2], "big")
    while kind in VLANS and at < 20:
        at += 4
        kind = int.from_bytes(frame[at : at + 2], "big")
    body = frame[at + 2 :]
    if len(body) < 4:
        return "short"
    if kind < 0x0600:
        if (frame[:6] == BRIDGES and body[:3] == b"\x42\x42\x03") or (frame[:6] == PVST and body[:8] == PVST_SNAP):
            return "stp"
        return "llc"
    if kind == 0x0800:
        return _ipv4(body, streams)
    if kind == 0x86DD:
        return _ipv6(body)
    return ETHERTYPES.get(kind, "0x%04x" % kind)


def _ipv4(packet: bytes, streams: Sequence[StreamAddresses]) -> str:
    if len(packet) < 20:
        return "ipv4"
    name, body = IPV4.get(packet[9], "ipv4"), packet[(packet[0] & 15) * 4 :]
    if name == "icmp":
        return _icmp(packet[12:16], body, streams)
    if name != "udp":
        return name
    if body[8:12] == _MAGIC_BYTES:
        return "udp_test"
    if any(packet[12:16] == own.source or packet[16:20] == own.sink for own in streams):
        return "udp_stream"
    return name


def _icmp(sender: bytes, body: bytes, streams: Sequence[StreamAddresses]) -> str:
    """Return ``icmp``, or the type of an error that quotes a stream's packet."""
    name, quoted = ICMP_ERRORS.get(body[0] if body else -1, "icmp"), body[8:]
    own = next((each for each in streams if quoted[9:10] == b"\x11" and quoted[12:20] == each.source + each.sink), None)
    if own is None or len(quoted) < 20:
        return "icmp"
    kind = (body[0], body[1])
    if kind == PORT_UNREACHABLE and sender == own.sink:
        return "icmp_sink"
    return "icmp_prohibited" if kind in PROHIBITED else name


def _ipv6(packet: bytes) -> str:
    if len(packet) < 44:
        return "ipv6"
    following, at = packet[6], 40
    if following == 0:  # hop-by-hop options, used by listener discovery
        following, at = packet[40], 40 + 8 * (packet[41] + 1)
    name = IPV6.get(following, "ipv6")
    if name == "icmpv6" and at < len(packet):
        return classify_discovery(packet[at]) or name
    if name == "udp" and packet[at + 8 : at + 12] == _MAGIC_BYTES:
        return "udp_test"
    return name
