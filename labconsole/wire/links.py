"""The interfaces of a node."""

from __future__ import annotations

import re
from typing import Annotated, Any, List, Optional

from labconsole.wire.message import AgentEvent, Message, Request
from labconsole.wire.rules import Count, Index, Most, Name, Rule, bad

MAX_INTERFACES = 4096

VIRTUAL_LINKS = frozenset({"veth", "tun"})
"""Drivers and kinds of links whose speed is a constant of the driver; hosts.yaml gives the capacity of such a link."""

_HARDWARE_ADDRESS = re.compile(r"(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){0,31})?\Z")


def hardware_address(value: Any, where: str) -> str:
    """Check a link's address, of any length that its kind has. Other nodes are sent this address."""
    if type(value) is not str or not _HARDWARE_ADDRESS.match(value):
        raise bad(where, "is not a hardware address")
    return value


class Pause(Message):
    """Flow control: negotiated, obeyed and sent."""

    autoneg: bool
    rx: bool
    tx: bool


class NodeLinkState(Message):
    """One interface; None is unknown. ``namespace`` "" is the node's own. ``master``: the bridge it belongs to.
    ``parent``: the interface that a VLAN or the like is on.
    """

    namespace: Name
    index: Index
    name: Name
    mac: Optional[Annotated[str, Rule(hardware_address)]]
    mtu: Optional[Count]
    kind: Optional[Name]
    driver: Optional[Name]
    up: bool
    carrier: Optional[bool]
    speed_bps: Optional[Count]
    pause: Optional[Pause]
    master: Optional[Name]
    parent: Optional[Name] = None


Interfaces = Annotated[List[NodeLinkState], Most(MAX_INTERFACES)]


class NodeLinks(Message):
    """The interfaces of all of the agent's namespaces."""

    links: Interfaces


class ReadLinks(Request[NodeLinks], op="links", watches=True):
    """Request the interfaces, and an event at each change from now on."""


class LinksChanged(AgentEvent, kind="links"):
    """An interface appeared, disappeared or changed; the event lists all interfaces."""

    links: Interfaces
