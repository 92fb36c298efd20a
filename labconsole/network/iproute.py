"""pyroute2's IPRoute, which makes the changes and is imported when first needed; and a socket for packed requests."""

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
"""struct nlmsghdr, and the result: 0 or a negative errno."""


def load() -> Any:
    """Import pyroute2's class of these sockets."""
    from pyroute2.iproute.linux import IPRoute

    return IPRoute


def open_route() -> Any:
    """Open a pyroute2 socket in the calling thread's namespace."""
    return load()()


def error_number(exc: BaseException) -> Optional[int]:
    """Return the errno of an OSError, or of pyroute2's NetlinkError, which is not an OSError."""
    number = getattr(exc, "code", None) or getattr(exc, "errno", None)
    return number if isinstance(number, int) else None


def ignore_missing(work: Callable[[], Any]) -> None:
    """Call ``work`` and ignore errors of objects that do not exist."""
    try:
        work()
    except Exception as exc:
        if error_number(exc) not in GONE:
            raise


def link_index(route: Any, name: str) -> Optional[int]:
    """Return the interface's number, or None if there is no interface of this name."""
    found = list(route.link_lookup(ifname=name))
    return int(found[0]) if found else None


def delete_link(route: Any, name: str) -> None:
    """Delete the interface of this name, if there is one."""
    index = link_index(route, name)
    if index is not None:
        ignore_missing(lambda: route.link("del", index=index))


def require_link_index(route: Any, name: str) -> int:
    """Return the interface's number. Raises WireError if there is no interface of this name."""
    index = link_index(route, name)
    if index is None:
        raise WireError("no_such_interface", "interface %s does not exist here" % name)
    return index


def refuse_existing(route: Any, name: str) -> None:
    """Refuse an interface of this name that already exists: it is never taken over."""
    if link_index(route, name) is not None:
        raise WireError("exists", "interface %s already exists and does not belong to this session" % name)


class QueueSender:
    """A socket for changes that are already packed."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._socket.setblocking(False)

    def send(self, compiled: bytes) -> List[int]:
        """Apply the changes and wait until the kernel is done; return the errno of each refused one."""
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
        """Like send(), with a temporary socket."""
        sender = cls()
        try:
            return sender.send(compiled)
        finally:
            sender.close()
