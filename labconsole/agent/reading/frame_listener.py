"""Listening for test frames on all data ports at once: which stream's frames arrive where. Proves the cabling.

A raw socket receives from every interface of the namespace, so frames at unexpected places are seen, too. The kernel
filters for the payload's magic number: other traffic costs nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from typing import Any, Dict, List, Optional, Tuple

from labconsole.wire.codec import WireError

ETH_P_ALL, ETH_P_IP = 0x0003, 0x0800
SO_ATTACH_FILTER = 26
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_MR_PROMISC = 1
PACKET_OUTGOING = 4
MAGIC = 0xBE9BE955
MAGIC_BYTES = struct.pack("!I", MAGIC)
MAX_FRAMES = 100_000
"""Most frames counted: a listener expects them by the dozen; one that receives a whole run stops early, and reports
that.
"""
MAX_PLACES = 1000
SEEN_BYTES = 96

PACKET_STATISTICS = 6

_LOAD_HALF, _LOAD_BYTE, _LOAD_WORD = 0x28, 0x30, 0x20
_LOAD_HEADER_LENGTH, _LOAD_WORD_BEHIND, _IF_EQUAL, _RETURN = 0xB1, 0x40, 0x15, 0x06
_SOURCE_IP = slice(26, 30)


def _filter(source_ip: bytes) -> bytes:
    """Build the socket's filter: IPv4, UDP, the payload's magic number and, unless empty, the source address."""
    tests = [(_LOAD_HALF, 12, ETH_P_IP), (_LOAD_BYTE, 23, socket.IPPROTO_UDP)]
    if source_ip:
        tests.append((_LOAD_WORD, _SOURCE_IP.start, struct.unpack("!I", source_ip)[0]))
    tests.append((_LOAD_WORD_BEHIND, 14 + 8, MAGIC))  # the first word of UDP's payload
    program = [(_LOAD_HEADER_LENGTH, 0, 0, 14)]
    for number, (load, offset, wanted) in enumerate(tests, 1):
        program += [(load, 0, 0, offset), (_IF_EQUAL, 0, 2 * (len(tests) - number) + 1, wanted)]
    program += [(_RETURN, 0, 0, SEEN_BYTES), (_RETURN, 0, 0, 0)]
    return b"".join(struct.pack("=HBBI", *each) for each in program)


class FrameListener:
    """One raw socket and the frames it received. Closing it also ends its promiscuous mode."""

    def __init__(self, interfaces: List[str], source_ip: Optional[str] = None) -> None:
        self.heard: Dict[Tuple[str, str, str, int], int] = {}
        self._complete = True
        self._frames = 0
        try:
            self._source_ip = b"" if source_ip is None else socket.inet_aton(source_ip)
        except OSError:
            raise WireError("bad_request", "source_ip: %r is not an IPv4 address" % source_ip) from None
        steps = _filter(self._source_ip)
        program = ctypes.create_string_buffer(steps)
        filter_ = struct.pack("HP", len(steps) // 8, ctypes.addressof(program))
        try:
            kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
            # All protocols: a bridge takes its ports' frames before a socket for IP alone would receive them.
            self._socket = socket.socket(socket.AF_PACKET, kind, socket.htons(ETH_P_ALL))
        except PermissionError:
            raise WireError("no_permission", "no permission to listen on a raw socket; CAP_NET_RAW is needed") from None
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
            for interface in interfaces:
                index = socket.if_nametoindex(interface)
                member = struct.pack("IHH8s", index, PACKET_MR_PROMISC, 0, b"")
                self._socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member)
        except OSError as exc:
            self._socket.close()
            raise WireError("no_such_interface", "cannot listen on %s: %s" % (", ".join(interfaces), exc)) from None
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self.count_waiting)

    def count_waiting(self) -> None:
        """Count the frames that wait in the socket, before a request needs them: a busy node may not have read them
        yet.
        """
        while self._frames < MAX_FRAMES:
            try:
                frame, origin = self._socket.recvfrom(SEEN_BYTES)
            except OSError:  # no more for now, or an interface has gone down: its silence then shows that
                return
            header = 14 + 4 * (frame[14] & 15) if len(frame) > 14 else 0
            # A frame from before the filter was in place has not passed it.
            if origin[2] == PACKET_OUTGOING or frame[header + 8 : header + 12] != MAGIC_BYTES or frame[23] != 17:
                continue
            if self._source_ip and frame[_SOURCE_IP] != self._source_ip:
                continue
            self._frames += 1
            key = (
                str(origin[0]),
                socket.inet_ntoa(frame[26:30]),
                socket.inet_ntoa(frame[30:34]),
                int(struct.unpack_from("!H", frame, header + 2)[0]),
            )
            if key in self.heard or len(self.heard) < MAX_PLACES:
                self.heard[key] = self.heard.get(key, 0) + 1
            else:
                self._complete = False
        self._complete = False
        self._loop.remove_reader(self._socket.fileno())

    def is_complete(self) -> bool:
        """Whether every frame that passed the filter was counted."""
        # The kernel counts since the last call.
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._complete = self._complete and not dropped
        return self._complete

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()


class Listening:
    """At most one listener per session."""

    def __init__(self) -> None:
        self._listener: Optional[FrameListener] = None

    def start(self, interfaces: List[str], source_ip: Optional[str] = None) -> None:
        """Start to listen, promiscuously on these interfaces. Replaces a running listener."""
        self.close()
        self._listener = FrameListener(interfaces, source_ip)

    def stop(self) -> Dict[str, Any]:
        """Stop, and return the frames received."""
        heard = self.read()
        self.close()
        return heard

    def read(self) -> Dict[str, Any]:
        """Return the frames received so far."""
        if self._listener is None:
            return {"heard": [], "complete": True}
        self._listener.count_waiting()
        return {"heard": _rows(self._listener.heard), "complete": self._listener.is_complete()}

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _rows(heard: Dict[Tuple[str, str, str, int], int]) -> List[Dict[str, Any]]:
    names = ("interface", "source_ip", "sink_ip", "udp_sink_port")
    return [{**dict(zip(names, key)), "packets": packets} for key, packets in sorted(heard.items())]
