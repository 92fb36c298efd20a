"""Places where the kernel reports drops: softnet, IP, firewall, queueing disciplines, the driver's own counters."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from contextlib import closing
from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from labconsole.agent import netlink
from labconsole.agent.debug import complain
from labconsole.agent.netlink import attributes
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading.ethtool import GET_STRINGS, NAME_BYTES, Ethtool
from labconsole.agent.reading.proc_files import read_text

# -- rules of the firewall ---------------------------------------------------------------------------------------------
# Rules of nftables that count and drop: the only report of a packet that a firewall dropped.
#
# Read by netlink: ``nft -j list ruleset`` would be a program to start and, with many rules, megabytes of text. Rules
# that iptables writes through nftables are such rules, too. A rule that drops without counting reports nothing.

NETLINK_NETFILTER = 12
SUBSYSTEM = 10 << 8
GET_CHAIN, GET_RULE, GET_OBJECT = SUBSYSTEM | 4, SUBSYSTEM | 7, SUBSYSTEM | 19
MAX_RULES = 1000
"""Most rules kept of those that drop and count."""

FAMILIES = {1: "inet", 2: "ip", 5: "netdev", 7: "bridge", 10: "ip6"}
HOOKS = {0: "ingress", 1: "egress"}
"""Hooks of the family netdev, the only one whose hooks belong to an interface."""
COUNTER_OBJECT = 1
VERDICT_REGISTER, DROP = 0, 0


def _number(data: Optional[bytes]) -> Optional[int]:
    return int.from_bytes(data, "big") if data is not None and len(data) in (4, 8) else None


def _text(data: Optional[bytes]) -> str:
    return (data or b"").rstrip(b"\0").decode("utf-8", "replace")


def _list(opened: socket.socket, message_type: int) -> List[Tuple[int, bytes]]:
    """Return (family, attributes) of every message of the kernel's answer. Raises OSError."""
    request = netlink.HEADER.pack(20, message_type, netlink.REQUEST_DUMP, 1, 0) + bytes(4)
    return [(message[0], message[4:]) for message in netlink.messages(netlink.dump(opened, request))]


def parse_hooks(chains: List[Tuple[int, bytes]]) -> Dict[Tuple[int, str, str], Tuple[str, str]]:
    """Map (family, table, chain) to (device, hook) for the chains of one interface."""
    found = {}
    for family, data in chains:
        fields = dict(attributes(data))
        hook = dict(attributes(fields.get(4, b"")))
        place = HOOKS.get(_number(hook.get(1)) or 0)
        if FAMILIES.get(family) == "netdev" and 3 in hook and place is not None:
            found[(family, _text(fields.get(1)), _text(fields.get(3)))] = (_text(hook[3]), place)
    return found


def parse_counters(objects: List[Tuple[int, bytes]]) -> Dict[Tuple[int, str, str], int]:
    """Map (family, table, name) to packets for the named counters."""
    found = {}
    for family, data in objects:
        fields = dict(attributes(data))
        packets = _number(dict(attributes(fields.get(4, b""))).get(2))
        if _number(fields.get(3)) == COUNTER_OBJECT and packets is not None:
            found[(family, _text(fields.get(1)), _text(fields.get(2)))] = packets
    return found


def _dropped(family: int, table: str, rule: bytes, named: Dict[Tuple[int, str, str], int]) -> Optional[int]:
    """Return the packets that a rule has counted and then dropped, or None if it does not do both, in this order."""
    packets: Optional[int] = None
    for _, element in attributes(rule):
        fields = dict(attributes(element))
        name, data = _text(fields.get(1)), dict(attributes(fields.get(2, b"")))
        if name == "counter":
            packets = _number(data.get(2))
        elif name == "objref" and _number(data.get(1)) == COUNTER_OBJECT:
            packets = named.get((family, table, _text(data.get(2))))
        elif name == "reject":
            return packets
        elif name == "immediate" and _number(data.get(1)) == VERDICT_REGISTER:
            verdict = dict(attributes(dict(attributes(data.get(2, b""))).get(2, b"")))
            return packets if _number(verdict.get(1)) == DROP else None
    return None


def parse_rules(
    rules: List[Tuple[int, bytes]], chains: List[Tuple[int, bytes]], objects: List[Tuple[int, bytes]]
) -> List[Dict[str, Any]]:
    """Return the rules that drop and count, each with its interface and hook, if it has any."""
    hooks, named = parse_hooks(chains), parse_counters(objects)
    found: List[Dict[str, Any]] = []
    for family, data in rules:
        fields = dict(attributes(data))
        table, chain = _text(fields.get(1)), _text(fields.get(2))
        packets = _dropped(family, table, fields.get(4, b""), named)
        handle = _number(fields.get(3))
        if packets is None or handle is None or len(found) >= MAX_RULES:
            continue
        device, hook = hooks.get((family, table, chain), (None, None))
        found.append(
            {
                "family": FAMILIES.get(family, str(family)),
                "table": table,
                "chain": chain,
                "handle": handle,
                "interface": device,
                "hook": hook,
                "packets": packets,
            }
        )
    return found


def read_filters() -> Optional[List[Dict[str, Any]]]:
    """Read the rules of the calling thread's namespace, or None without nftables in the kernel or the right to
    read it.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER) as opened:
            opened.bind((0, 0))
            rules = _list(opened, GET_RULE)
            if not rules:
                return []
            return parse_rules(rules, _list(opened, GET_CHAIN), _list(opened, GET_OBJECT))
    except OSError:
        return None


# -- all places --------------------------------------------------------------------------------------------------------
# Read before and after a trial and never in between: a driver may need milliseconds for its statistics. Of those, only
# ones that may indicate trouble and are not 0 are kept, because no two drivers agree on names. The console knows which
# of these count lost packets (verdict/driver_losses.py).

GET_STATISTICS = 0x1D
STATISTICS_SET = 1
MAX_STATISTICS = 8192
"""A NIC with 128 queues has some 4000."""
MAX_KEPT = 512
"""Most statistics kept of one interface."""

TROUBLE = re.compile(
    r"drop|miss|err(?!u)|fifo|discard|no_|no_?(?:buf|mem|desc|skb)|out_?of|oob|exceed|limitation|reject|"
    r"over|ovr|und(?:e)?r|runt|jab|jbr|frag|too_|trunc|jumbo|length|bad|invalid|abort|fail|align|col(?:l|$)|deferral|"
    r"filtered|disabled|if_down|wred|_full|pause|xo(?:n|ff)|busy|requeue|stop"
)
"""Generous: every name of the console's table matches. err(?!u): not interrupts."""

_NUMBER = re.compile(r"\d+")
_WRAP = 1 << 64

TC_H_ROOT = 0xFFFFFFFF
TC_H_INGRESS = 0xFFFFFFF1
MOST_CHARACTERS = 1 << 20
"""Most characters read from a file with a line for each processor."""

IP_NAMES = (
    "InHdrErrors",
    "InAddrErrors",
    "InUnknownProtos",
    "InDiscards",
    "OutDiscards",
    "OutNoRoutes",
    "FragFails",
    "InNoRoutes",
    "InTruncatedPkts",
    "InCsumErrors",
)


def softnet() -> Optional[List[List[Optional[int]]]]:
    """Return [cpu or None, processed, dropped, squeezed] per line of softnet_stat, for the kernel, not one
    namespace.
    """
    text = read_text("/proc/net/softnet_stat", MOST_CHARACTERS)
    if text is None:
        return None
    try:
        rows = [[int(word, 16) for word in line.split()] for line in text.splitlines()]
    except ValueError:
        return None
    # The processor's number is the 13th word, since Linux 5.10; older kernels omit offline processors.
    return [[row[12] if len(row) > 12 else None, row[0], row[1], row[2]] for row in rows if len(row) > 2]


def parse_snmp(text: str) -> Dict[str, int]:
    """Parse the counters named in IP_NAMES from pairs of lines, one of names and one of numbers."""
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
    """Return the IP counters of the calling thread's namespace."""
    found: Dict[str, int] = {}
    # /proc/net is the process's namespace; a thread may be in another.
    for name in ("snmp", "netstat"):
        text = read_text("/proc/thread-self/net/" + name)
        if text is None:
            return None
        try:
            found.update(parse_snmp(text))
        except ValueError:
            return None
    return found


def parse_qdiscs(messages: List[Any]) -> List[Tuple[int, str, Dict[str, int]]]:
    """Return (interface index, kind, counts) of root and ingress disciplines. A root's drops include its children's."""
    found = []
    for message in messages:
        queue = message.get_nested("TCA_STATS2", "TCA_STATS_QUEUE")
        if queue is not None and message["parent"] in (TC_H_ROOT, TC_H_INGRESS):
            counts = {name: queue[name] for name in ("drops", "requeues", "overlimits")}
            found.append((message["index"], message.get_attr("TCA_KIND"), counts))
    return found


def driver_statistics(
    tool: Ethtool,
    interface: str,
    kept: Callable[[bytes, Tuple[int, ...]], Dict[str, int]],
) -> Optional[Dict[str, int]]:
    """Read ethtool -S and return the statistics that ``kept`` selects, by name, or None if the driver has none of its
    own.
    """
    count = tool.count_names(interface, STATISTICS_SET)
    if not 0 < count <= MAX_STATISTICS:
        return None
    names = tool.ask(interface, struct.pack("=III", GET_STRINGS, STATISTICS_SET, count) + bytes(NAME_BYTES * count))
    numbers = tool.ask(interface, struct.pack("=II", GET_STATISTICS, count) + bytes(8 * count))
    # The driver may have changed between the queries: then the names would not match the numbers.
    if names is None or numbers is None or {_read_word(names, 8), _read_word(numbers, 4)} != {count}:
        return None
    return kept(names[12:], struct.unpack_from("=%dQ" % count, numbers, 8))


def _read_word(data: bytes, place: int) -> int:
    return int(struct.unpack_from("=I", data, place)[0])


def named_statistics(names: bytes, numbers: Tuple[int, ...]) -> Dict[str, int]:
    """Return all statistics."""
    return dict(_named(names, numbers))


def all_trouble(names: bytes, numbers: Tuple[int, ...]) -> Dict[str, int]:
    """Return the statistics whose name may indicate trouble, including those that are 0.

    A driver may repeat a name for each of its queues: these are summed. With more than MAX_KEPT names, numbers become
    "#", so that queues are summed, too. That depends on the names alone, so it is the same before and after a trial.
    """
    rows = [(name, number) for name, number in _named(names, numbers) if TROUBLE.search(name.lower())]
    if len({name for name, _ in rows}) > MAX_KEPT:
        rows = [(_NUMBER.sub("#", name), number) for name, number in rows]
    found: Dict[str, int] = {}
    for name, number in rows:
        found[name] = (found.get(name, 0) + number) % _WRAP
    return found


def bounded(trouble: Dict[str, int]) -> Dict[str, int]:
    """Return the first MAX_KEPT in the driver's order, without those that are 0."""
    return {name: number for name, number in islice(trouble.items(), MAX_KEPT) if number}


def is_cut(trouble: Optional[Dict[str, int]]) -> bool:
    """Whether ``bounded`` omits a statistic that is not 0."""
    return trouble is not None and any(islice(trouble.values(), MAX_KEPT, None))


def keep_trouble(names: bytes, numbers: Tuple[int, ...]) -> Dict[str, int]:
    """Select from all statistics those to keep: their name may indicate trouble, and they are not 0."""
    return bounded(all_trouble(names, numbers))


def _named(names: bytes, numbers: Tuple[int, ...]) -> Iterator[Tuple[str, int]]:
    for place, number in enumerate(numbers):
        raw = names[place * NAME_BYTES : (place + 1) * NAME_BYTES].split(b"\0")[0]
        yield raw.decode("ascii", "replace").strip(), number


def read_namespace(interfaces: List[str]) -> Dict[str, Any]:
    """Read the calling thread's namespace; driver statistics of ``interfaces`` only, as far as they are here."""
    with closing(netlink.RouteSocket()) as route, closing(Ethtool()) as tool:
        names = route.names()
        there = set(names.values())
        here = [name for name in interfaces if name in there]
        trouble = {name: driver_statistics(tool, name, all_trouble) for name in here}
        kept = {name: None if found is None else bounded(found) for name, found in trouble.items()}
        return {
            "ip": internet(),
            "filters": read_filters(),
            "qdiscs": [
                [names[index], kind, counts]
                for index, kind, counts in parse_qdiscs(route.queueing_disciplines())
                if index in names
            ],
            "driver": kept,
            "drivers": {name: tool.driver(name)["driver"] for name in here},
            "cut": [name for name in here if is_cut(trouble[name])],
        }


async def read(namespaces: Namespaces, interfaces: List[str]) -> Dict[str, Any]:
    """Read everything, in the agent's namespace and those it made."""
    loop = asyncio.get_running_loop()
    found: Dict[str, Any] = {"monotonic_ns": time.monotonic_ns(), "softnet": softnet(), "namespaces": {}}
    for name in namespaces.names:
        try:
            descriptor = namespaces.resolve(name)
            found["namespaces"][name] = await loop.run_in_executor(
                None, linux.run_in_namespace, descriptor, lambda: read_namespace(interfaces)
            )
        except (LookupError, OSError) as exc:
            if name == "":
                raise
            complain("namespace %s disappeared while its drop counters were read: %s" % (name, exc))
    return found
