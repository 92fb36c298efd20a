"""How each kind of change is taken back. Every function here is idempotent and content when nothing is left to undo.

Entries are plain JSON so that the keeper, another process, can hold and run them. Both the agent and the keeper call
``run``; pyroute2 is imported only when an entry needs it.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import socket
from typing import Any, Callable, Dict, List, Optional

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux
from labconsole.wire.changes import NeighbourEntry, RouteEntry

Entry = Dict[str, Any]
Resolve = Callable[[str], Optional[int]]
"""The descriptor of a namespace the agent made, None for "" (where the agent is); LookupError when it is gone."""

GONE = (errno.ENODEV, errno.ENOENT, errno.ESRCH, errno.ENXIO)


def no_namespace(name: str) -> Optional[int]:
    """The keeper's ``Resolve``: the agent's namespaces ended with it, and what was in them too."""
    if name:
        raise LookupError(name)
    return None


def run(entry: Entry, resolve: Resolve) -> None:
    """Undo one change. Raises OSError or pyroute2's NetlinkError when it cannot be done."""
    work = KINDS[entry["kind"]]
    try:
        namespace = resolve(entry.get("namespace", ""))
    except LookupError:
        return
    if work in IN_PLACE:
        work(entry)
        return
    linux.in_namespace(namespace, lambda: work(entry))


def open_route() -> Any:
    """A pyroute2 socket in the calling thread's namespace."""
    from pyroute2.iproute.linux import IPRoute

    return IPRoute()


def error_number(exc: BaseException) -> Optional[int]:
    """The errno of an OSError, or of pyroute2's NetlinkError, which is none."""
    number = getattr(exc, "code", None) or getattr(exc, "errno", None)
    return number if isinstance(number, int) else None


def quietly(work: Callable[[], Any]) -> None:
    """Do it; what is gone already is fine."""
    try:
        work()
    except Exception as exc:
        if error_number(exc) not in GONE:
            raise


def link_index(route: Any, name: str) -> Optional[int]:
    found = list(route.link_lookup(ifname=name))
    return int(found[0]) if found else None


def read_routes() -> List[RouteEntry]:
    """The main table's IPv4 routes in the calling thread's namespace."""
    with open_route() as route:
        names = {link["index"]: link.get("IFLA_IFNAME") for link in route.get_links()}
        return [
            RouteEntry(
                destination="%s/%d" % (entry.get("RTA_DST") or "0.0.0.0", entry["dst_len"]),
                interface=names.get(entry.get("RTA_OIF")),
                gateway=entry.get("RTA_GATEWAY"),
            )
            for entry in route.get_routes(family=socket.AF_INET, table=254)
        ]


def read_neighbours() -> List[NeighbourEntry]:
    """The IPv4 neighbours known in the calling thread's namespace."""
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


def _sysctl(entry: Entry) -> None:
    for path, value in entry["values"]:
        try:
            with open(path, "w", encoding="ascii") as setting:
                setting.write(value)
        except FileNotFoundError:
            continue  # its interface is gone


def _route(entry: Entry) -> None:
    with open_route() as route:
        if entry["former"] is not None:
            route.route("replace", **entry["former"])
            return
        index = link_index(route, entry["interface"])
        if index is not None:
            # Scope "nowhere" matches a route of any scope; without it the kernel looks for a global one.
            quietly(lambda: route.route("del", dst=entry["destination"], oif=index, table=254, scope=255))


def _neighbour(entry: Entry) -> None:
    with open_route() as route:
        index = link_index(route, entry["interface"])
        if index is None:
            return
        family = socket.AF_INET6 if ":" in entry["address"] else socket.AF_INET
        if entry["former"] is not None:
            route.neigh("replace", family=family, dst=entry["address"], ifindex=index, **entry["former"])
            return
        quietly(lambda: route.neigh("del", family=family, dst=entry["address"], ifindex=index))


def _address(entry: Entry) -> None:
    with open_route() as route:
        index = link_index(route, entry["interface"])
        if index is None:
            return
        address, _, prefix = entry["address"].partition("/")
        try:
            route.addr("del", index=index, address=address, prefixlen=int(prefix))
        except Exception as exc:
            if error_number(exc) not in GONE + (errno.EADDRNOTAVAIL,):
                raise


def _link(entry: Entry) -> None:
    """Delete a link that we made."""
    with open_route() as route:
        index = link_index(route, entry["name"])
        if index is not None:
            quietly(lambda: route.link("del", index=index))


def _bridge(entry: Entry) -> None:
    """Delete the bridge, which frees its ports, and put them back to their former masters and states."""
    with open_route() as route:
        index = link_index(route, entry["name"])
        if index is not None:
            quietly(lambda: route.link("del", index=index))
        for port in entry["ports"]:
            former: Dict[str, Any] = {} if port["up"] else {"state": "down"}
            master = link_index(route, port["master"]) if port["master"] else None
            if master is not None:
                former["master"] = master
            index = link_index(route, port["name"]) if former else None
            if index is not None:
                quietly(functools.partial(route.link, "set", index=index, **former))


def _link_down(entry: Entry) -> None:
    with open_route() as route:
        index = link_index(route, entry["interface"])
        if index is not None:
            quietly(lambda: route.link("set", index=index, state="down"))


def _path(entry: Entry) -> None:
    """Remove a file, and the private directory made for it."""
    if entry.get("file"):
        try:
            os.unlink(entry["file"])
        except FileNotFoundError:
            complain("%s has already disappeared" % entry["file"])
    if entry.get("directory"):
        shutil.rmtree(entry["directory"], ignore_errors=True)


def _namespace(entry: Entry) -> None:
    """Nothing to do for the keeper: it has killed the process that held the namespace. The agent does it itself."""


def _pktgen(entry: Entry) -> None:
    from labconsole.agent.sending import pktgen_files

    pktgen_files.cleanup_ours(**entry.get("arguments", {}))


KINDS: Dict[str, Callable[[Entry], None]] = {
    "sysctl": _sysctl,
    "route": _route,
    "neighbour": _neighbour,
    "address": _address,
    "link": _link,
    "bridge": _bridge,
    "link_down": _link_down,
    "path": _path,
    "pktgen": _pktgen,
    "namespace": _namespace,
}

IN_PLACE: List[Callable[[Entry], None]] = [_path, _namespace]
"""These need no namespace, so no thread."""
