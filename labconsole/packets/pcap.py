"""Reading capture files: the walk over pcap and pcapng records, and finding pktgen's header in a frame.

Pure, standard library only; runs on the nodes and at the console. The one non-obvious decision: for every value it
reads, this module also reports *which bytes decided it* (``RecordLayout.constant``, ``Dissection.decided_by``).
Neighbouring records of one length that agree in exactly these bytes mean the same thing, so counters can compare whole
columns of bytes at once and need no second parser that could disagree with this one.

Formats: pcap (libpcap's savefile format, micro- and nanoseconds) and pcapng (IETF draft-ietf-opsawg-pcapng), both byte
orders. A reader never allocates memory by a size that a file claims: it only moves on inside its buffer.
"""

from __future__ import annotations

import struct
from typing import Callable, List, NamedTuple, Optional, Set, Tuple, Union

Buffer = Union[bytes, bytearray]

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""A record that claims more is damage, not a packet: no link has such frames, and libpcap refuses them as well."""

MAX_INTERFACES = 4096
"""Most interfaces of one section. Each is remembered, and a file of nothing else would fill the memory."""

MAX_TIME_NS = 1 << 62
"""Latest time, up to the year 2116 (or as long before 1970): a stamp beyond is damage. Sums and differences of two fit
64 bits.
"""

PKTGEN_MAGIC = b"\xbe\x9b\xe9\x55"

LINK_NULL, LINK_ETHERNET, LINK_RAW_BSD, LINK_RAW, LINK_LOOP = 0, 1, 12, 101, 108
LINK_SLL, LINK_IPV4, LINK_IPV6, LINK_SLL2 = 113, 228, 229, 276
LINK_NAMES = {
    LINK_NULL: "null",
    LINK_ETHERNET: "ethernet",
    LINK_RAW_BSD: "raw_ip",
    LINK_RAW: "raw_ip",
    LINK_LOOP: "loop",
    LINK_SLL: "linux_sll",
    LINK_IPV4: "raw_ipv4",
    LINK_IPV6: "raw_ipv6",
    LINK_SLL2: "linux_sll2",
}

_PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_SECTION_HEADER, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
_OPTION_TSRESOL, _OPTION_TSOFFSET = 9, 14


class NotACapture(ValueError):
    """Raised if the first bytes match no format read here. ``first_bytes`` are the bytes found."""

    def __init__(self, first_bytes: bytes) -> None:
        self.first_bytes = bytes(first_bytes[:8])
        what = "begins with the bytes %s" % self.first_bytes.hex(" ") if self.first_bytes else "is empty"
        super().__init__("is not a pcap or pcapng capture: it %s" % what)


class RecordLayout(NamedTuple):
    """Offsets of a record's parts, from the record's first byte.

    Time in ns = ``base_ns`` + high word * ``high_ns`` + low word * ``low_ns``, words of 32 bit in ``little`` order.
    Records that agree in the ``constant`` bytes have one length, one original length and one interface.
    """

    header_bytes: int
    constant: Tuple[int, ...]
    time_high: int
    time_low: int
    little: bool
    high_ns: int
    low_ns: int
    base_ns: int


class PcapInterface:
    """One interface of a capture: its link type and the unit of its time stamps."""

    __slots__ = ("layout", "link_type", "offset_ns", "snap_bytes", "unit_ns", "units_per_s")

    def __init__(self, link_type: int, snap_bytes: int, units_per_s: int, offset_ns: int) -> None:
        self.link_type = link_type
        self.snap_bytes = snap_bytes
        self.units_per_s = units_per_s
        self.offset_ns = offset_ns
        # 0 if a unit is no whole number of nanoseconds (binary or finer resolutions): those records are read one by one
        self.unit_ns = 0 if 1_000_000_000 % units_per_s else 1_000_000_000 // units_per_s
        self.layout: Optional[RecordLayout] = None

    def to_ns(self, units: int) -> int:
        """Convert a time stamp in this interface's units to ns since 1970, rounded down."""
        if self.unit_ns:
            return self.offset_ns + units * self.unit_ns
        return self.offset_ns + units * 1_000_000_000 // self.units_per_s


class CaptureReader:
    """Walks over the records of one capture. ``advance`` stores the current record in the attributes.

    ``corrupt_reason`` is set when the walk cannot go on; nothing after that point is readable.
    """

    def __init__(self) -> None:
        self.format: Optional[str] = None
        self._opened = False
        self.corrupt_reason: Optional[str] = None
        self.link_types: Set[int] = set()
        self.frame_start = 0
        self.captured_bytes = 0
        self.original_bytes = 0
        self.at_ns: Optional[int] = None
        self.interface = PcapInterface(0, 0, 1_000_000, 0)
        self.layout: Optional[RecordLayout] = None
        self._interfaces: List[PcapInterface] = []
        self._order = "<"
        self._record = struct.Struct("<IIII")
        self._u32 = struct.Struct("<I")

    def advance(self, buffer: Buffer, start: int, end: int) -> Tuple[int, bool]:
        """Return the position after the block read, and whether it was a packet. An unchanged position: more bytes are
        needed.

        Raises NotACapture on the first call if the buffer does not begin like a capture.
        """
        if not self._opened:
            return self._open(buffer, start, end)
        if self.format == "pcap":
            return self._advance_pcap(buffer, start, end)
        return self._advance_pcapng(buffer, start, end)

    def _open(self, buffer: Buffer, start: int, end: int) -> Tuple[int, bool]:
        magic = bytes(buffer[start : min(start + 4, end)])
        if magic == _SECTION_MAGIC:
            self.format, self._opened = "pcapng", True
            return self._advance_pcapng(buffer, start, end)
        if magic not in _PCAP_MAGICS:
            raise NotACapture(bytes(buffer[start : min(start + 8, end)]))
        self.format = "pcap"
        if end - start < 24:
            return start, False
        self._opened = True
        order, unit_ns = _PCAP_MAGICS[magic]
        # the upper half of the link type word has frame check sequence bits
        snap_bytes, link_type = struct.unpack_from(order + "II", buffer, start + 16)
        self.interface = PcapInterface(link_type & 0xFFFF, snap_bytes, 1_000_000_000 // unit_ns, 0)
        self.layout = RecordLayout(16, tuple(range(8, 16)), 0, 4, order == "<", 1_000_000_000, unit_ns, 0)
        self.link_types.add(self.interface.link_type)
        self._record = struct.Struct(order + "IIII")
        return start + 24, False

    def _advance_pcap(self, buffer: Buffer, start: int, end: int) -> Tuple[int, bool]:
        if end - start < 16:
            return start, False
        seconds, fraction, captured, original = self._record.unpack_from(buffer, start)
        if captured > MAX_RECORD_BYTES:
            self.corrupt_reason = "a record claims %d captured bytes" % captured
            return start, False
        following = start + 16 + captured
        if following > end:
            return start, False
        self.frame_start = start + 16
        self.captured_bytes = captured
        self.original_bytes = original
        self.at_ns = seconds * 1_000_000_000 + fraction * self.interface.unit_ns
        return following, True

    def _advance_pcapng(self, buffer: Buffer, start: int, end: int) -> Tuple[int, bool]:
        if end - start < 12:
            return start, False
        if buffer[start : start + 4] == _SECTION_MAGIC:
            order_magic = bytes(buffer[start + 8 : start + 12])
            if order_magic not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                self.corrupt_reason = "a section header has the byte-order magic %s" % order_magic.hex(" ")
                return start, False
            self._order = "<" if order_magic == b"\x4d\x3c\x2b\x1a" else ">"
            self._u32 = struct.Struct(self._order + "I")
            self._record = struct.Struct(self._order + "7I")
            self._interfaces = []
        kind, length = self._u32.unpack_from(buffer, start)[0], self._u32.unpack_from(buffer, start + 4)[0]
        if length < 12 or length % 4 or length > MAX_RECORD_BYTES:
            self.corrupt_reason = "a block claims a length of %d bytes" % length
            return start, False
        if start + length > end:
            return start, False
        packet = False
        if kind in (_ENHANCED_PACKET, _OLD_PACKET):
            packet = self._packet(buffer, start, length, kind)
        elif kind == _SIMPLE_PACKET:
            packet = self._simple_packet(buffer, start, length)
        elif kind == _INTERFACE:
            self._describe_interface(buffer, start, length)
        return (start if self.corrupt_reason else start + length), packet

    def _packet(self, buffer: Buffer, start: int, length: int, kind: int) -> bool:
        if length < 32:
            self.corrupt_reason = "a packet block of %d bytes is shorter than its own header" % length
            return False
        _, _, number, high, low, captured, original = self._record.unpack_from(buffer, start)
        if kind == _OLD_PACKET:  # 16 bit of interface number, 16 bit of drop count, in file order
            number = struct.unpack_from(self._order + "H", buffer, start + 8)[0]
        if captured > length - 32:
            self.corrupt_reason = "a packet block of %d bytes claims %d captured bytes" % (length, captured)
            return False
        if number >= len(self._interfaces):
            self.corrupt_reason = "a packet names interface %d of %d" % (number, len(self._interfaces))
            return False
        self.interface = self._interfaces[number]
        self.layout = self.interface.layout if kind == _ENHANCED_PACKET else None
        self.frame_start = start + 28
        self.captured_bytes = captured
        self.original_bytes = original
        self.at_ns = self.interface.to_ns(high << 32 | low)
        if not -MAX_TIME_NS < self.at_ns < MAX_TIME_NS:
            self.at_ns = self.layout = None
        return True

    def _simple_packet(self, buffer: Buffer, start: int, length: int) -> bool:
        if length < 16 or not self._interfaces:
            self.corrupt_reason = "a simple packet block has no %s" % ("interface" if length >= 16 else "header")
            return False
        self.interface = self._interfaces[0]
        self.original_bytes = self._u32.unpack_from(buffer, start + 8)[0]
        stored = min(length - 16, self.original_bytes)
        snap_bytes = self.interface.snap_bytes
        self.captured_bytes = min(stored, snap_bytes) if snap_bytes else stored
        self.layout = None
        self.frame_start = start + 12
        self.at_ns = None
        return True

    def _describe_interface(self, buffer: Buffer, start: int, length: int) -> None:
        if length < 20:
            self.corrupt_reason = "an interface description of %d bytes is too short" % length
            return
        if len(self._interfaces) >= MAX_INTERFACES:
            self.corrupt_reason = "it describes more than %d interfaces" % MAX_INTERFACES
            return
        order = self._order
        link_type, _, snap_bytes = struct.unpack_from(order + "HHI", buffer, start + 8)
        units_per_s, offset_s = 1_000_000, 0
        position, stop = start + 16, start + length - 4
        while position + 4 <= stop:
            code, size = struct.unpack_from(order + "HH", buffer, position)
            value = bytes(buffer[position + 4 : position + 4 + size])
            if code == 0 or position + 4 + size > stop:
                break
            if code == _OPTION_TSRESOL and size == 1:
                units_per_s = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
            elif code == _OPTION_TSOFFSET and size == 8:
                offset_s = struct.unpack(order + "q", value)[0]
            position += 4 + (size + 3) // 4 * 4
        interface = PcapInterface(link_type, snap_bytes, units_per_s, offset_s * 1_000_000_000)
        if interface.unit_ns:
            # With the upper half of the time stamp, so that one record's time base is valid for the next ones'.
            constant = tuple(range(16)) + tuple(range(20, 28))
            unit_ns, base_ns = interface.unit_ns, interface.offset_ns
            interface.layout = RecordLayout(28, constant, 12, 16, order == "<", unit_ns << 32, unit_ns, base_ns)
        self._interfaces.append(interface)
        self.link_types.add(link_type)


class StreamKey(NamedTuple):
    """Sender and receiver of a stream; addresses as in the packet, 4 or 16 bytes."""

    source: bytes
    sink: bytes
    udp_source_port: int
    udp_sink_port: int


class Dissection(NamedTuple):
    """The dissection of one frame. ``key`` is None for a frame that is not pktgen's; offsets count from the frame's
    start.

    ``sequence_offset`` is the offset of pktgen's number, behind the magic number, or 0 if the frame has no such place.

    ``key_bytes`` is (first, last + 1) of addresses and ports if they are adjacent (no IP options), else None.
    """

    key: Optional[StreamKey]
    sequence_offset: int
    decided_by: Tuple[int, ...]
    key_bytes: Optional[Tuple[int, int]]


_VLAN_TAGS = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_FAMILIES = {2: _IPV4, 10: _IPV6, 24: _IPV6, 28: _IPV6, 30: _IPV6}  # Linux, NetBSD/OpenBSD, FreeBSD, Darwin


def dissect(buffer: Buffer, start: int, captured_bytes: int, link_type: int) -> Dissection:
    """Find pktgen's header in the frame at ``start``; every byte that was examined is in ``decided_by``."""
    frame = bytes(buffer[start : start + min(captured_bytes, 160)])
    decided: List[int] = []

    def look(offset: int, size: int) -> bytes:
        decided.extend(range(offset, min(offset + size, len(frame))))
        found = frame[offset : offset + size]
        return found if len(found) == size else b""

    def other() -> Dissection:
        return Dissection(None, 0, tuple(decided), None)

    protocol, offset = _network_layer(look, link_type)
    while protocol in _VLAN_TAGS:
        protocol, offset = look(offset + 2, 2), offset + 4
    if protocol == _IPV4:
        first = look(offset, 1)
        if not first or first[0] >> 4 != 4 or first[0] & 15 < 5:
            return other()
        fragment = look(offset + 6, 2)
        if not fragment or fragment[0] & 0x1F or fragment[1] or look(offset + 9, 1) != b"\x11":
            return other()
        addresses, size, addresses_at = look(offset + 12, 8), 4, offset + 12
        offset += (first[0] & 15) * 4
    elif protocol == _IPV6:
        first = look(offset, 1)
        if not first or first[0] >> 4 != 6 or look(offset + 6, 1) != b"\x11":  # UDP directly, no extension headers
            return other()
        addresses, size, addresses_at = look(offset + 8, 32), 16, offset + 8
        offset += 40
    else:
        return other()
    ports = look(offset, 4)
    if not addresses or not ports:
        return other()
    key_bytes = (addresses_at, offset + 4) if addresses_at + 2 * size == offset else None
    magic = look(offset + 8, 4)
    if magic != PKTGEN_MAGIC or len(frame) < offset + 16:
        return Dissection(None, offset + 12 if magic else 0, tuple(decided), key_bytes)
    source_port, sink_port = struct.unpack(">HH", ports)
    key = StreamKey(addresses[:size], addresses[size:], source_port, sink_port)
    return Dissection(key, offset + 12, tuple(decided), key_bytes)


def _network_layer(take: Callable[[int, int], bytes], link_type: int) -> Tuple[bytes, int]:
    """Return (ethertype, offset of the network header); the ethertype is empty if there is none."""
    if link_type == LINK_ETHERNET:
        return take(12, 2), 14
    if link_type == LINK_SLL:
        return take(14, 2), 16
    if link_type == LINK_SLL2:
        return take(0, 2), 20
    if link_type in (LINK_RAW, LINK_RAW_BSD, LINK_IPV4, LINK_IPV6):
        first = take(0, 1)
        return {4: _IPV4, 6: _IPV6}.get(first[0] >> 4 if first else 0, b""), 0
    if link_type in (LINK_NULL, LINK_LOOP):
        family = take(0, 4)
        # "null" is in the byte order of the machine that captured, which is not in the file
        number = min(int.from_bytes(family, "big"), int.from_bytes(family, "little")) if family else 0
        return _FAMILIES.get(number, b""), 4
    return b"", 0
