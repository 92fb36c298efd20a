"""Changes to the node's network, each with its inverse promised before it is made.

``NetworkChanges`` orders them; the functions in CHANGES run in a thread inside the namespace asked for, with
pyroute2. A change that fails half-way is undone by its own inverse, which copes with whatever part of it exists
(agent/undo.py).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import ipaddress
import os
import re
import socket
import struct
from typing import Any, Callable, Dict, List, Optional

from labconsole.agent import undo
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations.answering import answers
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.network import sysctl
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.codec import WireError, field
from labconsole.wire.message import Done
from labconsole.wire.session import Undone

Change = Dict[str, Any]
Promise = Callable[..., None]

_INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z")
_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\Z")
_SIMPLE_ROUTE = {
    "RTA_DST": "dst", "RTA_OIF": "oif", "RTA_GATEWAY": "gateway", "RTA_PREFSRC": "prefsrc", "RTA_PRIORITY": "priority",
    "RTA_TABLE": "table",
}  # fmt: skip
RTM_F_FIB_MATCH = 0x2000
MAIN_TABLE = 254
TUNSETIFF = 0x400454CA
TUNSETPERSIST = 0x400454CB
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000


def name_field(change: Change, key: str) -> str:
    """An interface's (or namespace's) name out of a change."""
    name: str = field(change, key, str)
    if not _INTERFACE.match(name) or name in (".", ".."):
        raise WireError("bad_request", "%s: %r is not a valid interface name" % (key, name))
    return name


def _mac_field(change: Change, key: str) -> Optional[str]:
    mac: Optional[str] = field(change, key, str, optional=True)
    if mac is not None and not _MAC.match(mac):
        raise WireError("bad_request", "%s: %r is not a MAC address" % (key, mac))
    return mac


def _address_field(change: Change, key: str, parse: Callable[[str], Any]) -> str:
    text = field(change, key, str)
    try:
        return str(parse(text))
    except ValueError as exc:
        raise WireError("bad_request", "%s: %s" % (key, exc)) from None


def _index(route: Any, name: str) -> int:
    index = undo.link_index(route, name)
    if index is None:
        raise WireError("no_such_interface", "interface %s does not exist here" % name)
    return index


def _sysctl(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    name, value = field(change, "name", str), field(change, "value", str)
    saved = sysctl.before(name)
    if saved[0][1].split() == value.split():
        return
    promise("sysctl", values=saved)
    sysctl.write(name, value)


def _route(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    destination = _address_field(change, "destination", ipaddress.ip_network)
    interface = name_field(change, "interface")
    gateway = _address_field(change, "gateway", ipaddress.ip_address) if change.get("gateway") else None
    with undo.open_route() as route:
        wanted: Dict[str, Any] = {"dst": destination, "oif": _index(route, interface), "table": MAIN_TABLE}
        if gateway:
            wanted["gateway"] = gateway
        elif ":" not in destination:
            wanted["scope"] = "link"
        promise("route", destination=destination, interface=interface, former=_former_route(route, destination))
        route.route("replace", **wanted)


def _former_route(route: Any, destination: str) -> Optional[Dict[str, Any]]:
    """The main table's route to exactly ``destination``, as arguments that bring it back."""
    network = ipaddress.ip_network(destination)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    try:
        # One question instead of a dump: a UUT under test may hold 100 000 routes.
        found = list(route.route("get", dst=str(network.network_address), family=family, flags=RTM_F_FIB_MATCH))
    except Exception as exc:
        if undo.error_number(exc) in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EINVAL, errno.EACCES):
            return None
        raise
    if found and found[0]["dst_len"] > network.prefixlen:
        found = [
            entry for entry in route.get_routes(family=family, table=MAIN_TABLE)
            if entry["dst_len"] == network.prefixlen and entry.get("RTA_DST") == str(network.network_address)
        ]  # fmt: skip
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


def _neighbour(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    address = _address_field(change, "address", ipaddress.ip_address)
    interface, mac = name_field(change, "interface"), _mac_field(change, "mac")
    if mac is None:
        raise WireError("bad_request", "mac is missing")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with undo.open_route() as route:
        index = _index(route, interface)
        former = None
        for entry in route.get_neighbours(family=family, ifindex=index):
            # Only what an operator set is worth restoring; the kernel relearns the rest.
            if entry.get("NDA_DST") == address and entry["ifindex"] == index and entry["state"] & 0x80:
                former = {"lladdr": entry.get("NDA_LLADDR"), "state": "permanent"}
        promise("neighbour", address=address, interface=interface, former=former)
        route.neigh("replace", family=family, dst=address, lladdr=mac, ifindex=index, state="permanent")


def _address(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    text = field(change, "address", str)
    address = _address_field(change, "address", ipaddress.ip_interface)
    interface = name_field(change, "interface")
    if "/" not in text:
        raise WireError("bad_request", "address: %r has no prefix length" % text)
    with undo.open_route() as route:
        index = _index(route, interface)
        local, _, prefix = address.partition("/")
        for entry in route.get_addr(index=index):
            if entry.get("IFA_ADDRESS") == local and entry["prefixlen"] == int(prefix):
                return
        promise("address", address=address, interface=interface)
        route.addr("add", index=index, address=local, prefixlen=int(prefix))


def _must_be_free(route: Any, name: str) -> None:
    if undo.link_index(route, name) is not None:
        raise WireError("exists", "interface %s already exists and does not belong to this session" % name)


def _silence(name: str) -> None:
    """No IPv6 on an interface of ours: it would send router solicitations and listener reports of its own."""
    try:
        sysctl.write("net/ipv6/conf/%s/disable_ipv6" % name, "1")
    except WireError as exc:
        if exc.code == "no_permission":
            raise  # a missing file means a kernel without IPv6: silent enough


def _bridge(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    name, ports = name_field(change, "name"), field(change, "ports", list)
    with undo.open_route() as route:
        _must_be_free(route, name)
        found = []
        for port in ports:
            if not isinstance(port, str) or not _INTERFACE.match(port):
                raise WireError("bad_request", "ports: %r is not a valid interface name" % (port,))
            link = list(route.get_links(_index(route, port)))[0]
            master = link.get("IFLA_MASTER")
            former = list(route.get_links(master))[0].get("IFLA_IFNAME") if master else None
            found.append({"name": port, "index": link["index"], "master": former, "up": link["state"] == "up"})
        promise("bridge", name=name, ports=found)
        # It must add no frame of its own and delay none: no STP, no learning delay, no snooping and so no querier.
        route.link("add", ifname=name, kind="bridge", br_stp_state=0, br_forward_delay=0)
        bridge = _index(route, name)
        for option in ("br_mcast_snooping", "br_mcast_querier", "br_vlan_filtering"):
            try:
                route.link("set", index=bridge, kind="bridge", **{option: 0})
            except Exception as exc:
                if undo.error_number(exc) != errno.EOPNOTSUPP:
                    raise  # not supported: this kernel was built without the feature, so it is off
        _silence(name)
        route.link("set", index=bridge, state="up")
        for entry in found:
            route.link("set", index=entry["index"], master=bridge, state="up")


def _veth(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    name, peer = name_field(change, "name"), name_field(change, "peer")
    mac, peer_mac = _mac_field(change, "mac"), _mac_field(change, "peer_mac")
    peer_namespace = field(change, "peer_namespace", str, optional=True) or ""
    peer_descriptor = namespaces.require(peer_namespace)
    own_namespace = change.get("namespace") or ""
    peer_link: Dict[str, Any] = {"ifname": peer}
    if peer_mac:
        peer_link["address"] = peer_mac
    if peer_namespace != own_namespace:
        peer_link["net_ns_pid"] = namespaces.pid(peer_namespace)
    wanted: Dict[str, Any] = {"ifname": name, "kind": "veth", "peer": peer_link}
    if mac:
        wanted["address"] = mac
    with undo.open_route() as route:
        _must_be_free(route, name)
        promise("link", name=name)
        route.link("add", **wanted)
    _silence(name)
    if peer_namespace == own_namespace:
        _silence(peer)
    elif peer_descriptor is not None:
        linux.in_namespace(peer_descriptor, lambda: _silence(peer))


def _tap(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    """A tap that lasts until it is deleted, for a guest's NIC. Made by ioctl: rtnetlink cannot."""
    name = name_field(change, "name")
    with undo.open_route() as route:
        _must_be_free(route, name)
    promise("link", name=name)
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    except OSError as exc:
        raise WireError(
            "not_supported", "taps are not available on this node: /dev/net/tun: %s" % exc.strerror
        ) from exc
    try:
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        fcntl.ioctl(descriptor, TUNSETPERSIST, 1)
    finally:
        os.close(descriptor)
    _silence(name)


def _link_up(change: Change, promise: Promise, namespaces: Namespaces) -> None:
    interface = name_field(change, "interface")
    with undo.open_route() as route:
        index = _index(route, interface)
        if list(route.get_links(index))[0]["state"] == "up":
            return
        promise("link_down", interface=interface)
        route.link("set", index=index, state="up")


CHANGES: Dict[str, Callable[[Change, Promise, Namespaces], None]] = {
    "sysctl": _sysctl,
    "route": _route,
    "neighbour": _neighbour,
    "address": _address,
    "bridge": _bridge,
    "veth": _veth,
    "tap": _tap,
    "link_up": _link_up,
}


def as_wire_error(what: str, exc: BaseException) -> WireError:
    """An OSError or NetlinkError as the sentence and stable word for the console."""
    if isinstance(exc, WireError):
        return exc
    number = undo.error_number(exc)
    if number is None:
        return WireError("internal", "%s: %s: %s" % (what, type(exc).__name__, exc))
    codes = {
        errno.EPERM: "no_permission", errno.EACCES: "no_permission", errno.EEXIST: "exists",
        errno.ENODEV: "no_such_interface", errno.EOPNOTSUPP: "not_supported", errno.EBUSY: "busy",
    }  # fmt: skip
    text = exc.args[-1] if exc.args and isinstance(exc.args[-1], str) and exc.args[-1] else errno.errorcode.get(number)
    return WireError(codes.get(number, "failed"), "%s: %s" % (what, text))


def describe(change: Change) -> str:
    """``bridge lcb1``: for sentences about a change or an undo entry."""
    kind = change.get("do") or change.get("kind")
    for key in ("name", "interface", "address", "destination"):
        if isinstance(change.get(key), str):
            return "%s %s" % (kind, change[key])
    values = change.get("values")
    return "%s %s" % (kind, values[0][0]) if values else str(kind)


async def _to_the_end(work: Callable[..., Any], *arguments: Any) -> None:
    """Run in a thread. Cancelled, it still waits for it: undoing must not overtake the change that it undoes."""
    running = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class NetworkChanges:
    """Applies changes in order and undoes them in reverse, one request at a time."""

    def __init__(
        self, journal: UndoJournal, namespaces: Namespaces, on_change: Callable[[Optional[str]], None]
    ) -> None:
        self._journal, self._namespaces, self._on_change = journal, namespaces, on_change
        self._lock = asyncio.Lock()

    @answers(ApplyChanges)
    async def apply(self, request: ApplyChanges) -> Done:
        """All of the changes or, when one fails, none of them."""
        async with self._lock:
            before = self._journal.last
            try:
                for change in request.changes:
                    await self._apply_one(request.token, change)
            except BaseException:
                await self._undo(request.token, before)
                raise
            finally:
                self._on_change(None)
        return Done()

    @answers(UndoChanges)
    async def undo(self, request: UndoChanges) -> Undone:
        """Undo what its token did, without one everything."""
        return Undone(failed=await self.take_back(request.token))

    async def take_back(self, token: Optional[str]) -> List[str]:
        """Undo what ``token`` did (None: everything). Returns what could not be undone, a sentence each."""
        async with self._lock:
            try:
                return await self._undo(token, 0)
            finally:
                self._on_change(None)

    async def _apply_one(self, token: str, change: Change) -> None:
        kind = field(change, "do", str)
        if kind == "namespace":
            name = name_field(change, "name")
            if name in self._namespaces:
                raise WireError("exists", "namespace %s already exists" % name)
            self._journal.promise(dict(await self._namespaces.make(name), token=token))
            return
        work = CHANGES.get(kind)
        if work is None:
            allowed = ", ".join(sorted([*CHANGES, "namespace"]))
            raise WireError("bad_request", "do: %r is not a change; allowed: %s" % (kind, allowed))
        namespace = field(change, "namespace", str, optional=True) or ""
        descriptor = self._namespaces.require(namespace)

        def promise(entry_kind: str, **entry: Any) -> None:
            self._journal.promise(dict(entry, kind=entry_kind, token=token, namespace=namespace))

        try:
            await _to_the_end(linux.in_namespace, descriptor, lambda: work(change, promise, self._namespaces))
        except WireError:
            raise
        except Exception as exc:
            raise as_wire_error("cannot make change %s" % describe(change), exc) from exc

    async def _undo(self, token: Optional[str], since: int) -> List[str]:
        failed: List[str] = []
        for entry in self._journal.pending(token, since=since):
            if "token" not in entry:
                continue  # not a change of ours: a capture's file or process, which its owner ends
            try:
                await self._undo_one(entry)
            except Exception as exc:  # noqa: BLE001 - reported, and the rest is undone all the same
                failed.append(as_wire_error("cannot undo %s" % describe(entry), exc).message)
            self._journal.done(entry["number"])
        return failed

    async def _undo_one(self, entry: Dict[str, Any]) -> None:
        if entry["kind"] == "namespace":
            self._on_change(entry["name"])  # sockets inside it would keep it alive
            self._namespaces.remove(entry["name"])
            return
        await _to_the_end(undo.run, entry, self._namespaces.resolve)
