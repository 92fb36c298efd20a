"""The node's interfaces with their changes, and the routes and neighbours of a namespace."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing, contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from labconsole.agent import netlink
from labconsole.agent.debug import complain
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.network.iproute import MAIN_TABLE, open_route
from labconsole.wire.changes import NeighbourEntry, RouteEntry

# -- routes and neighbours ---------------------------------------------------------------------------------------------
# The routes and neighbours of the calling thread's namespace.


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


# -- interfaces --------------------------------------------------------------------------------------------------------
# The node's interfaces: the kernel's data of each, and a notification when one appears, disappears or changes.
#
# A link event only means *that* something changed; the list is then read again and compared. So an event that is lost
# (a full socket buffer) or misunderstood cannot leave a wrong list behind.

SETTLE_S = 0.05
"""Making one veth pair is six events; the list is read once for all of them."""


def read_links(namespace: str) -> List[Dict[str, Any]]:
    """Return all interfaces of the calling thread's namespace, whose name is ``namespace``."""
    links = []
    with closing(netlink.RouteSocket()) as route, closing(Ethtool()) as tool:
        messages = route.links()
        names = {message["index"]: message.get("IFLA_IFNAME") for message in messages}
        for message in messages:
            name = message.get("IFLA_IFNAME")
            carrier = message.get("IFLA_CARRIER")
            up = message["state"] == "up"
            speed_mbps = tool.link(name)["speed_mbps"]
            links.append(
                {
                    "namespace": namespace,
                    "index": message["index"],
                    "name": name,
                    "mac": message.get("IFLA_ADDRESS"),
                    "mtu": message.get("IFLA_MTU"),
                    "kind": message.get(("linkinfo", "kind")),
                    "driver": tool.driver(name)["driver"],
                    "up": up,
                    # The kernel reports it for an interface that is down, too, but then it means nothing.
                    "carrier": bool(carrier) if carrier is not None and up else None,
                    "speed_bps": None if speed_mbps is None else speed_mbps * 1000 * 1000,
                    "pause": tool.pause(name),
                    "master": names.get(message.get("IFLA_MASTER")),
                    # For a veth it is the other end; for another namespace, an index that means nothing here.
                    "parent": None
                    if message.get(("linkinfo", "kind")) == "veth" or message.get("IFLA_LINK_NETNSID") is not None
                    else names.get(message.get("IFLA_LINK")),
                }
            )
    return links


class Links:
    """The list of interfaces. Calls ``on_change`` whenever it changes."""

    def __init__(self, namespaces: Namespaces, on_change: Callable[[List[Dict[str, Any]]], None]) -> None:
        self._namespaces, self._on_change = namespaces, on_change
        self._sockets: Dict[str, netlink.RouteSocket] = {}
        self._loop = asyncio.get_running_loop()
        self._known: Optional[List[Dict[str, Any]]] = None
        self._settling: Optional[asyncio.TimerHandle] = None
        self._pauses = 0
        self._reading = asyncio.Lock()
        self._tasks: Set["asyncio.Task[None]"] = set()

    async def read(self) -> List[Dict[str, Any]]:
        """Return the current list. From the first call on, changes are reported."""
        if not self._sockets:
            await self._loop.run_in_executor(None, netlink.load)
            self._open_and_close(None)
        async with self._reading:
            found: List[Dict[str, Any]] = []
            for name in self._namespaces.names:
                try:
                    descriptor = self._namespaces.resolve(name)
                    found += await self._loop.run_in_executor(None, linux.run_in_namespace, descriptor, _reader(name))
                except (LookupError, OSError) as exc:
                    if name == "":
                        raise
                    complain("namespace %s disappeared while its links were read: %s" % (name, exc))
            self._known = found
            return found

    def follow_namespaces(self, leaving: Optional[str] = None) -> None:
        if self._sockets:
            self._open_and_close(leaving)
        if self._known is not None:
            self._changed()

    def _open_and_close(self, leaving: Optional[str]) -> None:
        for name in list(self._sockets):
            if name not in self._namespaces or name == leaving:
                self._forget(name)
        for name in self._namespaces.names:
            if name not in self._sockets and name != leaving:
                opened = netlink.RouteSocket(self._namespaces.resolve(name), groups=netlink.LINK_EVENTS)
                self._sockets[name] = opened
                self._loop.add_reader(opened.socket.fileno(), self._event, opened)

    def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        for name in list(self._sockets):
            self._forget(name)

    def _forget(self, name: str) -> None:
        opened = self._sockets.pop(name)
        self._loop.remove_reader(opened.socket.fileno())
        opened.close()

    def _event(self, opened: netlink.RouteSocket) -> None:
        opened.drain()  # lost events do not matter: the list is read again
        self._changed()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay reports of changes: with a hundred guests to be made, the list would be read at every one of them."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._known is not None:
                self._changed()

    def _changed(self) -> None:
        if self._settling is None and not self._pauses:
            self._settling = self._loop.call_later(SETTLE_S, self._compare_soon)

    def _compare_soon(self) -> None:
        self._settling = None
        task = self._loop.create_task(self._compare())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _compare(self) -> None:
        known = self._known
        found = await self.read()
        if found != known:
            self._on_change(found)


def _reader(name: str) -> Callable[[], List[Dict[str, Any]]]:
    return lambda: read_links(name)
