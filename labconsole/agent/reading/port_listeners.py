"""Listening on data ports: which stream's test frames arrive where, and which foreign frames."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
import struct
from typing import Any, Dict, List, Optional, Sequence, Tuple

from labconsole.agent.reading.proc_files import read_text
from labconsole.packets.frame import StreamAddresses, classify_discovery, classify_frame
from labconsole.wire.codec import WireError
from labconsole.wire.foreign import MAX_TAPS, OwnStream, SinkPort, SinkPortState, TapCounts, TappedPort

# -- test frames -------------------------------------------------------------------------------------------------------
# Listening for test frames on all data ports at once: which stream's frames arrive where. Proves the cabling.
#
# A raw socket receives from every interface of the namespace, so frames at unexpected places are seen, too. The kernel
# filters for the payload's magic number: other traffic costs nothing.

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
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 1 << 20
"""Receive buffer of a socket, which the kernel doubles. Its default holds some 130 frames, and more than these arrive
while a busy node does not run the agent.
"""

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


def enlarge_buffer(opened: socket.socket) -> None:
    """Give a socket a receive buffer of BUFFER_BYTES, or of net.core.rmem_max where only root of the machine may."""
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)


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
            enlarge_buffer(self._socket)
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


# -- foreign frames ----------------------------------------------------------------------------------------------------
# Counting, by protocol, the frames on a data port that are not the streams'; no frame is kept. Also blocks a sink's
# ports for a trial, so that its kernel sends no such frames.
#
# There are two ways to watch. ``every``: one raw socket receives all frames, and its filter drops the streams' own in
# the kernel; it names all protocols, both ways, and costs some 0.1 microseconds for each received frame of the stream
# and 0.3 for each that sendmmsg sends (tools/benchmarks/bench_foreign.py). Otherwise: sockets for the types of
# control traffic only, which never receive a test frame, and the kernel's own counts of ICMPv6 that it sent; that costs
# a stream nothing, and other frames are counted without a name.

CONTROL_TYPES = (0x0806, 0x86DD, 0x88CC, 0x0004)
"""ARP, IPv6, LLDP, and frames of 802.2, spanning tree's among them."""
SNAP_BYTES = 96
MAX_PROTOCOLS = 64
MAX_FOREIGN_FRAMES = 50_000
"""Most frames named on one port; the port's own counters count the later ones, without a name."""

DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)
"""A socket filter. UDP counts a datagram that it drops as one of ``InErrors``, and nothing is kept of it."""

_SENT_TYPE = "Icmp6OutType"


def build_foreign_filter(streams: List[StreamAddresses]) -> bytes:
    """Build the filter: nothing of these streams' frames, the first bytes of all others."""
    per_stream = 6
    length = 8 + per_stream * len(streams) + 2
    keep = length - 2
    lines: List[Tuple[int, int, int, int]] = []

    def unless(value: int) -> None:
        """Go on if the accumulator equals this, else the frame is not the stream's."""
        lines.append((0x15, 0, keep - len(lines) - 1, value))

    lines.append((0x28, 0, 0, 12))
    unless(0x0800)
    lines.append((0x30, 0, 0, 14))
    unless(0x45)
    lines.append((0x30, 0, 0, 23))
    unless(17)
    lines.append((0x20, 0, 0, 42))
    unless(MAGIC)
    for index, own in enumerate(streams):
        last = 8 + per_stream * (index + 1)  # the start of the next stream's instructions
        for load, value in (
            ((0x20, 0, 0, 26), int.from_bytes(own.source, "big")),
            ((0x20, 0, 0, 30), int.from_bytes(own.sink, "big")),
        ):
            lines.append(load)
            lines.append((0x15, 0, last - len(lines) - 1, value))
        lines.append((0x28, 0, 0, 36))
        lines.append((0x15, length - 1 - len(lines) - 1, last - len(lines) - 1, own.udp_sink_port))
    lines += [(0x06, 0, 0, SNAP_BYTES), (0x06, 0, 0, 0)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def open_raw(interface: str, ethertype: int, text: bytes) -> socket.socket:
    """Open a raw socket on one interface. Raises WireError."""
    buffer = ctypes.create_string_buffer(text)
    try:
        # Protocol 0: no frame arrives before the filter is in place.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    except PermissionError:
        raise WireError("no_permission", "no permission to listen on a raw socket; CAP_NET_RAW is needed") from None
    try:
        if text:
            attached = struct.pack("HP", len(text) // 8, ctypes.addressof(buffer))
            opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
        enlarge_buffer(opened)
        opened.bind((interface, ethertype))
    except OSError as exc:
        opened.close()
        raise WireError("no_such_interface", "cannot listen on %s: %s" % (interface, exc.strerror)) from None
    opened.setblocking(False)
    return opened


def sent_icmpv6(interface: str) -> Dict[str, int]:
    """Return neighbour and listener discovery that the kernel has sent on an interface since it was made."""
    found = {"nd": 0, "mld": 0}
    for line in (read_text("/proc/self/net/dev_snmp6/%s" % interface) or "").splitlines():  # none without IPv6
        name, _, number = line.partition(" ")
        kind = name[len(_SENT_TYPE) :] if name.startswith(_SENT_TYPE) else ""
        if kind.isdigit() and number.strip().isdigit():
            word = classify_discovery(int(kind))
            if word is not None:
                found[word] += int(number)
    return found


class PortTap:
    """The sockets that watch one interface, and their counts."""

    def __init__(self, interface: str, streams: List[StreamAddresses], every: bool) -> None:
        self.interface, self.every = interface, every
        self._streams = streams
        self._received: Dict[str, int] = {}
        self._sent: Dict[str, int] = {}
        self._frames = 0
        self._loop = asyncio.get_running_loop()
        self._sent_before = {} if every else sent_icmpv6(interface)
        self._sockets: List[socket.socket] = []
        try:
            for kind in (ETH_P_ALL,) if every else CONTROL_TYPES:
                opened = open_raw(interface, kind, build_foreign_filter(streams) if every else b"")
                self._sockets.append(opened)
                self._loop.add_reader(opened.fileno(), self._read, opened)
        except BaseException:
            self.close()
            raise

    def _read(self, opened: socket.socket) -> None:
        while self._frames < MAX_FOREIGN_FRAMES:
            try:
                frame, origin = opened.recvfrom(SNAP_BYTES)
            except OSError:  # no more for now, or the interface has gone down
                return
            self._frames += 1
            counts = self._sent if origin[2] == PACKET_OUTGOING else self._received
            name = classify_frame(frame, self._streams)
            if name not in counts and len(counts) >= MAX_PROTOCOLS:
                name = "other"
            counts[name] = counts.get(name, 0) + 1
        self._loop.remove_reader(opened.fileno())

    def stop(self) -> Dict[str, Any]:
        """Read the queued frames, close, and return the counts."""
        missed: Optional[int] = 0
        for opened in self._sockets:
            self._read(opened)
            try:
                lost = struct.unpack("=II", opened.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
                missed = None if missed is None else missed + lost
            except OSError:
                missed = None
        self.close()
        if not self.every:
            after = sent_icmpv6(self.interface)
            moved = {name: after[name] - before for name, before in self._sent_before.items()}
            self._sent = {name: packets for name, packets in moved.items() if packets > 0}
        return {
            "interface": self.interface,
            "every": self.every,
            "received": self._received,
            "sent": self._sent,
            "missed_packets": missed,
        }

    def close(self) -> None:
        for opened in self._sockets:
            self._loop.remove_reader(opened.fileno())
            opened.close()
        self._sockets = []


def _own(stream: OwnStream) -> StreamAddresses:
    try:
        addresses = [socket.inet_aton(address) for address in (stream.source_ip, stream.sink_ip)]
    except OSError:
        raise WireError("bad_request", "a stream has an address that is not an IPv4 address") from None
    return StreamAddresses(addresses[0], addresses[1], stream.udp_sink_port)


class PortTaps:
    """The taps of a session."""

    def __init__(self) -> None:
        self._taps: List[PortTap] = []

    def start(self, ports: Sequence[TappedPort]) -> None:
        """Start counting on these ports. Replaces existing taps."""
        if not ports:
            raise WireError("bad_request", "ports must be 1 to %d" % MAX_TAPS)
        self.close()
        try:
            for port in ports:
                interface = port.interface
                if not 1 <= len(interface) <= 15 or "/" in interface:
                    raise WireError("bad_request", "interface: %r is not a valid interface name" % interface)
                self._taps.append(PortTap(interface, [_own(stream) for stream in port.streams], port.every))
        except BaseException:
            self.close()
            raise

    def stop(self) -> List[TapCounts]:
        """Stop, and return the counts."""
        taps, self._taps = self._taps, []
        return [TapCounts(**tap.stop()) for tap in taps]

    def close(self) -> None:
        for tap in self._taps:
            tap.close()
        self._taps = []


class SinkPorts:
    """Sockets on those ports of a sink's own addresses that streams go to: they drop everything, and end with the
    agent.
    """

    def __init__(self) -> None:
        self._sockets: List[socket.socket] = []

    def hold(self, ports: Sequence[SinkPort]) -> List[SinkPortState]:
        """Open a socket for each address and port of the node's own; return the state of each. On an error none stays
        open.
        """
        self.close()
        found: Dict[Tuple[str, int], SinkPortState] = {}
        try:
            for port in ports:
                key = (port.sink_ip, port.udp_sink_port)
                if key not in found:
                    found[key] = self._hold(*key)
        except BaseException:
            self.close()
            raise
        return [found[port.sink_ip, port.udp_sink_port] for port in ports]

    def _hold(self, address: str, port: int) -> SinkPortState:
        try:
            socket.inet_aton(address)
        except OSError:
            raise WireError("bad_request", "sink_ip: %r is not an IPv4 address" % address) from None
        program = ctypes.create_string_buffer(DROP_ALL)
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            # Before it is bound, so that nothing is ever queued.
            attached = struct.pack("HP", len(DROP_ALL) // 8, ctypes.addressof(program))
            opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
            opened.bind((address, port))
        except OSError as exc:
            opened.close()
            states = {errno.EADDRNOTAVAIL: "not_local", errno.EADDRINUSE: "in_use"}
            return SinkPortState(state=states.get(exc.errno or 0, "refused"), message=os.strerror(exc.errno or 0))
        self._sockets.append(opened)
        return SinkPortState(state="held")

    def close(self) -> None:
        """Release the ports."""
        for opened in self._sockets:
            opened.close()
        self._sockets = []
