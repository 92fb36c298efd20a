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
    bridge: str | None = None
    """That it belongs to."""

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


@dataclass(frozen=True, slots=True)
class ExcludedPort:
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
) -> tuple[list[Port], list[ExcludedPort]]:
    """The ports to try and those to leave alone, each in the order of their names, numbers by value."""
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
    """What each interface is used for, with ``{}`` for its name: also what is below a used one, or a member of it."""
    found = {each.interface: f"the route to {each.destination} goes by {{}}" for each in routes if each.interface}
    found |= {name: f"the address {own[0]} is on {{}}" for name, own in addresses.items() if own}
    if ssh_interface is not None:
        found[ssh_interface] = "SSH comes in by {}"
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
    """A name to sort by, so that eth10 comes after eth9."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)
