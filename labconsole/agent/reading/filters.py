"""Rules of nftables that count and drop: the only report of a packet that a firewall dropped.

Read by netlink: ``nft -j list ruleset`` would be a program to start and, with many rules, megabytes of text. Rules that
iptables writes through nftables are such rules, too. A rule that drops without counting reports nothing.
"""

from __future__ import annotations

import socket
from typing import Any, Dict, List, Optional, Tuple

from labconsole.agent import netlink
from labconsole.agent.netlink import attributes

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


def read() -> Optional[List[Dict[str, Any]]]:
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
