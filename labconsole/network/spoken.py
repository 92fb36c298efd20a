"""Changes that a driver has the agent make, as the lines that an operator would type for them.

For a dry run: the agent speaks netlink and writes down how to undo each, but what it changes is what these lines would.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any

Change = dict[str, Any]


def as_commands(changes: Iterable[Change]) -> list[str]:
    """One line for each change, or two."""
    return [shlex.join(words) for change in changes for words in _LINES[change["do"]](change)]


def _in(change: Change) -> list[str]:
    namespace = change.get("namespace")
    return ["ip", "netns", "exec", namespace] if namespace else []


def _ip(change: Change) -> list[str]:
    namespace = change.get("namespace")
    return ["ip", "-n", namespace] if namespace else ["ip"]


def _namespace(change: Change) -> list[list[str]]:
    return [["ip", "netns", "add", change["name"]]]


def _sysctl(change: Change) -> list[list[str]]:
    # With slashes, as written: an interface's name may hold a dot.
    return [[*_in(change), "sysctl", "-w", f"{change['name']}={change['value']}"]]


def _route(change: Change) -> list[list[str]]:
    via = ["via", change["gateway"]] if change.get("gateway") else []
    return [[*_ip(change), "route", "replace", change["destination"], *via, "dev", change["interface"]]]


def _neighbour(change: Change) -> list[list[str]]:
    to = ["lladdr", change["mac"], "dev", change["interface"], "nud", "permanent"]
    return [[*_ip(change), "neigh", "replace", change["address"], *to]]


def _address(change: Change) -> list[list[str]]:
    return [[*_ip(change), "address", "add", change["address"], "dev", change["interface"]]]


def _bridge(change: Change) -> list[list[str]]:
    ip, name = _ip(change), change["name"]
    quiet = ["stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"]
    return [
        [*ip, "link", "add", name, "type", "bridge", *quiet],
        _silent(change, name),
        [*ip, "link", "set", name, "up"],
        *([*ip, "link", "set", port, "master", name, "up"] for port in change["ports"]),
    ]


def _veth(change: Change) -> list[list[str]]:
    mac, peer_mac = ((["address", change[key]] if change.get(key) else []) for key in ("mac", "peer_mac"))
    elsewhere = change.get("peer_namespace") or ""
    there = ["netns", elsewhere] if elsewhere and elsewhere != (change.get("namespace") or "") else []
    peer = ["peer", "name", change["peer"], *peer_mac, *there]
    return [
        [*_ip(change), "link", "add", change["name"], *mac, "type", "veth", *peer],
        _silent(change, change["name"]),
        _silent({"namespace": elsewhere}, change["peer"]),
    ]


def _tap(change: Change) -> list[list[str]]:
    name = change["name"]
    return [[*_ip(change), "tuntap", "add", "dev", name, "mode", "tap"], _silent(change, name)]


def _link_up(change: Change) -> list[list[str]]:
    return [[*_ip(change), "link", "set", change["interface"], "up"]]


def _silent(change: Change, interface: str) -> list[str]:
    return [*_in(change), "sysctl", "-w", f"net/ipv6/conf/{interface}/disable_ipv6=1"]


_LINES: dict[str, Callable[[Change], list[list[str]]]] = {
    "namespace": _namespace,
    "sysctl": _sysctl,
    "route": _route,
    "neighbour": _neighbour,
    "address": _address,
    "bridge": _bridge,
    "veth": _veth,
    "tap": _tap,
    "link_up": _link_up,
}

KINDS = frozenset(_LINES)
"""The changes that can be told."""
