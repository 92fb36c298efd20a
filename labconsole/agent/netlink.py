"""The kernel's reports on the network, by netlink: pyroute2's sockets, requests and messages.

Its ``IPRSocket`` is the kind of socket without an event loop of its own. A thread opens it in its namespace; from then
on the agent's loop reads it, without waiting. Data read ten times a second or by the thousand has a decoder of its own
next to its reader (docs/decisions/0013), which uses ``messages`` and ``attributes`` here.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import struct
from typing import Any, Container, Dict, Iterable, Iterator, List, Optional, Tuple

from labconsole.agent.processes import linux

REQUEST_DUMP = 0x301
DUMP_INTERRUPTED = 0x10
ERROR, DONE = 2, 3
RECEIVE_BYTES = 65536
LINK_EVENTS = 1
"""The group of a socket that receives an event for every interface that appears, disappears or changes."""

HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR_NUMBER = struct.Struct("=i")
_INDEX = struct.Struct("=4xi")
"""The beginning of a message about an interface."""


def load() -> Any:
    """Import pyroute2's module of sockets. Takes a tenth of a second and more: not on the event loop."""
    import pyroute2.iproute.linux  # noqa: F401 - first, because the library's modules import each other
    from pyroute2.netlink.rtnl import iprsocket

    return iprsocket


def dump(opened: socket.socket, request: bytes) -> List[bytes]:
    """Return the kernel's raw answer to a dump request. A dump interrupted by changes is repeated. Raises OSError."""
    for _ in range(4):
        parts, interrupted = _dump(opened, request)
        if not interrupted:
            break
    return parts


def _dump(opened: socket.socket, request: bytes) -> Tuple[List[bytes], bool]:
    opened.send(request)
    parts: List[bytes] = []
    interrupted = False
    while True:
        # The kernel fills a dump's next part while we receive, so this never waits.
        part = opened.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
        parts.append(part)
        at = 0
        while at < len(part):
            length, kind, flags, _, _ = HEADER.unpack_from(part, at)
            interrupted = interrupted or bool(flags & DUMP_INTERRUPTED)
            if kind == DONE:
                return parts, interrupted
            if kind == ERROR:
                number = -_ERROR_NUMBER.unpack_from(part, at + HEADER.size)[0]
                raise OSError(number, "the kernel refused a list: %s" % os.strerror(number))
            at += (length + 3) & ~3


def messages(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the part after the header of each message of a dump, up to its end or to one that does not fit."""
    for part in parts:
        at = 0
        while at + HEADER.size <= len(part):
            length, kind = HEADER.unpack_from(part, at)[:2]
            if length < HEADER.size or kind in (ERROR, DONE):
                break
            yield part[at + HEADER.size : at + length]
            at += (length + 3) & ~3


def filter_by_interface(parts: Iterable[bytes], indexes: Container[int]) -> Iterator[bytes]:
    """Yield each message about one of these interfaces, from a dump of interfaces or of their data."""
    for part in parts:
        at = 0
        while at + HEADER.size + _INDEX.size <= len(part):
            length = HEADER.unpack_from(part, at)[0]
            if length < HEADER.size:
                break
            if _INDEX.unpack_from(part, at + HEADER.size)[0] in indexes:
                yield part[at : at + length]
            at += (length + 3) & ~3


def attributes(data: bytes, at: int = 0) -> Iterator[Tuple[int, bytes]]:
    """Yield (type, content) of each attribute from ``at`` on; ends at the first that does not fit."""
    while at + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4 or at + length > len(data):
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


class RouteSocket:
    """A route socket of pyroute2's in one namespace, or None for that of the calling thread."""

    def __init__(self, namespace: Optional[int] = None, groups: int = 0) -> None:
        opening = functools.partial(_open, groups)
        self._route: Any = opening() if namespace is None else linux.run_in_namespace(namespace, opening)
        self.socket: socket.socket = self._route.socket
        self._stats_request = self._request("RTM_GETSTATS", filter_mask=1)

    def close(self) -> None:
        self._route.close()

    def _request(self, request_name: str, **fields: int) -> bytes:
        from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, rtnl

        kind = getattr(rtnl, request_name)
        message = self._route.marshal.msg_map[kind]()
        message["header"].update(type=kind, flags=NLM_F_REQUEST | NLM_F_DUMP, sequence_number=1)
        for name, value in fields.items():
            message[name] = value
        message.encode()
        return bytes(message.data)

    def _list(self, request_name: str, of: Optional[Container[int]] = None) -> List[Any]:
        parts = dump(self.socket, self._request(request_name))
        return self.decode(parts if of is None else filter_by_interface(parts, of))

    def decode(self, parts: Iterable[bytes]) -> List[Any]:
        """Decode the kernel's answer to pyroute2's messages."""
        return [each for part in parts for each in self._route.marshal.parse(part) if each["header"]["type"] != DONE]

    def drain(self) -> bool:
        """Discard unsolicited messages; return whether there were any, or some may have been lost for lack of room."""
        found = False
        try:
            while True:
                self.socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
                found = True
        except BlockingIOError:
            return found
        except OSError:
            return True  # ENOBUFS

    def stats(self) -> List[bytes]:
        """Return the 64-bit counters of all interfaces, not decoded."""
        return dump(self.socket, self._stats_request)

    def links(self, of: Optional[Container[int]] = None) -> List[Any]:
        """Return all interfaces, or those with these indexes: to decode one takes a millisecond."""
        return self._list("RTM_GETLINK", of)

    def names(self) -> Dict[int, str]:
        """Return interface names by index."""
        return {link["index"]: link.get("IFLA_IFNAME") for link in self.links()}

    def addresses(self) -> List[Any]:
        return self._list("RTM_GETADDR")

    def queueing_disciplines(self, of: Optional[Container[int]] = None) -> List[Any]:
        return self._list("RTM_GETQDISC", of)


def _open(groups: int) -> Any:
    opened = load().IPRSocket()
    try:
        opened.bind(groups)
    except KeyError as exc:  # pyroute2's error for it
        opened.close()
        raise OSError(errno.EADDRINUSE, "this process has too many netlink sockets") from exc
    return opened
