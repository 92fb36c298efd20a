"""Routes, neighbours and addresses."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any, Dict, List, Optional

from labconsole.network.change import (
    ChangedNode,
    Entry,
    InterfaceName,
    IpAddress,
    IpInterface,
    IpNetwork,
    Mac,
    NetworkChange,
)
from labconsole.network.iproute import (
    GONE,
    MAIN_TABLE,
    error_number,
    ignore_missing,
    link_index,
    open_route,
    require_link_index,
)
from labconsole.wire.codec import WireError

_SIMPLE_ROUTE = {
    "RTA_DST": "dst",
    "RTA_OIF": "oif",
    "RTA_GATEWAY": "gateway",
    "RTA_PREFSRC": "prefsrc",
    "RTA_PRIORITY": "priority",
    "RTA_TABLE": "table",
}
RTM_F_FIB_MATCH = 0x2000


class Route(NetworkChange, do="route"):
    """Set the main table's route to a network; undone, the former route is restored."""

    destination: IpNetwork
    interface: InterfaceName
    gateway: Optional[IpAddress] = None

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            index = require_link_index(route, self.interface)
            wanted: Dict[str, Any] = {"dst": self.destination, "oif": index, "table": MAIN_TABLE}
            if self.gateway:
                wanted["gateway"] = self.gateway
            elif ":" not in self.destination:
                wanted["scope"] = "link"
            former = _former_route(route, self.destination)
            node.promise(self.kind, destination=self.destination, interface=self.interface, former=former)
            route.route("replace", **wanted)

    @staticmethod
    def undo(entry: Entry) -> None:
        with open_route() as route:
            if entry["former"] is not None:
                route.route("replace", **entry["former"])
                return
            index = link_index(route, entry["interface"])
            if index is not None:
                # Scope "nowhere" matches a route of any scope; without it the kernel looks for a global one.
                ignore_missing(
                    lambda: route.route("del", dst=entry["destination"], oif=index, table=MAIN_TABLE, scope=255)
                )

    def commands(self) -> List[str]:
        via = ["via", self.gateway] if self.gateway else []
        return [self._ip("route", "replace", self.destination, *via, "dev", self.interface)]


def _former_route(route: Any, destination: str) -> Optional[Dict[str, Any]]:
    """Return the main table's route to exactly ``destination``, as arguments that restore it."""
    network = ipaddress.ip_network(destination)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    try:
        # One query instead of a dump: a UUT under test may have 100 000 routes.
        found = list(route.route("get", dst=str(network.network_address), family=family, flags=RTM_F_FIB_MATCH))
    except Exception as exc:
        if error_number(exc) in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EINVAL, errno.EACCES):
            return None
        raise
    if found and found[0]["dst_len"] > network.prefixlen:
        found = [
            entry
            for entry in route.get_routes(family=family, table=MAIN_TABLE)
            if entry["dst_len"] == network.prefixlen and entry.get("RTA_DST") == str(network.network_address)
        ]
    for message in found:
        attributes = dict(message["attrs"])
        if message["dst_len"] != network.prefixlen or attributes.get("RTA_TABLE") != MAIN_TABLE:
            continue
        if network.prefixlen and attributes.get("RTA_DST") != str(network.network_address):
            continue
        strange = sorted({"RTA_MULTIPATH", "RTA_METRICS", "RTA_ENCAP", "RTA_VIA", "RTA_NH_ID"} & set(attributes))
        if strange:
            raise WireError(
                "route_conflict",
                "%s already has a route that could not be restored exactly (%s)" % (destination, ", ".join(strange)),
            )
        former = {_SIMPLE_ROUTE[key]: value for key, value in attributes.items() if key in _SIMPLE_ROUTE}
        former.update(
            dst=destination, scope=message["scope"], proto=message["proto"], type=message["type"], tos=message["tos"]
        )
        return former
    return None


class Neighbour(NetworkChange, do="neighbour"):
    """Set a permanent neighbour; undone, the former permanent one is restored."""

    address: IpAddress
    mac: Mac
    interface: InterfaceName

    def apply(self, node: ChangedNode) -> None:
        family = _family(self.address)
        with open_route() as route:
            index = require_link_index(route, self.interface)
            former = None
            for entry in route.get_neighbours(family=family, ifindex=index):
                # Only entries that an operator set are worth restoring; the kernel relearns the rest.
                if entry.get("NDA_DST") == self.address and entry["ifindex"] == index and entry["state"] & 0x80:
                    former = {"lladdr": entry.get("NDA_LLADDR"), "state": "permanent"}
            node.promise(self.kind, address=self.address, interface=self.interface, former=former)
            route.neigh("replace", family=family, dst=self.address, lladdr=self.mac, ifindex=index, state="permanent")

    @staticmethod
    def undo(entry: Entry) -> None:
        with open_route() as route:
            index = link_index(route, entry["interface"])
            if index is None:
                return
            family = _family(entry["address"])
            if entry["former"] is not None:
                route.neigh("replace", family=family, dst=entry["address"], ifindex=index, **entry["former"])
                return
            ignore_missing(lambda: route.neigh("del", family=family, dst=entry["address"], ifindex=index))

    def commands(self) -> List[str]:
        to = ["lladdr", self.mac, "dev", self.interface, "nud", "permanent"]
        return [self._ip("neigh", "replace", self.address, *to)]


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Address(NetworkChange, do="address"):
    """Give an interface an address, unless it has it already."""

    address: IpInterface
    interface: InterfaceName

    def apply(self, node: ChangedNode) -> None:
        local, _, prefix = self.address.partition("/")
        with open_route() as route:
            index = require_link_index(route, self.interface)
            for entry in route.get_addr(index=index):
                if entry.get("IFA_ADDRESS") == local and entry["prefixlen"] == int(prefix):
                    return
            node.promise(self.kind, address=self.address, interface=self.interface)
            route.addr("add", index=index, address=local, prefixlen=int(prefix))

    @staticmethod
    def undo(entry: Entry) -> None:
        with open_route() as route:
            index = link_index(route, entry["interface"])
            if index is None:
                return
            address, _, prefix = entry["address"].partition("/")
            try:
                route.addr("del", index=index, address=address, prefixlen=int(prefix))
            except Exception as exc:
                if error_number(exc) not in (*GONE, errno.EADDRNOTAVAIL):
                    raise

    def commands(self) -> List[str]:
        return [self._ip("address", "add", self.address, "dev", self.interface)]
