"""Which ports of a node may carry test traffic, and why the others are left alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.wire.changes import RouteEntry
from labconsole.wire.links import NodeLinkState

_ETHERNET = re.compile(r"(?!00:00:00:00:00:00)[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\Z")
_KINDS = (None, "", "veth")
"""Kinds of links that are tried: a NIC has none, and a veth is a NIC of the local lab's nodes."""


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """A NIC that may be tried. ``speed_bps`` is None if unknown, for example without a carrier."""

    node: str
    interface: str
    mac: str
    driver: str
    speed_bps: int | None
    up: bool
    bridge: str | None = None
    """The bridge that the NIC belongs to, if any."""

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


@dataclass(frozen=True, slots=True)
class ExcludedPort:
    """A NIC from which nothing is sent, and why."""

    node: str
    interface: str
    why: str

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


def sort_ports(
    node: str,
    links: Sequence[NodeLinkState],
    ssh_interface: str | None,
    addresses: Mapping[str, Sequence[str]],
    routes: Sequence[RouteEntry],
) -> tuple[list[Port], list[ExcludedPort]]:
    """The ports to try and those to leave alone, each sorted by name, with numbers by value."""
    ports, alone = [], []
    kinds = {each.name: each.kind for each in links if not each.namespace}
    used = _used(ssh_interface, addresses, routes, [each for each in links if not each.namespace])
    for link in sorted(links, key=lambda each: natural_sort_key(each.name)):
        if link.namespace or link.kind not in _KINDS or link.mac is None or not _ETHERNET.match(link.mac):
            continue
        if link.name in used:
            alone.append(ExcludedPort(node, link.name, used[link.name].format("it")))
        elif link.master is None:
            ports.append(Port(node, link.name, link.mac, link.driver or "?", link.speed_bps, link.up))
        elif not link.up:
            alone.append(
                ExcludedPort(node, link.name, f"it is down in {link.master}: setting it up might close a loop")
            )
        elif kinds.get(link.master) == "bridge":
            port = Port(node, link.name, link.mac, link.driver or "?", link.speed_bps, link.up, link.master)
            ports.append(port)
        else:
            alone.append(ExcludedPort(node, link.name, f"it belongs to {link.master}"))
    return ports, alone


def _used(
    ssh_interface: str | None,
    addresses: Mapping[str, Sequence[str]],
    routes: Sequence[RouteEntry],
    links: Sequence[NodeLinkState],
) -> dict[str, str]:
    """Why each interface is in use, with ``{}`` for its name; includes parents and members of used interfaces."""
    found = {each.interface: f"the route to {each.destination} uses {{}}" for each in routes if each.interface}
    found |= {name: f"the address {own[0]} is on {{}}" for name, own in addresses.items() if own}
    if ssh_interface is not None:
        found[ssh_interface] = "SSH uses {}"
    before = -1
    while len(found) != before:
        before = len(found)
        for link in links:
            if link.name in found and link.parent and link.parent not in found:
                found[link.parent] = f"{found[link.name].format(link.name)}, which is on {{}}"
            if link.master in found and link.name not in found:
                found[link.name] = f"{found[link.master].format(link.master)}, to which {{}} belongs"
    return found


def natural_sort_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key that puts eth10 after eth9."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)
