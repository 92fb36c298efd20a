"""Interfaces: created for guests, bridged, set up, and moved to a guest's namespace."""

from __future__ import annotations

import errno
import functools
import os
import struct
from typing import Annotated, Any, ClassVar, Dict, List, Optional

from labconsole.network.change import ChangedNode, Entry, InterfaceName, IpInterface, Mac, NetworkChange, line
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
from labconsole.wire.codec import WireError
from labconsole.wire.rules import Most, Word, bad

# -- namespaces --------------------------------------------------------------------------------------------------------
# Network namespaces for guests.


class Namespace(NetworkChange, do="namespace"):
    """Make a network namespace, kept alive by a process of the agent's."""

    name: InterfaceName
    namespace: ClassVar[None] = None  # type: ignore[misc]  # made next to the others, not inside one

    def apply(self, node: ChangedNode) -> None:
        node.make_namespace(self.name)
        # Promised only now: a namespace that had this name already must not be removed, and its holder dies with the
        # agent.
        node.promise(self.kind, name=self.name)

    @staticmethod
    def undo(entry: Entry) -> None:
        """Do nothing: the keeper has killed the namespace's process, and the agent ends its own."""

    def commands(self) -> List[str]:
        return [line("ip", "netns", "add", self.name)]


# -- bridges -----------------------------------------------------------------------------------------------------------
# Bridges.

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


# -- interfaces --------------------------------------------------------------------------------------------------------
# Interfaces: created for guests, and set up.

TUNSETIFF = 0x400454CA
TUNSETPERSIST = 0x400454CB
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
GSO_BYTES = 1515
"""Packets of this length and above are segmented: one byte more than a whole Ethernet frame without its check sequence.
The rule is by length because packets from a guest do not say how many frames they are.
"""


class LinkCreation(NetworkChange):
    """Base of the changes that make an interface; undone, it is deleted."""

    @staticmethod
    def undo(entry: Entry) -> None:
        with open_route() as route:
            delete_link(route, entry["name"])


class Veth(LinkCreation, do="veth", kind="link"):
    """Make a pair of veth interfaces without IPv6; the peer may be in another namespace."""

    name: InterfaceName
    peer: InterfaceName
    peer_namespace: Optional[Word] = None
    mac: Optional[Mac] = None
    peer_mac: Optional[Mac] = None

    def check_fields(self) -> None:
        if self.namespace and not self.peer_namespace:
            raise bad("peer_namespace", "is missing: the other end of a pair in a namespace has to be in one, too")

    @property
    def _elsewhere(self) -> Optional[str]:
        """Return the peer's namespace, or None if both ends are in the same one."""
        there = self.peer_namespace or ""
        return None if there == (self.namespace or "") else there

    def apply(self, node: ChangedNode) -> None:
        peer: Dict[str, Any] = {"ifname": self.peer}
        if self.peer_mac:
            peer["address"] = self.peer_mac
        if self._elsewhere is not None:
            peer["net_ns_pid"] = node.pid(self._elsewhere)
        wanted: Dict[str, Any] = {"ifname": self.name, "kind": "veth", "peer": peer}
        if self.mac:
            wanted["address"] = self.mac
        with open_route() as route:
            refuse_existing(route, self.name)
            node.promise(self.kind, name=self.name)
            route.link("add", **wanted)
        silence(self.name)
        if self._elsewhere is None:
            silence(self.peer)
        else:
            node.inside(self._elsewhere, lambda: silence(self.peer))

    def commands(self) -> List[str]:
        mac, peer_mac = (["address", each] if each else [] for each in (self.mac, self.peer_mac))
        there = ["netns", self._elsewhere] if self._elsewhere else []
        peer = ["peer", "name", self.peer, *peer_mac, *there]
        return [
            self._ip("link", "add", self.name, *mac, "type", "veth", *peer),
            *no_ipv6(self.name, self.namespace).commands(),
            *no_ipv6(self.peer, self.peer_namespace).commands(),
        ]


class NamespaceNic(NetworkChange, do="namespace_nic"):
    """Make the NIC of a guest that is a namespace of the agent's: a veth pair, its inner end set up, with an address.

    It needs no undoing: the kernel removes it with the namespace. Makes a hundred at once, as making them singly takes
    seconds.
    """

    name: InterfaceName
    peer: InterfaceName
    peer_mac: Mac
    peer_namespace: Word
    address: IpInterface
    namespace: ClassVar[None] = None  # type: ignore[misc]  # made from outside the guest, not inside a namespace

    def apply(self, node: ChangedNode) -> None:
        peer = {"ifname": self.peer, "address": self.peer_mac, "net_ns_pid": node.pid(self.peer_namespace)}
        with open_route() as route:
            refuse_existing(route, self.name)
            route.link("add", ifname=self.name, kind="veth", peer=peer)
        silence(self.name)
        node.inside(self.peer_namespace, self._set_up)

    def _set_up(self) -> None:
        silence(self.peer)
        address, _, prefix = self.address.partition("/")
        with open_route() as route:
            index = require_link_index(route, self.peer)
            route.addr("add", index=index, address=address, prefixlen=int(prefix))
            route.link("set", index=index, state="up")

    @staticmethod
    def undo(entry: Entry) -> None:
        """Do nothing: no undo was promised."""

    def commands(self) -> List[str]:
        inside = ["ip", "-n", self.peer_namespace]
        there = ["peer", "name", self.peer, "address", self.peer_mac, "netns", self.peer_namespace]
        return [
            line("ip", "link", "add", self.name, "type", "veth", *there),
            *no_ipv6(self.name).commands(),
            *no_ipv6(self.peer, self.peer_namespace).commands(),
            line(*inside, "address", "add", self.address, "dev", self.peer),
            line(*inside, "link", "set", self.peer, "up"),
        ]


class Tap(LinkCreation, do="tap", kind="link"):
    """Make a tap for a guest's NIC, without IPv6, that lasts until it is deleted.

    ``whole_frames``: cut large TCP segments to frames before the tap, whatever segment sizes its guest accepts.
    """

    name: InterfaceName
    whole_frames: bool = False

    def apply(self, node: ChangedNode) -> None:
        import fcntl  # by ioctl, as rtnetlink cannot make a tap

        with open_route() as route:
            refuse_existing(route, self.name)
        node.promise(self.kind, name=self.name)
        try:
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        except OSError as exc:
            raise WireError(
                "not_supported", "taps are not available on this node: /dev/net/tun: %s" % exc.strerror
            ) from exc
        try:
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", self.name.encode(), IFF_TAP | IFF_NO_PI))
            fcntl.ioctl(descriptor, TUNSETPERSIST, 1)
        finally:
            os.close(descriptor)
        silence(self.name)
        if self.whole_frames:
            with open_route() as route:
                route.link("set", index=require_link_index(route, self.name), gso_max_size=GSO_BYTES)

    def commands(self) -> List[str]:
        made = self._ip("tuntap", "add", "dev", self.name, "mode", "tap")
        cut = [self._ip("link", "set", self.name, "gso_max_size", str(GSO_BYTES))] if self.whole_frames else []
        return [made, *no_ipv6(self.name, self.namespace).commands(), *cut]


class LinkUp(NetworkChange, do="link_up", kind="link_down"):
    """Set an interface up; undone, it is down again if it was."""

    interface: InterfaceName

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            index = require_link_index(route, self.interface)
            if list(route.get_links(index))[0]["state"] == "up":
                return
            node.promise(self.kind, interface=self.interface)
            route.link("set", index=index, state="up")

    @staticmethod
    def undo(entry: Entry) -> None:
        with open_route() as route:
            index = link_index(route, entry["interface"])
            if index is not None:
                ignore_missing(lambda: route.link("set", index=index, state="down"))

    def commands(self) -> List[str]:
        return [self._ip("link", "set", self.interface, "up")]
