"""A port that gets an XDP program for a while: the changes this makes there, and undoing them afterwards.

A program in the kernel's own place ("generic") turns off features that join frames before it (rx-gro-hw, rx-lro), at
the port and at those below it, and the kernel does not turn them on again. Many drivers reset the link for one in the
driver ("native"). A descriptor keeps the program itself: it ends with the process.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from contextlib import closing
from typing import Any, Callable, Dict, List, Optional, Sequence

from labconsole.agent import netlink
from labconsole.agent.bpf import kernel
from labconsole.network import nic_features
from labconsole.wire.codec import WireError
from labconsole.wire.packet_times import LINK_S, XdpChanges

LINK_POLL_S = 0.05
"""Interval between checks of links that are to come back."""


class XdpPort:
    """A port with an XDP program. ``promise`` records how to undo a change before it is made and returns the entry's
    number; ``done`` removes it.
    """

    def __init__(
        self, interface: str, promise: Callable[[Dict[str, Any]], int], done: Callable[[int], None], *, native: bool
    ) -> None:
        self.interface, self._native = interface, native
        self._promise, self._done = promise, done
        self._number: Optional[int] = None
        self._changed: Dict[str, nic_features.Features] = {}
        self._left: Dict[str, nic_features.Features] = {}
        self._carrier_changes: Optional[int] = None
        self._tried = False
        self.link_is_back: Optional[bool] = None
        """Whether the link was up when the wait for it ended, or None without a wait or if the port is gone."""

    @property
    def _mode(self) -> str:
        return "native" if self._native else "generic"

    def attach(self, program: int) -> int:
        """Attach the program and return its descriptor; the link may be down then. Raises WireError or OSError."""
        links = _links()
        if self.interface not in links:
            raise WireError("no_such_interface", "there is no interface %r" % self.interface)
        own, those = links[self.interface], _find_link_stack(links, self.interface)
        for name in those:
            if self._native and links[name].get(("linkinfo", "kind")) == "veth":
                said = "native XDP loses and reorders packets at a veth, which %s is; generic XDP does not"
                raise WireError("not_supported", said % name)
        another = own.get_nested("IFLA_XDP", "IFLA_XDP_ATTACHED")
        if another is not None:
            said = "%s already has an XDP program (%s, see ip link), which is not replaced"
            raise WireError("busy", said % (self.interface, another))
        if self._native and not own.get("IFLA_CARRIER"):
            said = "%s has no carrier, so it would be unknown whether native XDP takes its link down"
            raise WireError("no_carrier", said % self.interface)
        self._carrier_changes = own.get("IFLA_CARRIER_CHANGES")
        before = {name: nic_features.read_features(name) for name in those}
        every = self._promise({"kind": nic_features.PORT_FEATURES, "features": before})
        self._tried = True
        try:
            link = kernel.attach_xdp(program, socket.if_nametoindex(self.interface), native=self._native)
        except OSError as exc:
            self._note_changes(before, every)
            raise self._refused(exc) from None
        try:
            self._note_changes(before, every)
        except BaseException:
            os.close(link)
            raise
        return link

    def _note_changes(self, before: Dict[str, nic_features.Features], every: int) -> None:
        """Reduce the promise to the features that changed: others may change the rest meanwhile."""
        self._changed = nic_features.differing(before)
        if self._changed:
            self._number = self._promise({"kind": nic_features.PORT_FEATURES, "features": self._changed})
        self._done(every)

    def _refused(self, exc: OSError) -> Exception:
        if exc.errno in (errno.EPERM, errno.EACCES):
            return exc
        if exc.errno == errno.EOPNOTSUPP:
            said = "the driver of %s has no %s XDP, or not with the port's offloads and MTU as they are"
            return WireError("not_supported", said % (self.interface, self._mode))
        why = "%s; it needs Linux 5.9" % exc.strerror if exc.errno == errno.EINVAL else exc.strerror
        said = "%s accepts no program for %s XDP: %s" % (self.interface, self._mode, why)
        return WireError("busy" if exc.errno in (errno.EBUSY, errno.EEXIST) else "not_supported", said)

    def has_link(self, links: Dict[str, Any]) -> bool:
        """Whether there is nothing (more) to wait for."""
        own = links.get(self.interface)
        waits = self._native and self._tried and own is not None
        self.link_is_back = bool(own.get("IFLA_CARRIER")) if own is not None and waits else None
        return self.link_is_back is not False

    def put_back(self) -> None:
        """Restore the program's changes, once it is gone. A feature that does not change back is retried when the agent
        ends.
        """
        self.link_is_back = None
        if self._number is None:
            return
        self._left = nic_features.put_back(self._changed)
        if not self._left:
            self._done(self._number)
            self._number = None

    def told(self) -> XdpChanges:
        """Return the changes, once they are restored and the link was awaited."""
        before, after = self._carrier_changes, None
        try:
            after = _links()[self.interface].get("IFLA_CARRIER_CHANGES")
        except (OSError, LookupError):
            pass  # the interface is gone, or its features are unknown: the counts are still reported
        return XdpChanges(
            features=self._describe_features(self._changed),
            left_features=self._describe_features(self._left),
            link_changes=None if after is None or before is None else max(0, after - before),
            link_is_back=self.link_is_back,
        )

    def _describe_features(self, features: Dict[str, nic_features.Features]) -> List[str]:
        return [
            "%s%s %s" % ("" if interface == self.interface else interface + " ", name, "off" if before else "on")
            for interface, those in features.items()
            for name, before in those.items()
        ]


def wait_for_links(ports: Sequence[XdpPort]) -> str:
    """Wait until ports with attached or detached native programs have their links again, all within LINK_S. Returns the
    names of those that have not. Raises OSError.
    """
    until_s = time.monotonic() + LINK_S
    waiting = list(ports)
    while True:
        links = _links() if waiting else {}
        waiting = [port for port in waiting if not port.has_link(links)]
        if not waiting or time.monotonic() > until_s:
            return ", ".join(port.interface for port in waiting)
        time.sleep(LINK_POLL_S)


def _links() -> Dict[str, Any]:
    with closing(netlink.RouteSocket()) as route:
        return {message.get("IFLA_IFNAME"): message for message in route.links()}


def _find_link_stack(links: Dict[str, Any], interface: str) -> List[str]:
    """Return the interface, and those that it consists of or is on, down to the last."""
    found = [interface]
    for name in found:
        own = links[name]
        elsewhere = own.get(("linkinfo", "kind")) == "veth" or own.get("IFLA_LINK_NETNSID") is not None
        below = None if elsewhere else own.get("IFLA_LINK")
        for other, link in links.items():
            if other not in found and (link.get("IFLA_MASTER") == own["index"] or link["index"] == below):
                found.append(other)
    return found
