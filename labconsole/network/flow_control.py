"""Ethernet flow control of a NIC (IEEE 802.3, annex 31B): whether it obeys and sends pause frames."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import ClassVar, List, Optional, Tuple

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line
from labconsole.network.ethtool import query_driver
from labconsole.wire.codec import WireError

GET_PAUSE, SET_PAUSE = 0x12, 0x13

Settings = Tuple[int, int, int]
"""Negotiated, obeyed (rx) and sent (tx), each 0 or 1: ``struct ethtool_pauseparam``."""

_ABSENT = (errno.EOPNOTSUPP, errno.EINVAL)


class FlowControl(NetworkChange, do="flow_control"):
    """Make a NIC obey and send pause frames, or neither, regardless of the other end of its cable."""

    namespace: ClassVar[None] = None  # type: ignore[misc]  # belongs to a NIC, which is in the node's own namespace
    interface: InterfaceName
    on: bool

    def apply(self, node: ChangedNode) -> None:
        before = _settings(self.interface)
        if before is None:
            raise WireError("not_supported", "the driver of %s has no flow control to set" % self.interface)
        if before == (0, int(self.on), int(self.on)):
            return
        node.promise(self.kind, interface=self.interface, before=list(before))
        try:
            self._force(before[0])
        except OSError as exc:
            raise WireError("failed", "flow control of %s: %s" % (self.interface, os.strerror(exc.errno or 0))) from exc

    def _force(self, negotiated: int) -> None:
        """Force pause settings: some drivers take negotiation only from the link's own setting. Raises OSError."""
        try:
            _set(self.interface, (0, int(self.on), int(self.on)))
        except OSError as exc:
            if not negotiated or exc.errno not in _ABSENT:
                raise
            _set(self.interface, (negotiated, int(self.on), int(self.on)))

    @staticmethod
    def undo(entry: Entry) -> None:
        negotiated, obeyed, sent = entry["before"]
        if _settings(entry["interface"]) is not None:
            _set(entry["interface"], (negotiated, obeyed, sent))

    def commands(self) -> List[str]:
        word = "on" if self.on else "off"
        return [line("ethtool", "-A", self.interface, "autoneg", "off", "rx", word, "tx", word)]


def _settings(interface: str) -> Optional[Settings]:
    """Read the pause settings, or None if the interface is gone or its driver has none."""
    try:
        _, negotiated, obeyed, sent = struct.unpack("=4I", _query_interface(interface, struct.pack("=I12x", GET_PAUSE)))
    except OSError as exc:
        if exc.errno in (*_ABSENT, errno.ENODEV):
            return None
        raise
    return negotiated, obeyed, sent


def _set(interface: str, settings: Settings) -> None:
    _query_interface(interface, struct.pack("=4I", SET_PAUSE, *settings))


def _query_interface(interface: str, command: bytes) -> bytes:
    """Query the driver by ioctl: the netlink library has no call for this."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ioctl_socket:
        return query_driver(ioctl_socket, interface, command)
