"""Bridges."""

from __future__ import annotations

import errno
import functools
from typing import Annotated, Any, Dict, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, Mac, NetworkChange, line
from labconsole.network.iproute import (
    GONE,
    delete_link,
    error_number,
    ignore_missing,
    link_index,
    open_route,
    refuse_existing,
    require_link_index,
)
from labconsole.network.sysctl import no_ipv6, silence
from labconsole.wire.rules import Most

MAX_PORTS = 1024
"""The kernel's limit (BR_MAX_PORTS)."""


class Bridge(NetworkChange, do="bridge"):
    """Make a bridge of these ports, all set up. It sends no frame of its own. Undoing restores the ports."""

    name: InterfaceName
    ports: Annotated[List[InterfaceName], Most(MAX_PORTS)]

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            refuse_existing(route, self.name)
            found = [_read_port_state(route, port) for port in self.ports]
            node.promise(self.kind, name=self.name, ports=found)
            # It must add no frame of its own and delay none: no STP, no learning delay, no snooping and so no querier.
            route.link("add", ifname=self.name, kind="bridge", br_stp_state=0, br_forward_delay=0)
            bridge = require_link_index(route, self.name)
            for option in ("br_mcast_snooping", "br_mcast_querier", "br_vlan_filtering"):
                try:
                    route.link("set", index=bridge, kind="bridge", **{option: 0})
                except Exception as exc:
                    if error_number(exc) != errno.EOPNOTSUPP:
                        raise  # not supported: this kernel was built without the feature, so it is off
            silence(self.name)
            route.link("set", index=bridge, state="up")
            for entry in found:
                route.link("set", index=entry["index"], master=bridge, state="up")

    @staticmethod
    def undo(entry: Entry) -> None:
        """Delete the bridge, which frees its ports, and restore their former masters and states."""
        with open_route() as route:
            delete_link(route, entry["name"])
            for port in entry["ports"]:
                _put_back(route, port)

    def commands(self) -> List[str]:
        quiet = ["stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"]
        return [
            self._ip("link", "add", self.name, "type", "bridge", *quiet),
            *no_ipv6(self.name, self.namespace).commands(),
            self._ip("link", "set", self.name, "up"),
            *(self._ip("link", "set", port, "master", self.name, "up") for port in self.ports),
        ]


class BridgePort(NetworkChange, do="bridge_port"):
    """Make an interface a port of a bridge, set up; undone, it is as before."""

    name: InterfaceName
    port: InterfaceName

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            bridge, entry = require_link_index(route, self.name), _read_port_state(route, self.port)
            node.promise(self.kind, name=self.name, port=entry)
            route.link("set", index=entry["index"], master=bridge, state="up")

    @staticmethod
    def undo(entry: Entry) -> None:
        """Remove the interface from the bridge, if it still exists, and restore its former state."""
        port = entry["port"]
        with open_route() as route:
            bridge, index = link_index(route, entry["name"]), link_index(route, port["name"])
            if index is None:
                return
            if bridge is not None and list(route.get_links(index))[0].get("IFLA_MASTER") == bridge:
                ignore_missing(functools.partial(route.link, "set", index=index, master=0))
            _put_back(route, port)

    def commands(self) -> List[str]:
        return [self._ip("link", "set", self.port, "master", self.name, "up")]


class BridgeStation(NetworkChange, do="bridge_station"):
    """Enter the port of a MAC address in a bridge, so that it floods no frame to that address; undone, the entry is
    removed.
    """

    port: InterfaceName
    mac: Mac

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            index = require_link_index(route, self.port)
            node.promise(self.kind, port=self.port, mac=self.mac)
            route.neigh("replace", ifindex=index, lladdr=self.mac, **_STATION)

    @staticmethod
    def undo(entry: Entry) -> None:
        with open_route() as route:
            index = link_index(route, entry["port"])
            if index is None:
                return
            try:
                route.neigh("del", ifindex=index, lladdr=entry["mac"], **_STATION)
            except Exception as exc:
                # The port may have left the bridge, which then has already removed the entry.
                if error_number(exc) not in (*GONE, errno.EOPNOTSUPP, errno.EINVAL):
                    raise

    def commands(self) -> List[str]:
        inside = ["-n", self.namespace] if self.namespace else []
        return [line("bridge", *inside, "fdb", "replace", self.mac, "dev", self.port, "master", "static")]


_STATION = {"family": 7, "state": 0x40, "flags": 0x04}
"""AF_BRIDGE; NUD_NOARP, which is "static" here; NTF_MASTER."""


def _read_port_state(route: Any, port: str) -> Dict[str, Any]:
    """Read the state of a port that undoing restores."""
    link = list(route.get_links(require_link_index(route, port)))[0]
    master = link.get("IFLA_MASTER")
    former = list(route.get_links(master))[0].get("IFLA_IFNAME") if master else None
    return {"name": port, "index": link["index"], "master": former, "up": link["state"] == "up"}


def _put_back(route: Any, port: Dict[str, Any]) -> None:
    """Restore a port's former master and state, if it still exists."""
    former: Dict[str, Any] = {} if port["up"] else {"state": "down"}
    master = link_index(route, port["master"]) if port["master"] else None
    if master is not None:
        former["master"] = master
    index = link_index(route, port["name"]) if former else None
    if index is not None:
        ignore_missing(functools.partial(route.link, "set", index=index, **former))
