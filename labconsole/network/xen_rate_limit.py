"""Limits on the traffic that a Xen guest sends, by Xen's own means: the credit of its NIC's back end in the first
domain.

The same as ``rate=`` in a guest's file: a number of bytes per interval, in a key of Xen's store that the kernel watches
(xen-netback), so it can be set while the guest runs. A guest over its limit waits; nothing is dropped.
"""

from __future__ import annotations

import re
import shlex
from typing import ClassVar, List, Optional

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange
from labconsole.network.rate_limits import Rate
from labconsole.network.xenstore import XenStore
from labconsole.wire.clean import clean
from labconsole.wire.codec import WireError

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
