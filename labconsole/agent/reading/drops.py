"""Where the kernel says it dropped packets: softnet, IP, firewall, queueing disciplines, the driver's own counters.

Read before and after a trial and never in between: a driver may need milliseconds for its statistics. Of those only
what tells of trouble is kept, by its name, because no two drivers agree on names; what stands at 0 is left out.
"""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import re
import socket
import struct
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading import filters
from labconsole.agent.reading.counters import NLM_F_REQUEST_DUMP, StatsSocket

SIOCETHTOOL = 0x8946
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_GSTATS = 0x1D
ETHTOOL_GSSET_INFO = 0x37
STATISTICS_SET = 1
NAME_BYTES = 32
MAX_STATISTICS = 8192
"""A NIC with 128 queues has some 4000."""
MAX_KEPT = 512
"""Of one interface: per-queue counters of a fast NIC that drops on each of its queues."""

TROUBLE = re.compile(
    r"drop|miss|err(?!u)|fifo|no_?buf|no_?mem|discard|overrun|overflow|pause|xo(?:n|ff)|busy|requeue|stop"
)
"""err(?!u): not interrupts."""

RTM_NEWQDISC = 36
RTM_GETQDISC = 38
TCA_KIND = 1
TCA_STATS2 = 7
TCA_STATS_QUEUE = 3
TC_H_ROOT = 0xFFFFFFFF
TC_H_INGRESS = 0xFFFFFFF1
_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BBHiIII")
_ATTRIBUTE = struct.Struct("=HH")
_QUEUE = struct.Struct("=IIIII")
_QDISC_REQUEST = _HEADER.pack(36, RTM_GETQDISC, NLM_F_REQUEST_DUMP, 1, 0) + _TCMSG.pack(0, 0, 0, 0, 0, 0, 0)

IP_NAMES = (
    "InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "OutDiscards", "OutNoRoutes", "FragFails",
    "InNoRoutes", "InTruncatedPkts", "InCsumErrors",
)  # fmt: skip


def softnet() -> Optional[List[List[Optional[int]]]]:
    """[cpu or None, processed, dropped, squeezed] per line of softnet_stat; of the whole kernel, not of a namespace."""
    try:
        with open("/proc/net/softnet_stat", encoding="ascii") as source:
            rows = [[int(word, 16) for word in line.split()] for line in source]
    except (OSError, ValueError):
        return None
    # The processor's number is the 13th word, since Linux 5.10; older kernels leave processors that are off out.
    return [[row[12] if len(row) > 12 else None, row[0], row[1], row[2]] for row in rows if len(row) > 2]


def parse_snmp(text: str) -> Dict[str, int]:
    """The counters named in IP_NAMES out of pairs of lines, one of names and one of numbers."""
    found: Dict[str, int] = {}
    lines = text.splitlines()
    for names, numbers in zip(lines[::2], lines[1::2]):
        if not names.startswith(("Ip:", "IpExt:")):
            continue
        for name, number in zip(names.split()[1:], numbers.split()[1:]):
            if name in IP_NAMES:
                found[name] = int(number)
    return found


def internet() -> Optional[Dict[str, int]]:
    """The IP counters of the calling thread's namespace."""
    found: Dict[str, int] = {}
    try:
        # /proc/net is the process's namespace; a thread may be in another.
        for name in ("snmp", "netstat"):
            with open("/proc/thread-self/net/" + name, encoding="ascii") as source:
                found.update(parse_snmp(source.read()))
    except (OSError, ValueError):
        return None
    return found


def _attributes(part: bytes, at: int, end: int) -> Iterator[Tuple[int, int, int]]:
    """(type, start, end) of each attribute between two places."""
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(part, at)
        if length < 4 or at + length > end:
            return
        yield kind & 0x3FFF, at + 4, at + length
        at += (length + 3) & ~3


def parse_qdiscs(parts: List[bytes]) -> List[Tuple[int, str, Dict[str, int]]]:
    """(interface index, kind, counts) of each root and ingress discipline. A root's drops hold its children's."""
    found = []
    for part in parts:
        position = 0
        while position + 36 <= len(part):
            length, kind = _HEADER.unpack_from(part, position)[:2]
            if kind != RTM_NEWQDISC or length < 36:
                break  # the end of the dump
            _, _, _, index, _, parent, _ = _TCMSG.unpack_from(part, position + 16)
            name, queue = "", None
            for attribute, start, end in _attributes(part, position + 36, min(position + length, len(part))):
                if attribute == TCA_KIND:
                    name = part[start:end].rstrip(b"\0").decode("ascii", "replace")
                elif attribute == TCA_STATS2:
                    for inner, inner_start, inner_end in _attributes(part, start, end):
                        if inner == TCA_STATS_QUEUE and inner_end - inner_start >= _QUEUE.size:
                            queue = _QUEUE.unpack_from(part, inner_start)
            if queue is not None and parent in (TC_H_ROOT, TC_H_INGRESS):
                counts = {"drops": queue[2], "requeues": queue[3], "overlimits": queue[4]}
                found.append((index, name, counts))
            position += (length + 3) & ~3
    return found


class DriverStatistics:
    """ethtool -S by ioctl: the names that tell of trouble, with what they count."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def close(self) -> None:
        self._socket.close()

    def read(self, interface: str) -> Optional[Dict[str, int]]:
        """None when the driver has no statistics of its own."""
        answer = self._ask(interface, struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << STATISTICS_SET, 0))
        if answer is None or not struct.unpack_from("=Q", answer, 8)[0] & 1 << STATISTICS_SET:
            return None
        count = struct.unpack_from("=I", answer, 16)[0]
        if not 0 < count <= MAX_STATISTICS:
            return None
        names = self._ask(
            interface, struct.pack("=III", ETHTOOL_GSTRINGS, STATISTICS_SET, count) + bytes(NAME_BYTES * count)
        )
        numbers = self._ask(interface, struct.pack("=II", ETHTOOL_GSTATS, count) + bytes(8 * count))
        # The driver may have become another between the questions: then the names would be those of other numbers.
        if names is None or numbers is None or {_at(names, 8), _at(numbers, 4)} != {count}:
            return None
        return keep_trouble(names[12:], struct.unpack_from("=%dQ" % count, numbers, 8))

    def _ask(self, interface: str, question: bytes) -> Optional[bytes]:
        data = array.array("B", question)
        request = struct.pack("16sP", interface.encode("utf-8"), data.buffer_info()[0]).ljust(40, b"\0")
        try:
            fcntl.ioctl(self._socket.fileno(), SIOCETHTOOL, request)
        except OSError as exc:
            if exc.errno in (errno.EOPNOTSUPP, errno.ENODEV, errno.EPERM, errno.EINVAL):
                return None
            raise
        return data.tobytes()


def _at(data: bytes, place: int) -> int:
    return int(struct.unpack_from("=I", data, place)[0])


def keep_trouble(names: bytes, numbers: Tuple[int, ...]) -> Dict[str, int]:
    """Of all statistics those whose name tells of trouble and that have ever counted."""
    found: Dict[str, int] = {}
    for place, number in enumerate(numbers):
        if not number or len(found) >= MAX_KEPT:
            continue
        raw = names[place * NAME_BYTES : (place + 1) * NAME_BYTES].split(b"\0")[0]
        name = raw.decode("ascii", "replace").strip()
        if TROUBLE.search(name.lower()):
            found[name] = number
    return found


def read_namespace(interfaces: List[str]) -> Dict[str, Any]:
    """The calling thread's namespace; driver statistics of ``interfaces`` only, as far as they are here."""
    opened = StatsSocket(None)  # a thread starts in its creator's namespace
    driver = DriverStatistics()
    try:
        names = opened.names()
        there = set(names.values())
        return {
            "ip": internet(),
            "filters": filters.read(),
            "qdiscs": [
                [names[index], kind, counts]
                for index, kind, counts in parse_qdiscs(opened.dump(_QDISC_REQUEST))
                if index in names
            ],
            "driver": {name: driver.read(name) for name in interfaces if name in there},
        }
    finally:
        driver.close()
        opened.close()


async def read(namespaces: Namespaces, interfaces: List[str]) -> Dict[str, Any]:
    """Everything, in the agent's namespace and those it made."""
    loop = asyncio.get_running_loop()
    found: Dict[str, Any] = {"monotonic_ns": time.monotonic_ns(), "softnet": softnet(), "namespaces": {}}
    for name in namespaces.names:
        try:
            descriptor = namespaces.resolve(name)
            found["namespaces"][name] = await loop.run_in_executor(
                None, linux.in_namespace, descriptor, lambda: read_namespace(interfaces)
            )
        except (LookupError, OSError) as exc:
            if name == "":
                raise
            complain("namespace %s disappeared while its drop counters were read: %s" % (name, exc))
    return found
