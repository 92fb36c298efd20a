"""pyroute2's IPRoute, by which changes are made; imported when it is first needed."""

from __future__ import annotations

import errno
from typing import Any, Callable, Optional

from labconsole.wire.codec import WireError

GONE = (errno.ENODEV, errno.ENOENT, errno.ESRCH, errno.ENXIO)
MAIN_TABLE = 254


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


def quietly(work: Callable[[], Any]) -> None:
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
        quietly(lambda: route.link("del", index=index))


def existing(route: Any, name: str) -> int:
    """The interface's number. Raises WireError when there is none of this name."""
    index = link_index(route, name)
    if index is None:
        raise WireError("no_such_interface", "interface %s does not exist here" % name)
    return index


def refuse_existing(route: Any, name: str) -> None:
    """An interface that somebody else made is never taken over."""
    if link_index(route, name) is not None:
        raise WireError("exists", "interface %s already exists and does not belong to this session" % name)
