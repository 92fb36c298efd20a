"""Time marks: ICMP echoes to and from one address, each with the time at which the kernel saw it.

A raw socket sees them in parallel with the kernel, which answers them. Its filter excludes everything else; the time is
the kernel's, so it does not matter how late they are read. Traffic may be forged: packets that are no whole echo are
counted and not kept, and after ``MAX_MARKS`` packets have been examined, no more are read.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from labconsole.agent.reading.port_listeners import ETH_P_ALL, PACKET_OUTGOING, PACKET_STATISTICS, SOL_PACKET, open_raw
from labconsole.wire.codec import WireError
from labconsole.wire.marks import MAX_MARKS, SeenMarks, TimeMark
from labconsole.wire.session import Clocks

SO_TIMESTAMPNS = 35
PACKET_HOST = 0
ETHERNET_LIKE = (1, 772)
"""ARPHRD_ETHER, and the loopback's, whose frames look the same."""

ECHO_REPLY, ECHO_REQUEST = 0, 8
ETHERNET_BYTES, IP_BYTES, ICMP_BYTES = 14, 20, 8
FRAGMENT = 0x3FFF
"""More fragments, and the offset."""

FRAME_BYTES = 65535 + ETHERNET_BYTES
AT_ONCE = 256
"""Most packets read before the agent does something else."""

READINGS = 5


def program(address: bytes) -> bytes:
    """Build the filter: first fragments of echo requests to this address and of echo replies from it, as a whole."""
    number = int.from_bytes(address, "big")
    lines = (
        (0x28, 0, 0, 12),  # ethertype
        (0x15, 0, 13, 0x0800),
        (0x30, 0, 0, 23),  # protocol
        (0x15, 0, 11, 1),
        (0x28, 0, 0, 20),  # offset of the fragment
        (0x45, 9, 0, 0x1FFF),
        (0xB1, 0, 0, 14),  # X = length of the IP header
        (0x50, 0, 0, 14),  # ICMP's type
        (0x15, 0, 2, ECHO_REQUEST),
        (0x20, 0, 0, 30),  # destination
        (0x15, 3, 4, number),
        (0x15, 0, 3, ECHO_REPLY),
        (0x20, 0, 0, 26),  # source
        (0x15, 0, 1, number),
        (0x06, 0, 0, 0x40000),
        (0x06, 0, 0, 0),
    )
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def clocks() -> Clocks:
    """Read both clocks, as close together as five attempts allow."""
    readings = []
    for _ in range(READINGS):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        readings.append((time.monotonic_ns() - before_ns, before_ns, wall_ns))
    took_ns, before_ns, wall_ns = min(readings)
    return Clocks(monotonic_ns=before_ns + took_ns // 2, wall_ns=wall_ns)


def parse(frame: bytes, kind: int, address: bytes) -> Optional[Dict[str, Any]]:
    """Parse a mark in a frame, without its time, or return None if it is no mark. ``kind``: the kernel's packet
    type.
    """
    packet = frame[ETHERNET_BYTES:]
    if frame[12:14] != b"\x08\x00" or len(packet) < IP_BYTES or packet[0] >> 4 != 4:
        return None
    header_bytes = (packet[0] & 15) * 4
    total_bytes, fragment = struct.unpack_from("!H2xH", packet, 2)
    if header_bytes < IP_BYTES or not header_bytes + ICMP_BYTES <= total_bytes <= len(packet):
        return None
    icmp = packet[header_bytes:total_bytes]
    if (
        fragment & FRAGMENT
        or packet[9] != 1
        or not _is_checksum_valid(packet[:header_bytes])
        or not _is_checksum_valid(icmp)
    ):
        return None
    if (icmp[0], kind, packet[16:20]) == (ECHO_REQUEST, PACKET_HOST, address):
        peer, mac = packet[12:16], frame[6:12]
    elif (icmp[0], kind, packet[12:16]) == (ECHO_REPLY, PACKET_OUTGOING, address):
        peer, mac = packet[16:20], frame[:6]
    else:
        return None
    payload = icmp[ICMP_BYTES:]
    number, sequence = struct.unpack_from("!HH", icmp, 4)
    return {
        "reply": icmp[0] == ECHO_REPLY,
        "address": socket.inet_ntoa(peer),
        "mac": ":".join("%02x" % byte for byte in mac),
        "icmp_id": number,
        "icmp_sequence": sequence,
        "icmp_code": icmp[1],
        "payload_bytes": len(payload),
        "pattern": payload[-1] if payload else None,
        "pattern_from_byte": len(payload.rstrip(payload[-1:])) if payload else None,
    }


def _is_checksum_valid(data: bytes) -> bool:
    """Whether the checksum inside is right (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    values: Tuple[int, ...] = struct.unpack("!%dH" % (len(padded) // 2), padded)
    return sum(values) % 0xFFFF == 0


def _wall_ns(ancillary: List[Tuple[int, int, bytes]]) -> Optional[int]:
    for level, kind, data in ancillary:
        if (level, kind, len(data)) == (socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.calcsize("@ll")):
            seconds, nanoseconds = struct.unpack("@ll", data)
            return int(seconds) * 10**9 + int(nanoseconds)
    return None


def open_socket(interface: str, address: bytes) -> socket.socket:
    """Open a socket in the calling thread's namespace. Raises WireError."""
    if not 1 <= len(interface) <= 15 or "/" in interface:
        raise WireError("bad_request", "interface: %r is not a valid interface name" % interface)
    opened = open_raw(interface, ETH_P_ALL, program(address))
    if opened.getsockname()[3] not in ETHERNET_LIKE:
        opened.close()
        raise WireError("not_supported", "%s is not an Ethernet interface" % interface)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return opened


class MarkTap:
    """One socket and the marks that it has seen. ``offer`` gets each, and returns False if there was no room for its
    event.
    """

    def __init__(self, opened: socket.socket, address: bytes, offer: Callable[[TimeMark], bool]) -> None:
        self._socket, self._address, self._offer = opened, address, offer
        self._marks: List[TimeMark] = []
        self._strange = self._untold = self._passed = self._dropped = 0
        self._interrupted: Optional[str] = None
        self._seen: Optional[SeenMarks] = None
        self._started = clocks()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(opened.fileno(), self._read)

    @property
    def _full(self) -> bool:
        return len(self._marks) + self._strange >= MAX_MARKS

    def _read(self) -> bool:
        """Read some queued packets; return False if there are none left for now, or no more are read."""
        for _ in range(AT_ONCE):
            if self._full:
                self._loop.remove_reader(self._socket.fileno())
                return False
            try:
                frame, ancillary, _, origin = self._socket.recvmsg(FRAME_BYTES, socket.CMSG_SPACE(16))
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as exc:  # reported once: the interface has gone down
                self._interrupted = self._interrupted or exc.strerror
                return False
            self._take(frame, origin[2], _wall_ns(ancillary))
        return True

    def _take(self, frame: bytes, kind: int, wall_ns: Optional[int]) -> None:
        fields = parse(frame, kind, self._address)
        if fields is None or wall_ns is None:
            self._strange += 1
        else:
            mark = TimeMark(**fields, wall_ns=wall_ns)
            self._marks.append(mark)
            self._untold += not self._offer(mark)
        if self._full:
            self._passed, self._dropped = self._statistics()

    def _statistics(self) -> Tuple[int, int]:
        """Return the packets that have passed the filter since the last call, and how many of them were dropped."""
        passed, dropped = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        return passed, dropped

    def end(self, interrupted: Optional[str] = None) -> SeenMarks:
        """Read the queued packets, close, and return the marks. Later calls return the same."""
        if self._seen is not None:
            return self._seen
        while self._read():
            continue
        passed, dropped = self._statistics()
        if self._full:  # packets dropped since then would not have been read either
            unread = self._passed + passed - self._dropped - MAX_MARKS
        else:
            unread, self._dropped = 0, dropped
        self.close()
        self._seen = SeenMarks(
            marks=self._marks,
            untold_marks=self._untold,
            strange_packets=self._strange,
            dropped_kernel_packets=self._dropped,
            unread_packets=unread,
            started=self._started,
            stopped=clocks(),
            interrupted=self._interrupted or interrupted,
        )
        return self._seen

    def close(self) -> None:
        """Stop. Does nothing if already closed."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
