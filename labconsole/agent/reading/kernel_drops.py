"""The kernel's own report of every test packet that it drops: skb:kfree_skb, counted where it happens.

A program of ours runs whenever the kernel frees a packet that was not consumed, and counts by function, reason,
namespace, interface and stream. Traffic cannot choose any of these, so it cannot fill the table. The program examines
packets in the given namespaces only: in a lab on one kernel the others are irrelevant, and every packet that a sink has
seen is freed there.

While the kernel frees no packet the program does not run. Its cost is estimated from how often it ran; beyond a budget
it is detached, and the counts are kept.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from labconsole.agent.bpf import assembly, btf, kernel
from labconsole.agent.bpf.assembly import CONTEXT, RESULT, STACK, Assembly
from labconsole.packets.pcap import PKTGEN_MAGIC
from labconsole.wire.kernel_drops import estimated_cost_ns

TRACEPOINT = "kfree_skb"
MAX_ROWS = 1024
MOST_BYTES = 128 << 20
"""Most bytes of a kernel's types, which usually have six to ten million."""

OTHER_STREAM, UNREADABLE = 0xFFFFFFFF, 0xFFFFFFFE
_WITHOUT_REASON = 0xFFFFFFFF

_FIELDS = (
    "sk_buff.head",
    "sk_buff.data",
    "sk_buff.tail",
    "sk_buff.mac_header",
    "sk_buff.network_header",
    "sk_buff.data_len",
    "sk_buff.protocol",
    "sk_buff.dev",
    "net_device.ifindex",
    "net_device.nd_net.net",
    "net.ns.inum",
)
_NO_MAC_HEADER = 0xFFFF
_ETHERNET_BYTES, _PACKET_BYTES = 14, 32
_PROTOCOL_AT, _SINK_AT, _MAGIC_AT = 9, 16, 28

_ROW = struct.Struct("=QIIII")
_KEY = -_ROW.size
_REASON, _INODE, _INTERFACE, _STREAM = (_KEY + at for at in (8, 12, 16, 20))
_PACKET = _KEY - _PACKET_BYTES
_OFFSET = _PACKET - 8
_POINTER = _OFFSET - 8
_ONE = _POINTER - 8
_FOREIGN = _ONE - 8
"""Offsets on the program's stack."""

_TOTALS = ("passed_packets", "looked_packets", "stream_packets", "unreadable_packets", "unlisted_packets")
_TOTAL_AT = {name: 8 * place for place, name in enumerate(_TOTALS)}

_TOTALS_REGISTER, _SKB, _ARGUMENTS, _NEAR = 8, 7, 6, 9


class DropReasonsUnavailable(Exception):
    """Raised if this kernel does not report why it drops packets, with a stable ``code`` and the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class KernelLayout(NamedTuple):
    """The parts of the kernel's types that the program needs: offsets in bytes, the tracepoint, names of reasons."""

    offsets: Dict[str, int]
    tracepoint: btf.Tracepoint
    reasons: Dict[int, str]

    @property
    def tells_reasons(self) -> bool:
        """Whether the kernel reports a reason in addition to the place: since 5.17."""
        return self.tracepoint.arguments > 2


def read_layout(path: str = btf.PATH) -> KernelLayout:
    """Read the running kernel's layout; takes 35 ms and 30 MB temporarily. Raises DropReasonsUnavailable."""
    try:
        with open(path, "rb") as source:
            types = btf.KernelTypes(source.read(MOST_BYTES))
        tracepoint = types.tracepoint(TRACEPOINT)
        offsets = {field: types.offset_bytes(field) for field in _FIELDS}
        names = {value: _word(name) for value, name in types.values("skb_drop_reason").items()}
    except OSError as exc:
        raise DropReasonsUnavailable(
            "not_supported", "the kernel does not describe its types: %s: %s" % (path, exc.strerror)
        ) from None
    except (ValueError, LookupError, RecursionError) as exc:
        raise DropReasonsUnavailable(
            "not_supported", "%s is not the kernel's type information: %s" % (path, exc)
        ) from None
    if tracepoint is None:
        raise DropReasonsUnavailable("not_supported", "the kernel has no tracepoint skb:%s" % TRACEPOINT)
    return KernelLayout(offsets, tracepoint, names)


def _word(name: str) -> str:
    prefix = "SKB_DROP_REASON_"
    return name[len(prefix) :] if name.startswith(prefix) else name


class DropRow(NamedTuple):
    """Packets dropped at one place for one reason. ``stream``: number of the stream, OTHER_STREAM or UNREADABLE."""

    address: int
    reason: int
    inode: int
    interface_index: int
    stream: int
    packets: int


class DropCounter:
    """The program, attached from construction until ``detach``. Raises OSError."""

    def __init__(
        self, layout: KernelLayout, inodes: Sequence[int], sinks: Sequence[str], by_helper: bool = False
    ) -> None:
        self._layout, self.by_helper = layout, by_helper
        self._descriptors: List[int] = []
        self._maps: List[kernel.Map] = []
        self.missed_packets = 0
        try:
            self._rows = self._map(kernel.HASH_BY_PROCESSOR, _ROW.size, 8, MAX_ROWS, "lc_drops")
            self._totals = self._map(kernel.ARRAY_BY_PROCESSOR, 4, 8 * len(_TOTALS), 1, "lc_drop_totals")
            self._inodes = self._map(kernel.HASH, 4, 4, max(1, len(inodes)), "lc_namespaces")
            self._sinks = self._map(kernel.HASH, 4, 4, max(1, len(sinks)), "lc_sinks")
            for inode in inodes:
                self._inodes.set(struct.pack("=I", inode), struct.pack("=I", 1))
            for number, sink in enumerate(sinks):
                self._sinks.set(socket.inet_aton(sink), struct.pack("=I", number))
            code = self._program()
            if by_helper:
                self._program_descriptor = self._hold(kernel.load_program(kernel.RAW_TRACEPOINT, code, "lc_drops"))
                self._hold(kernel.attach_tracepoint(self._program_descriptor, TRACEPOINT))
            else:
                number = layout.tracepoint.number
                self._program_descriptor = self._hold(kernel.load_program(kernel.TRACING, code, "lc_drops", number))
                self._hold(kernel.attach_tracepoint(self._program_descriptor))
        except BaseException:
            self.close()
            raise

    def _map(self, kind: int, key_bytes: int, value_bytes: int, entries: int, name: str) -> kernel.Map:
        made = kernel.Map(kind, key_bytes, value_bytes, entries, name)
        self._maps.append(made)
        return made

    def _hold(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor

    @property
    def mode(self) -> str:
        """Return how it is attached."""
        return "raw_tp" if self.by_helper else "tp_btf"

    def estimated_cost_ns(self) -> int:
        """Return its estimated processor time so far."""
        totals = self.totals()
        return estimated_cost_ns(self.mode, totals["looked_packets"], totals["passed_packets"])

    @property
    def attached(self) -> bool:
        """Return whether it still counts."""
        return bool(self._descriptors)

    def detach(self) -> None:
        """Stop counting. The counts stay."""
        try:
            if self._descriptors:
                self.missed_packets = kernel.missed_runs(self._program_descriptor)
        finally:
            self._let_go()

    def close(self) -> None:
        """Release everything."""
        self._let_go()
        while self._maps:
            self._maps.pop().close()

    def _let_go(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def totals(self) -> Dict[str, int]:
        """Return how many packets it ran for, by outcome."""
        parts = [struct.unpack("=%dQ" % len(_TOTALS), part) for part in self._totals.get(struct.pack("=I", 0))]
        return dict(zip(_TOTALS, (sum(each) for each in zip(*parts))))

    def rows(self) -> Iterator[DropRow]:
        """Yield the counts so far, in no order."""
        for key in self._rows.listed():
            packets = sum(int.from_bytes(part, sys.byteorder) for part in self._rows.get(key))
            address, reason, inode, interface_index, stream = _ROW.unpack(key)
            yield DropRow(address, reason, inode, interface_index, stream, packets)

    # The program

    def _program(self) -> bytes:
        p = Assembly()
        p.move(_ARGUMENTS, CONTEXT)
        p.load(_SKB, _ARGUMENTS, 0, 8)
        p.store_value(STACK, _ONE, 0, 4)
        self._look_up(p, self._totals, _ONE)
        p.jump_if_value(RESULT, "==", 0, "end")
        p.move(_TOTALS_REGISTER, RESULT)
        self._where(p)
        self._count(p, "looked_packets")
        self._identify_stream(p)
        self._why(p)
        self._add_one(p)
        p.label("elsewhere")
        self._count(p, "passed_packets")
        p.label("end")
        p.leave(0)
        return p.code()

    def _where(self, p: Assembly) -> None:
        """Store interface and namespace in the row; packets of other namespaces end here."""
        self._field(p, _NEAR, _SKB, "sk_buff.dev", 8)
        p.jump_if_value(_NEAR, "==", 0, "elsewhere")
        self._field(p, 1, _NEAR, "net_device.ifindex", 4)
        p.store(STACK, _INTERFACE, 1, 4)
        self._field(p, _NEAR, _NEAR, "net_device.nd_net.net", 8)
        p.jump_if_value(_NEAR, "==", 0, "elsewhere")
        self._field(p, 1, _NEAR, "net.ns.inum", 4)
        p.store(STACK, _INODE, 1, 4)
        self._look_up(p, self._inodes, _INODE)
        p.jump_if_value(RESULT, "==", 0, "elsewhere")

    def _identify_stream(self, p: Assembly) -> None:
        """Store the stream in the row; packets that are no test packets end here.

        The IP header is at the network header if that is set, else behind the MAC header, else at the data: below the
        IP layer not all of these are set. The memory behind the tail has remains of other packets.
        """
        ways: Sequence[Tuple[str, int, Optional[int]]] = (
            ("sk_buff.network_header", 0, 0),
            ("sk_buff.mac_header", _ETHERNET_BYTES, _NO_MAC_HEADER),
            ("sk_buff.data", _ETHERNET_BYTES, None),
            ("sk_buff.data", 0, None),
        )
        p.store_value(STACK, _FOREIGN, 0, 8)
        for place, (field, skipped_bytes, unset) in enumerate(ways):
            following = "way %d" % (place + 1)
            self._field(p, _NEAR, _SKB, "sk_buff.head", 8)
            if unset is None:
                self._field(p, 1, _SKB, field, 8)
                p.subtract(1, _NEAR)
            else:
                self._field(p, 1, _SKB, field, 2)
                p.jump_if_value(1, "==", unset, following)
            p.store(STACK, _OFFSET, 1, 8)
            self._field(p, 2, _SKB, "sk_buff.tail", 4)
            p.load(1, STACK, _OFFSET, 8)
            p.add(_NEAR, 1)
            p.add_value(1, skipped_bytes + _PACKET_BYTES)
            p.jump_if(1, ">", 2, following)
            self._read(p, _PACKET, _PACKET_BYTES, _NEAR, skipped_bytes)
            p.jump_if_value(RESULT, "!=", 0, following)
            p.load(1, STACK, _PACKET, 1)
            p.jump_if_value(1, "!=", 0x45, following)
            p.store_value(STACK, _FOREIGN, 1, 8)  # a whole header: foreign unless it turns out to be one of ours
            p.load(1, STACK, _PACKET + _PROTOCOL_AT, 1)
            p.jump_if_value(1, "!=", socket.IPPROTO_UDP, following)
            p.load(1, STACK, _PACKET + _MAGIC_AT, 4)
            p.set(2, struct.unpack("=I", PKTGEN_MAGIC)[0])
            p.jump_if(1, "==", 2, "test packet")
            p.label(following)
        # Not a test packet; or IP whose headers are in page fragments, which the program cannot read.
        p.load(1, STACK, _FOREIGN, 8)
        p.jump_if_value(1, "!=", 0, "end")
        self._field(p, 1, _SKB, "sk_buff.data_len", 4)
        p.jump_if_value(1, "==", 0, "end")
        self._field(p, 1, _SKB, "sk_buff.protocol", 2)
        p.jump_if_value(1, "!=", socket.htons(0x0800), "end")
        self._count(p, "unreadable_packets")
        p.store_value(STACK, _STREAM, UNREADABLE - (1 << 32), 4)
        p.jump("why")
        p.label("test packet")
        p.store_value(STACK, _STREAM, OTHER_STREAM - (1 << 32), 4)
        self._look_up(p, self._sinks, _PACKET + _SINK_AT)
        p.jump_if_value(RESULT, "==", 0, "why")
        p.load(1, RESULT, 0, 4)
        p.store(STACK, _STREAM, 1, 4)
        self._count(p, "stream_packets")

    def _why(self, p: Assembly) -> None:
        """Store function and reason in the row."""
        p.label("why")
        p.load(1, _ARGUMENTS, 8, 8)
        p.store(STACK, _KEY, 1, 8)
        if self._layout.tells_reasons:
            p.load(1, _ARGUMENTS, 16, 8)
            p.store(STACK, _REASON, 1, 4)
        else:
            p.store_value(STACK, _REASON, _WITHOUT_REASON - (1 << 32), 4)

    def _add_one(self, p: Assembly) -> None:
        self._look_up(p, self._rows, _KEY)
        p.jump_if_value(RESULT, "!=", 0, "row")
        p.store_value(STACK, _ONE, 0, 8)
        p.table(1, self._rows.descriptor)
        p.load_stack_address(2, _KEY)
        p.load_stack_address(3, _ONE)
        p.set(4, 1)  # only if absent: another processor may have been first
        p.call(assembly.UPDATE)
        self._look_up(p, self._rows, _KEY)
        p.jump_if_value(RESULT, "!=", 0, "row")
        self._count(p, "unlisted_packets")
        p.jump("end")
        p.label("row")
        p.load(1, RESULT, 0, 8)
        p.add_value(1, 1)
        p.store(RESULT, 0, 1, 8)
        p.jump("end")

    def _field(self, p: Assembly, to: int, base: int, path: str, size_bytes: int) -> None:
        """to = a field of the structure at base. A program that knows the types follows pointers by itself, and reads 0
        through a wrong one; any other calls a helper, which takes twice as long.
        """
        offset = self._layout.offsets[path]
        if not self.by_helper:
            p.load(to, base, offset, size_bytes)
            return
        self._read(p, _POINTER, size_bytes, base, offset)
        p.load(to, STACK, _POINTER, size_bytes)

    @staticmethod
    def _read(p: Assembly, to: int, size_bytes: int, base: int, offset: int) -> None:
        """Copy kernel memory to the stack: 0 if it cannot be read."""
        p.load_stack_address(1, to)
        p.set(2, size_bytes)
        p.move(3, base)
        p.add_value(3, offset)
        p.call(assembly.READ_KERNEL)

    @staticmethod
    def _look_up(p: Assembly, table: kernel.Map, key: int) -> None:
        p.table(1, table.descriptor)
        p.load_stack_address(2, key)
        p.call(assembly.LOOK_UP)

    @staticmethod
    def _count(p: Assembly, total: str) -> None:
        p.load(1, _TOTALS_REGISTER, _TOTAL_AT[total], 8)
        p.add_value(1, 1)
        p.store(_TOTALS_REGISTER, _TOTAL_AT[total], 1, 8)


def reason_name(layout: KernelLayout, number: int) -> Optional[str]:
    """Return the kernel's name, the number for a subsystem's own reasons, or None if this kernel reports no reasons."""
    if number == _WITHOUT_REASON:
        return None
    return layout.reasons.get(number, "%#x" % number)
