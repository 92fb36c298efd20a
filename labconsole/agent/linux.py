"""The few system calls that Python 3.9 has no function for: prctl, setns, unshare and mount, by ctypes.

All of them act on the calling thread. ``in_namespace`` uses that: a thread of its own enters a network namespace, does
one piece of work there and ends, so the rest of the agent never leaves its own namespace.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, List, Optional

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MS_PRIVATE_RECURSIVE = 0x44000

# Resolved once and before any fork: looking a symbol up between fork and exec could wait for a lock of the loader's.
_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_setns = _libc.setns
_unshare = _libc.unshare
_mount = _libc.mount


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def die_with_parent(signal_number: int, parent: int) -> None:
    """Have the kernel send ``signal_number`` to this process when ``parent`` (its thread that forked) ends.

    The parent may have ended before the request was made; then this process ends at once.
    """
    _prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "cannot become the parent of orphans")


def setns(descriptor: int, kind: int) -> None:
    _check(_setns(descriptor, kind), "cannot enter a namespace")


def unshare(flags: int) -> None:
    _check(_unshare(flags), "cannot make a namespace")


def mount(source: Optional[bytes], target: bytes, kind: Optional[bytes], flags: int) -> None:
    _check(_mount(source, target, kind, flags, None), "cannot mount on %s" % target.decode("ascii", "replace"))


def in_namespace(descriptor: Optional[int], work: Callable[[], Any]) -> Any:
    """``work()`` inside the network namespace ``descriptor`` (None: where we are), in a thread of its own; blocks.

    A thread also for None: pyroute2's sockets bring an event loop along, which must not meet the agent's own.
    """
    result: List[Any] = []
    failure: List[BaseException] = []

    def run() -> None:
        try:
            if descriptor is not None:
                setns(descriptor, CLONE_NEWNET)
            result.append(work())
        except BaseException as exc:  # noqa: BLE001 - handed to the caller below, whatever it is
            failure.append(exc)

    thread = threading.Thread(target=run, name="namespace")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
