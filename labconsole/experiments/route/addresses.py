"""Addresses for an experiment with routers: all in the benchmark network (RFC 2544), and used by it alone."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from labconsole.contracts.crew import CrewMember, InboundNic
from labconsole.engine.crew_stage import build_member

GATEWAY = "198.18.127.1"
"""The next hop of every route: in the routers' network, beyond the addresses of timekeepers. A permanent neighbour
entry gives it the sink's MAC address.
"""

INBOUND = ipaddress.ip_network("198.19.0.0/18")
"""The network of the routers' inbound addresses and of the source's own."""

SOURCE = "198.19.63.254"
DESTINATIONS = ipaddress.ip_network("198.19.64.0/18")
FIRST_SOURCE_PORT, SINK_PORT = 30_001, 9


def inbound_mac(number: int) -> str:
    """The MAC address of a router's inbound NIC, numbered from 0."""
    return f"02:6c:77:01:{number >> 8:02x}:{number & 0xFF:02x}"


def router(number: int, memory_mib: int | None, cpus: str | None) -> CrewMember:
    """The crew member for a router, numbered from 0."""
    address = f"{INBOUND.network_address + 1 + number}/{INBOUND.prefixlen}"
    return replace(build_member(number, memory_mib, cpus), inbound=InboundNic(mac=inbound_mac(number), address=address))
