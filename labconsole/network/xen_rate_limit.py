"""Limits on the traffic that a Xen guest sends, by Xen's own means."""

from __future__ import annotations

import os
import re
import select
import shlex
import struct
from typing import Any, ClassVar, List, Optional

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange
from labconsole.network.traffic_control import Rate
from labconsole.wire.clean import clean
from labconsole.wire.codec import WireError

# -- xenstore ----------------------------------------------------------------------------------------------------------
# Xen's store, through the first domain's kernel: a key read, written or removed.
#
# Messages follow Xen's documentation (docs/misc/xenstore.txt, xen/io/xs_wire.h): a header of four words, then the
# arguments, each ending with a NUL except a value that is written.

DEVICE = "/dev/xen/xenbus"
_HEADER = struct.Struct("=IIII")
_READ, _WRITE, _REMOVE, _ERROR = 2, 11, 13, 16
ANSWER_S = 0.4
"""How long an undo may wait for an answer; one takes well below a millisecond."""

MOST_BYTES = 4096
"""The store's limit on arguments and answers."""


class XenStore:
    """A connection to Xen's store, used as a context manager. Every method raises WireError."""

    def __enter__(self) -> "XenStore":
        try:
            self._descriptor = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise WireError("not_supported", "this node has no Xen store (%s)" % DEVICE) from None
        except OSError as exc:
            code = "no_permission" if isinstance(exc, PermissionError) else "failed"
            raise WireError(code, "cannot ask Xen's store: %s: %s" % (DEVICE, exc.strerror)) from exc
        return self

    def __exit__(self, *exc: Any) -> None:
        os.close(self._descriptor)

    def read(self, path: str) -> Optional[str]:
        """Return the value, or None if there is no such key."""
        found = self._ask(_READ, path, b"", "read")
        return None if found is None else found.decode("utf-8", "replace")

    def write(self, path: str, value: str) -> None:
        """Set the key, making it if it does not exist."""
        if self._ask(_WRITE, path, value.encode(), "write") is None:
            raise WireError("failed", "Xen's store has no place for %s" % path)

    def remove(self, path: str) -> None:
        """Remove the key; does nothing if it does not exist."""
        self._ask(_REMOVE, path, b"", "remove")

    def _ask(self, kind: int, path: str, value: bytes, what: str) -> Optional[bytes]:
        """Send a request and return the answer, or None if there is no such key."""
        payload = path.encode() + b"\0" + value
        try:
            os.write(self._descriptor, _HEADER.pack(kind, 0, 0, len(payload)) + payload)
            answered, _, _, length = _HEADER.unpack(self._exactly(_HEADER.size))
            answer = self._exactly(min(length, MOST_BYTES))
        except (OSError, struct.error) as exc:
            raise WireError("failed", "Xen's store did not answer on %s: %s" % (path, exc)) from exc
        if answered != _ERROR:
            return answer
        said = answer.rstrip(b"\0").decode("ascii", "replace")
        if said == "ENOENT":
            return None
        raise WireError("failed", "Xen's store would not %s %s: %s" % (what, path, clean(said, 40)))

    def _exactly(self, length: int) -> bytes:
        found, answers = b"", select.poll()
        answers.register(self._descriptor, select.POLLIN)
        while len(found) < length:
            if not answers.poll(ANSWER_S * 1000):
                raise OSError("nothing within %g s" % ANSWER_S)
            more = os.read(self._descriptor, length - len(found))
            if not more:
                raise OSError("it ended")
            found += more
        return found


# -- limits ------------------------------------------------------------------------------------------------------------
# Limits on the traffic that a Xen guest sends, by Xen's own means: the credit of its NIC's back end in the first
# domain.
#
# The same as ``rate=`` in a guest's file: a number of bytes per interval, in a key of Xen's store that the kernel
# watches (xen-netback), so it can be set while the guest runs. A guest over its limit waits; nothing is dropped.

EVERY_US = 50_000
"""The interval that Xen's own tools use."""

_NODE = "/sys/class/net/%s/device/nodename"
_VIF = re.compile(r"backend/vif/\d{1,6}/\d{1,6}\Z")


class XenRateLimit(NetworkChange, do="credit"):
    """Limit the Xen guest behind an interface to send ``rate_bps``, in whole frames without their check sequence (a
    large segment of TCP as one). A NIC of several queues would have that limit in each, and is refused.
    """

    namespace: ClassVar[None] = None  # type: ignore[misc]  # belongs to a back end, not to a network
    interface: InterfaceName
    rate_bps: Rate

    def apply(self, node: ChangedNode) -> None:
        back_end = _back_end(self.interface)
        with XenStore() as store:
            queues = _queues(store, back_end)
            if queues is not None and queues != "1":
                raise WireError(
                    "not_supported",
                    "the Xen guest behind %s has a NIC of %s queues, each of which would get all of the rate: give it "
                    "one virtual CPU, or the back end's module max_queues=1" % (self.interface, clean(queues, 10)),
                )
            node.promise(self.kind, interface=self.interface, back_end=back_end, before=store.read(back_end + "/rate"))
            store.write(back_end + "/rate", self._rate())

    def _rate(self) -> str:
        return "%d,%d" % (self.rate_bps * EVERY_US // 8_000_000, EVERY_US)

    @staticmethod
    def undo(entry: Entry) -> None:
        back_end = entry["back_end"]
        with XenStore() as store:
            if store.read(back_end + "/frontend") is None:
                return  # the guest and its keys are gone
            if entry["before"] is None:
                store.remove(back_end + "/rate")
                return
            store.write(back_end + "/rate", entry["before"])
            if store.read(back_end + "/frontend") is None:  # the guest ended meanwhile, so the write made the key again
                store.remove(back_end)

    def commands(self) -> List[str]:
        there = '"$(cat %s)/rate"' % shlex.quote(_NODE % self.interface)
        return ["xenstore-write %s %s" % (there, self._rate())]


def _queues(store: XenStore, back_end: str) -> Optional[str]:
    """Return the number of queues that the guest uses, or None if it reports none and so has one."""
    front_end = store.read(back_end + "/frontend")
    return None if front_end is None else store.read(front_end + "/multi-queue-num-queues")


def _back_end(interface: str) -> str:
    """Return the path in the store of an interface's back end. Raises WireError."""
    try:
        with open(_NODE % interface, encoding="ascii", errors="replace") as file:
            name = file.read().strip()
    except FileNotFoundError:
        name = ""
    except OSError as exc:
        raise WireError("failed", "interface %s: %s" % (interface, exc.strerror)) from exc
    if not _VIF.match(name):
        raise WireError("not_supported", "interface %s is not that of a Xen guest" % interface)
    return name
