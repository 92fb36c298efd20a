"""The routes and neighbours of the calling thread's namespace."""

from __future__ import annotations

import socket
from typing import List

from labconsole.network.iproute import MAIN_TABLE, open_route
from labconsole.wire.changes import NeighbourEntry, RouteEntry


def read_routes() -> List[RouteEntry]:
    """Return the main table's IPv4 routes."""
    with open_route() as route:
        names = {link["index"]: link.get("IFLA_IFNAME") for link in route.get_links()}
        return [
            RouteEntry(
                destination="%s/%d" % (entry.get("RTA_DST") or "0.0.0.0", entry["dst_len"]),
                interface=names.get(entry.get("RTA_OIF")),
                gateway=entry.get("RTA_GATEWAY"),
            )
            for entry in route.get_routes(family=socket.AF_INET, table=MAIN_TABLE)
        ]


def read_neighbours() -> List[NeighbourEntry]:
    """Return the IPv4 neighbours known here."""
    with open_route() as route:
        names = {link["index"]: link.get("IFLA_IFNAME") for link in route.get_links()}
        return [
            NeighbourEntry(
                address=entry.get("NDA_DST"),
                mac=entry.get("NDA_LLADDR"),
                interface=names.get(entry["ifindex"]),
                permanent=bool(entry["state"] & 0x80),
            )
            for entry in route.get_neighbours(family=socket.AF_INET)
        ]
