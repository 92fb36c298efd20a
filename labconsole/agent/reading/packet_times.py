"""Counting and timing every packet of a stream in the kernel: by an eBPF filter, or a count without rights."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from typing import Dict, List, Optional, Sequence, Tuple

from labconsole.agent.bpf import assembly, kernel
from labconsole.agent.bpf.assembly import RESULT, STACK, Assembly
from labconsole.agent.reading.port_listeners import (
    ETH_P_ALL,
    ETH_P_IP,
    MAGIC,
    PACKET_STATISTICS,
    SO_ATTACH_FILTER,
    SOL_PACKET,
)
from labconsole.agent.reading.xdp_port import XdpPort
from labconsole.packets.pcap import PKTGEN_MAGIC
from labconsole.wire.packet_times import BUCKET_BITS, BUCKETS, DelaysSoFar, StreamTimes, StreamToTime

# -- packet times ------------------------------------------------------------------------------------------------------
# It runs at the same place as tcpdump's own socket, so it sees the same packets as a capture, and changes nothing on
# the port; or on request before that, as an XDP program, which does (xdp_port.py). A capture has to carry every packet
# out of the kernel; this only adds to a few numbers there, and misses none. Only descriptors keep it: it ends with the
# process.
#
# Each processor's counts are its own and exact. Data between two packets is shared by the stream: last arrival, last
# delay and highest number are right as long as no two processors handle its packets at the same instant.

SO_ATTACH_BPF = 50
PACKET_IGNORE_OUTGOING = 23
_KEEP_NOTHING, _XDP_PASS = 0, 2

_HEADER_BYTES = 58
"""Ethernet, IPv4, UDP, and pktgen's own 16 bytes."""
_ETHERTYPE_AT, _IP_AT, _PROTOCOL_AT, _SOURCE_AT, _SINK_AT, _UDP_SINK_AT = 12, 14, 23, 26, 30, 36
_MAGIC_AT, _NUMBER_AT, _SECONDS_AT, _MICROSECONDS_AT = 42, 46, 50, 54

_HISTOGRAMS = ("delay", "due", "spacing", "variation")

_OWN = (
    "packets",
    "bytes",
    "first_ns",
    "last_ns",
    "negative_packets",
    "overlapping_packets",
    "delay_sum_ns",
    "delay_min_ns",
    "delay_max_ns",
    "due_max_ns",
)
_OWN_AT = {name: 8 * place for place, name in enumerate(_OWN)}
_OWN_FORMAT = "=6Q3qQ"
"""Data of one processor."""

_SHARED = ("last_ns", "last_delay_ns", "highest", "late_packets", "skipped_packets", "origin_ns")
_SHARED_AT = {name: 8 * place for place, name in enumerate(_SHARED)}
_SHARED_FORMAT = "=QqQQQQ"
"""Data of the stream, shared by all processors. ``origin_ns``: when number 0 was due at the latest, by the packets sent
so far: the earliest time stamp minus the intervals of its number.
"""

_STREAM, _HISTOGRAM = -4, -8
_BYTES, _SPACING, _VARIATION, _BEFORE, _DELAY, _DUE, _INTERVAL = range(-16, -72, -8)
_PACKET = -126
"""Offsets on the program's stack; the IP header lies on a multiple of four."""

_PACKET_OR_DELAY, _SHARED_STATE, _NOW, _OWN_STATE = 6, 7, 8, 9


class PacketTimer:
    """The program at one interface of the calling thread's namespace, until ``detach``. Raises OSError."""

    def __init__(
        self, interface: str, streams: Sequence[StreamToTime], offset_ns: int, port: Optional[XdpPort] = None
    ) -> None:
        self.interface, self._streams, self.port = interface, list(streams), port
        self._maps: List[kernel.Map] = []
        self._descriptors: List[int] = []
        try:
            several = max(1, len(streams))
            self._own = self._map(kernel.ARRAY_BY_PROCESSOR, 8 * len(_OWN), several, "lc_times_own")
            self._shared = self._map(kernel.ARRAY, 8 * len(_SHARED), several, "lc_times_shared")
            self._counts = self._map(
                kernel.ARRAY_BY_PROCESSOR, 8 * BUCKETS, len(_HISTOGRAMS) * several, "lc_times_counts"
            )
            code = self._program(offset_ns)
            self.instructions = len(code) // 8
            kind = kernel.SOCKET_FILTER if port is None else kernel.XDP
            program = self._hold(kernel.load_program(kind, code, "lc_times"))
            self._hold(_open_tap(interface, program) if port is None else port.attach(program))
        except BaseException:
            self.close()
            raise

    def _map(self, kind: int, value_bytes: int, entries: int, name: str) -> kernel.Map:
        made = kernel.Map(kind, 4, value_bytes, entries, name)
        self._maps.append(made)
        return made

    @property
    def memory_bytes(self) -> int:
        """Return the memory of its tables in the kernel."""
        return sum(each.memory_bytes for each in self._maps)

    def _hold(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor

    def detach(self) -> None:
        """Stop counting. The counts stay."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        if self.port is not None:
            self.port.put_back()

    def close(self) -> None:
        """Release everything."""
        self.detach()
        while self._maps:
            self._maps.pop().close()

    # The results

    def counted(self) -> List[StreamTimes]:
        """Return the results of each stream, in order. With many processors this takes some milliseconds."""
        return [self._stream(number) for number in range(len(self._streams))]

    def delays(self) -> List[DelaysSoFar]:
        """Return the delays of each stream, in order, while it is counted."""
        return [
            DelaysSoFar(
                negative_packets=sum(part["negative_packets"] for part in self._parts(number)),
                delay=self._histogram(number, _HISTOGRAMS.index("delay")),
            )
            for number in range(len(self._streams))
        ]

    def _parts(self, number: int) -> List[Dict[str, int]]:
        """Return the data of each processor."""
        key = struct.pack("=I", number)
        return [dict(zip(_OWN, struct.unpack(_OWN_FORMAT, part))) for part in self._own.get(key)]

    def _stream(self, number: int) -> StreamTimes:
        key, parts = struct.pack("=I", number), self._parts(number)
        seen = [part for part in parts if part["packets"]]
        shared = dict(zip(_SHARED, struct.unpack(_SHARED_FORMAT, self._shared.get(key)[0])))

        def of_all(name: str) -> List[int]:
            return [part[name] for part in seen]

        return StreamTimes(
            packets=sum(of_all("packets")),
            bytes=sum(of_all("bytes")),
            first_ns=min(of_all("first_ns"), default=None),
            last_ns=max(of_all("last_ns"), default=None),
            processors=len(seen),
            overlapping_packets=sum(of_all("overlapping_packets")),
            late_packets=shared["late_packets"],
            skipped_packets=shared["skipped_packets"],
            negative_packets=sum(of_all("negative_packets")),
            delay_sum_ns=_sum_delays(seen),
            delay_min_ns=min(of_all("delay_min_ns"), default=None),
            delay_max_ns=max(of_all("delay_max_ns"), default=None),
            due_max_ns=self._due_max_ns(number, seen),
            **{name: self._histogram(number, place) for place, name in enumerate(_HISTOGRAMS)},
        )

    def _due_max_ns(self, number: int, seen: Sequence[Dict[str, int]]) -> Optional[int]:
        timed = any(part["packets"] > part["negative_packets"] for part in seen)
        return max(part["due_max_ns"] for part in seen) if timed and self._streams[number].interval_ns else None

    def _histogram(self, number: int, place: int) -> List[List[int]]:
        packets: Dict[int, int] = {}
        for part in self._counts.get(struct.pack("=I", len(_HISTOGRAMS) * number + place)):
            counts = memoryview(part).cast("Q")
            for bucket in kernel.find_nonzero_words(part, 1 << BUCKET_BITS):
                packets[bucket] = packets.get(bucket, 0) + counts[bucket]
        return [[bucket, packets[bucket]] for bucket in sorted(packets)]

    # The program

    def _program(self, offset_ns: int) -> bytes:
        p = Assembly()
        self._identify_stream(p)
        p.call(assembly.TIME_NS)
        p.move(_NOW, RESULT)
        for register, table in ((_OWN_STATE, self._own), (_SHARED_STATE, self._shared)):
            self._look_up(p, table, _STREAM)
            p.move(register, RESULT)
        p.load(2, STACK, _BYTES, 8)
        self._add(p, _OWN_STATE, _OWN_AT["bytes"], 2)
        self._number(p)
        self._delay(p, offset_ns)
        self._compute_gap(p)
        self._own_totals(p)
        p.load(1, STACK, _BEFORE, 8)
        p.jump_if_value(1, "==", 0, "delay")  # no previous neighbour, or an unknown one
        self._count(p, "spacing", _SPACING)
        self._count(p, "variation", _VARIATION)
        p.label("delay")
        p.jump_if_value(_PACKET_OR_DELAY, "signed >=", 0, "in order")
        p.set(1, 1)
        self._add(p, _OWN_STATE, _OWN_AT["negative_packets"], 1)
        p.jump("end")
        p.label("in order")
        self._count(p, "delay", _DELAY)
        p.load(1, STACK, _INTERVAL, 8)
        p.jump_if_value(1, "==", 0, "end")
        p.load(1, STACK, _DUE, 8)
        p.load(2, _OWN_STATE, _OWN_AT["due_max_ns"], 8)
        p.jump_if(1, "<=", 2, "not the latest")
        p.store(_OWN_STATE, _OWN_AT["due_max_ns"], 1, 8)
        p.label("not the latest")
        self._count(p, "due", _DUE)
        p.label("end")
        p.leave(_KEEP_NOTHING if self.port is None else _XDP_PASS)
        return p.code()

    def _identify_stream(self, p: Assembly) -> None:
        """Locate the header, store the length on the stack, and find the stream's number; other packets end here."""
        if self.port is None:
            assembly.copy_socket_headers(p, _PACKET_OR_DELAY, _HEADER_BYTES, _BYTES, _PACKET)
        else:
            assembly.locate_xdp_headers(p, _PACKET_OR_DELAY, _HEADER_BYTES, _BYTES)
        packet = _PACKET_OR_DELAY
        for at, size_bytes, wanted in (
            (_ETHERTYPE_AT, 2, socket.htons(0x0800)),
            (_IP_AT, 1, 0x45),
            (_PROTOCOL_AT, 1, socket.IPPROTO_UDP),
        ):
            p.load(5, packet, at, size_bytes)
            p.jump_if_value(5, "!=", wanted, "end")
        p.load(5, packet, _MAGIC_AT, 4)
        p.set(2, struct.unpack("=I", PKTGEN_MAGIC)[0])
        p.jump_if(5, "!=", 2, "end")
        p.load(5, packet, _SINK_AT, 4)
        p.load(3, packet, _SOURCE_AT, 4)
        p.load(4, packet, _UDP_SINK_AT, 2)
        for number, stream in enumerate(self._streams):
            for register, address in ((5, stream.sink_ip), (3, stream.source_ip)):
                p.set(2, struct.unpack("=I", socket.inet_aton(address))[0])
                p.jump_if(register, "!=", 2, "not %d" % number)
            p.set(1, number)
            p.set(RESULT, stream.interval_ns)
            p.jump_if_value(4, "==", socket.htons(stream.udp_sink_port), "stream")
            p.label("not %d" % number)
        p.jump("end")
        p.label("stream")
        p.store(STACK, _STREAM, 1, 4)
        p.store(STACK, _INTERVAL, RESULT, 8)

    @staticmethod
    def _number(p: Assembly) -> None:
        """Update the highest sequence number so far, and the counts of skipped and late ones."""
        p.load(1, _PACKET_OR_DELAY, _NUMBER_AT, 4)
        p.convert_from_network_order(1)
        p.load(2, _SHARED_STATE, _SHARED_AT["highest"], 8)
        p.jump_if(2, ">=", 1, "late")
        p.store(_SHARED_STATE, _SHARED_AT["highest"], 1, 8)
        p.subtract(1, 2)
        p.add_value(1, -1)
        PacketTimer._add(p, _SHARED_STATE, _SHARED_AT["skipped_packets"], 1)
        p.jump("numbered")
        p.label("late")
        p.set(1, 1)
        PacketTimer._add(p, _SHARED_STATE, _SHARED_AT["late_packets"], 1)
        p.label("numbered")

    @staticmethod
    def _delay(p: Assembly, offset_ns: int) -> None:
        """Compute the arrival by the wall clock minus the sender's time stamp, signed, and minus the packet's due time,
        which is no later than its sending. The packet is not needed any more.
        """
        p.load(5, _PACKET_OR_DELAY, _NUMBER_AT, 4)
        p.convert_from_network_order(5)
        p.load(1, _PACKET_OR_DELAY, _SECONDS_AT, 4)
        p.convert_from_network_order(1)
        p.multiply_value(1, 1_000_000_000)
        p.load(2, _PACKET_OR_DELAY, _MICROSECONDS_AT, 4)
        p.convert_from_network_order(2)
        p.multiply_value(2, 1000)
        p.add(1, 2)
        p.set(_PACKET_OR_DELAY, offset_ns % (1 << 64))
        p.add(_PACKET_OR_DELAY, _NOW)
        p.move(3, _PACKET_OR_DELAY)
        p.subtract(_PACKET_OR_DELAY, 1)
        p.store(STACK, _DELAY, _PACKET_OR_DELAY, 8)
        p.store(STACK, _DUE, _PACKET_OR_DELAY, 8)
        p.load(2, STACK, _INTERVAL, 8)
        p.multiply(5, 2)
        p.subtract(1, 5)  # when number 0 was due, if this one was sent in time
        p.load(2, _SHARED_STATE, _SHARED_AT["origin_ns"], 8)
        p.jump_if_value(2, "==", 0, "earliest")
        p.jump_if(2, "<=", 1, "behind it")
        p.label("earliest")
        p.store(_SHARED_STATE, _SHARED_AT["origin_ns"], 1, 8)
        p.jump("due")
        p.label("behind it")
        p.add(5, 2)
        p.subtract(3, 5)
        p.store(STACK, _DUE, 3, 8)
        p.label("due")

    @staticmethod
    def _compute_gap(p: Assembly) -> None:
        """Store the time since the previous packet on the stack. If another processor has read the clock later and got
        here first, the time between them is unknown.
        """
        p.load(3, _SHARED_STATE, _SHARED_AT["last_delay_ns"], 8)
        p.store(_SHARED_STATE, _SHARED_AT["last_delay_ns"], _PACKET_OR_DELAY, 8)
        p.load(2, _SHARED_STATE, _SHARED_AT["last_ns"], 8)
        p.store(_SHARED_STATE, _SHARED_AT["last_ns"], _NOW, 8)
        p.store(STACK, _BEFORE, 2, 8)
        p.move(1, _NOW)
        p.subtract(1, 2)
        p.jump_if_value(1, "signed >=", 0, "in turn")
        p.set(2, 0)
        p.store(STACK, _BEFORE, 2, 8)
        p.set(2, 1)
        PacketTimer._add(p, _OWN_STATE, _OWN_AT["overlapping_packets"], 2)
        p.label("in turn")
        p.store(STACK, _SPACING, 1, 8)
        p.move(1, _PACKET_OR_DELAY)
        p.subtract(1, 3)
        p.jump_if_value(1, "signed >=", 0, "grew")
        p.negate(1)
        p.label("grew")
        p.store(STACK, _VARIATION, 1, 8)

    @staticmethod
    def _own_totals(p: Assembly) -> None:
        delay, own = _PACKET_OR_DELAY, _OWN_STATE
        p.store(own, _OWN_AT["last_ns"], _NOW, 8)
        PacketTimer._add(p, own, _OWN_AT["delay_sum_ns"], delay)
        p.load(1, own, _OWN_AT["packets"], 8)
        p.add_value(1, 1)
        p.store(own, _OWN_AT["packets"], 1, 8)
        p.jump_if_value(1, "!=", 1, "not the first")
        p.store(own, _OWN_AT["first_ns"], _NOW, 8)
        p.store(own, _OWN_AT["delay_min_ns"], delay, 8)
        p.store(own, _OWN_AT["delay_max_ns"], delay, 8)
        p.jump("not the most")
        p.label("not the first")
        p.load(1, own, _OWN_AT["delay_min_ns"], 8)
        p.jump_if(1, "signed <=", delay, "not the least")
        p.store(own, _OWN_AT["delay_min_ns"], delay, 8)
        p.label("not the least")
        p.load(1, own, _OWN_AT["delay_max_ns"], 8)
        p.jump_if(1, "signed >=", delay, "not the most")
        p.store(own, _OWN_AT["delay_max_ns"], delay, 8)
        p.label("not the most")

    def _count(self, p: Assembly, histogram: str, value_at: int) -> None:
        """Count one more in the bucket of a value on the stack. How often to halve it is found by bisection: there is
        no instruction that counts leading zeros.
        """
        p.load(1, STACK, _STREAM, 4)
        p.multiply_value(1, len(_HISTOGRAMS))
        p.add_value(1, _HISTOGRAMS.index(histogram))
        p.store(STACK, _HISTOGRAM, 1, 4)
        self._look_up(p, self._counts, _HISTOGRAM)
        p.load(1, STACK, value_at, 8)
        p.set(2, 0)
        for bits in (16, 8, 4, 2, 1):
            small = "%s below %d" % (histogram, bits)
            p.jump_if_value(1, "<", 1 << (BUCKET_BITS + bits), small)
            p.shift_right(1, bits)
            p.add_value(2, bits << BUCKET_BITS)
            p.label(small)
        p.add(1, 2)
        p.jump_if_value(1, "<=", BUCKETS - 1, "%s in range" % histogram)
        p.set(1, BUCKETS - 1)
        p.label("%s in range" % histogram)
        p.shift_left(1, 3)
        p.add(RESULT, 1)
        p.load(1, RESULT, 0, 8)
        p.add_value(1, 1)
        p.store(RESULT, 0, 1, 8)

    @staticmethod
    def _look_up(p: Assembly, table: kernel.Map, key: int) -> None:
        """Look up a key. The verifier requires a check of every look-up, also in an array."""
        p.table(1, table.descriptor)
        p.load_stack_address(2, key)
        p.call(assembly.LOOK_UP)
        p.jump_if_value(RESULT, "==", 0, "end")

    @staticmethod
    def _add(p: Assembly, base: int, offset: int, source: int) -> None:
        p.load(4, base, offset, 8)
        p.add(4, source)
        p.store(base, offset, 4, 8)


def _open_tap(interface: str, program: int) -> int:
    """Open the socket with this filter; return its descriptor."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, program)
        tap.bind((interface, ETH_P_ALL))
        return tap.detach()


def _sum_delays(parts: Sequence[Dict[str, int]]) -> Optional[int]:
    """Sum all delays, or return None if a processor's own sum or the total may have overflowed."""
    most = 1 << 63
    if any(max(abs(each["delay_min_ns"]), abs(each["delay_max_ns"])) * each["packets"] >= most for each in parts):
        return None
    total = sum(each["delay_sum_ns"] for each in parts)
    return total if parts and abs(total) < most else None


# -- packet count ------------------------------------------------------------------------------------------------------
# Counting every packet of a stream without rights in the kernel: a classic filter on a packet socket with no room.
#
# The kernel counts every packet that a socket's filter passed, including those for which the socket had no room. So
# nothing has to be read, and the count is exact. Any user who may open the socket may set the filter.

_WORD, _HALF, _BYTE = 0x20, 0x28, 0x30
_IF_EQUAL, _RETURN = 0x15, 0x06


def build_count_filter(stream: StreamToTime) -> bytes:
    """Build the filter: a byte of the stream's packets, nothing of any other."""
    wanted: List[Tuple[int, int, int]] = [
        (_HALF, 12, ETH_P_IP),
        (_BYTE, 14, 0x45),
        (_BYTE, 23, socket.IPPROTO_UDP),
        (_WORD, 26, int.from_bytes(socket.inet_aton(stream.source_ip), "big")),
        (_WORD, 30, int.from_bytes(socket.inet_aton(stream.sink_ip), "big")),
        (_HALF, 36, stream.udp_sink_port),
        (_WORD, 42, MAGIC),
    ]
    lines = []
    for place, (load, at, value) in enumerate(wanted):
        to_the_end = 2 * (len(wanted) - place - 1) + 1
        lines += [(load, 0, 0, at), (_IF_EQUAL, 0, to_the_end, value)]
    lines += [(_RETURN, 0, 0, 1), (_RETURN, 0, 0, 0)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


class PacketCounter:
    """A socket for each stream at one interface of the calling thread's namespace. Raises OSError."""

    def __init__(self, interface: str, streams: Sequence[StreamToTime]) -> None:
        self.interface = interface
        self._sockets: List[socket.socket] = []
        self._counted = [0] * len(streams)
        try:
            for stream in streams:
                tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
                self._sockets.append(tap)
                lines = build_count_filter(stream)
                buffer = ctypes.create_string_buffer(lines, len(lines))
                filter_ = struct.pack("HP", len(lines) // 8, ctypes.addressof(buffer))
                tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
                tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the kernel raises it to its minimum
                tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
                tap.bind((interface, ETH_P_ALL))
        except BaseException:
            self.close()
            raise

    def packets(self) -> List[int]:
        """Return the packets of each stream so far, in order. The kernel's count restarts at each reading, and after
        2**32 packets: minutes on a fast link, so that it has to be read meanwhile.
        """
        for place, tap in enumerate(self._sockets):
            self._counted[place] += struct.unpack("=II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[0]
        return list(self._counted)

    def close(self) -> None:
        """Release everything."""
        while self._sockets:
            self._sockets.pop().close()
