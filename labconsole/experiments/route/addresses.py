"""Addresses of an experiment with routers: all in the benchmark network (RFC 2544), and nobody's but the routers'."""

from __future__ import annotations

import ipaddress

from labconsole.contracts.crew import CrewMember, InboundNic
from labconsole.engine.crew_stage import guest_address, guest_mac

GATEWAY = "198.18.127.1"
"""The next hop of every route: in the routers' network, beyond what timekeepers are given, and behind the sink's MAC
address by a permanent neighbour entry."""

INBOUND = ipaddress.ip_network("198.19.0.0/18")
"""What routers have their inbound addresses in, and the source its own."""

SOURCE = "198.19.63.254"
DESTINATIONS = ipaddress.ip_network("198.19.64.0/18")
FIRST_SOURCE_PORT, SINK_PORT = 30_001, 9


def inbound_mac(number: int) -> str:
    """The MAC address of a router's inbound NIC, from 0."""
    return f"02:6c:77:01:{number >> 8:02x}:{number & 0xFF:02x}"


def router(number: int, memory_mib: int | None, cpus: str | None) -> CrewMember:
    """A router as it is wanted, from 0."""
    return CrewMember(
        name=f"g{number + 1}",
        address=guest_address(number),
        mac=guest_mac(number),
        memory_mib=memory_mib,
        cpus=cpus,
        inbound=InboundNic(
            mac=inbound_mac(number), address=f"{INBOUND.network_address + 1 + number}/{INBOUND.prefixlen}"
        ),
    )
