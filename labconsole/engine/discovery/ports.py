"""Which ports of a node may carry test traffic, and why the others are left alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.wire.changes import RouteEntry
from labconsole.wire.links import NodeLinkState

_ETHERNET = re.compile(r"(?!00:00:00:00:00:00)[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\Z")
_KINDS = (None, "", "veth")
"""Of links: a NIC has none. A veth is a NIC of the local lab's nodes."""


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """A NIC that may be tried. ``speed_bps``: None where it is not known, as while there is no carrier."""

    node: str
    interface: str
    mac: str
    driver: str
    speed_bps: int | None
    up: bool

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A NIC that nothing is sent on, and why."""

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
) -> tuple[list[Port], list[LeftAlone]]:
    """The ports to try and those to leave alone, each in the order of their names, numbers by value."""
    ports, alone = [], []
    routed = {each.interface: each.destination for each in routes if each.interface is not None}
    for link in sorted(links, key=lambda each: natural(each.name)):
        if link.namespace or link.kind not in _KINDS or link.mac is None or not _ETHERNET.match(link.mac):
            continue
        if link.name == ssh_interface:
            alone.append(LeftAlone(node, link.name, "SSH comes in by it"))
        elif addresses.get(link.name):
            alone.append(LeftAlone(node, link.name, f"it has the address {addresses[link.name][0]}"))
        elif link.name in routed:
            alone.append(LeftAlone(node, link.name, f"the route to {routed[link.name]} goes by it"))
        elif link.master is not None:
            alone.append(LeftAlone(node, link.name, f"it belongs to {link.master}"))
        else:
            ports.append(Port(node, link.name, link.mac, link.driver or "?", link.speed_bps, link.up))
    return ports, alone


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A name to sort by, so that eth10 comes after eth9."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)
