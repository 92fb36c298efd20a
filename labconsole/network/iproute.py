"""pyroute2's IPRoute, by which changes are made; imported when it is first needed. And a socket for packed requests."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Any, Callable, List, Optional

from labconsole.wire.codec import WireError

GONE = (errno.ENODEV, errno.ENOENT, errno.ESRCH, errno.ENXIO)
MAIN_TABLE = 254
NLMSG_ERROR = 2
_ANSWER = struct.Struct("=IHHIIi")
"""struct nlmsghdr, and how it went: 0 or a negative errno."""


def load() -> Any:
    """pyroute2's class of these sockets."""
    from pyroute2.iproute.linux import IPRoute

    return IPRoute


def open_route() -> Any:
    """A pyroute2 socket in the calling thread's namespace."""
    return load()()


def error_number(exc: BaseException) -> Optional[int]:
    """The errno of an OSError, or of pyroute2's NetlinkError, which is none."""
    number = getattr(exc, "code", None) or getattr(exc, "errno", None)
    return number if isinstance(number, int) else None


def ignore_missing(work: Callable[[], Any]) -> None:
    """Do it; what is gone already is fine."""
    try:
        work()
    except Exception as exc:
        if error_number(exc) not in GONE:
            raise


def link_index(route: Any, name: str) -> Optional[int]:
    """The interface's number, None when there is none of this name."""
    found = list(route.link_lookup(ifname=name))
    return int(found[0]) if found else None


def delete_link(route: Any, name: str) -> None:
    """Delete an interface, if there is one of this name."""
    index = link_index(route, name)
    if index is not None:
        ignore_missing(lambda: route.link("del", index=index))


def require_link_index(route: Any, name: str) -> int:
    """The interface's number. Raises WireError when there is none of this name."""
    index = link_index(route, name)
    if index is None:
        raise WireError("no_such_interface", "interface %s does not exist here" % name)
    return index


def refuse_existing(route: Any, name: str) -> None:
    """An interface that somebody else made is never taken over."""
    if link_index(route, name) is not None:
        raise WireError("exists", "interface %s already exists and does not belong to this session" % name)


class QueueSender:
    """A socket for changes that are packed already."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._socket.setblocking(False)

    def send(self, compiled: bytes) -> List[int]:
        """Have the kernel make them, which it has when this returns; the errno of each that it refused."""
        self._socket.send(compiled)
        refused: List[int] = []
        while True:
            try:
                said = self._socket.recv(65536)
            except BlockingIOError:
                return refused
            _, kind, _, _, _, error = _ANSWER.unpack_from(said)
            if kind == NLMSG_ERROR and error:
                refused.append(-error)

    def close(self) -> None:
        self._socket.close()

    @classmethod
    def ask(cls, compiled: bytes) -> List[int]:
        """As send(), by a socket of its own."""
        sender = cls()
        try:
            return sender.send(compiled)
        finally:
            sender.close()
