"""Time stamps that a NIC itself gives to received frames (SIOCSHWTSTAMP)."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct
from typing import ClassVar, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line
from labconsole.wire.codec import WireError

SET_STAMPS, GET_STAMPS = 0x89B0, 0x89B1
ALL_FRAMES = 1
"""HWTSTAMP_FILTER_ALL."""


class NicStamps(NetworkChange, do="nic_stamps"):
    """Make a NIC stamp every received frame. libpcap does so, too, when it uses the NIC's stamps, but does not undo it.
    Undoing leaves alone what another program has set meanwhile.
    """

    namespace: ClassVar[None] = None  # type: ignore[misc]  # belongs to a NIC, which is in the node's own namespace
    interface: InterfaceName

    def apply(self, node: ChangedNode) -> None:
        try:
            before = _query_driver(self.interface, GET_STAMPS, [0, 0, 0])
            node.promise(self.kind, interface=self.interface, before=before)
            now = before
            if before[2] != ALL_FRAMES:  # setting even the same value may reset the steering of a NIC's clock
                now = _query_driver(self.interface, SET_STAMPS, [before[0], before[1], ALL_FRAMES])
            if now[2] != ALL_FRAMES:
                _query_driver(self.interface, SET_STAMPS, before)
        except OSError as exc:
            why = os.strerror(exc.errno or 0)
            raise WireError("not_supported", "the NIC of %s stamps no frames: %s" % (self.interface, why)) from exc
        if now[2] != ALL_FRAMES:
            raise WireError("not_supported", "the NIC of %s does not stamp every frame" % self.interface)

    @staticmethod
    def undo(entry: Entry) -> None:
        try:
            now = _query_driver(entry["interface"], GET_STAMPS, [0, 0, 0])
            if now[2] == ALL_FRAMES and now != entry["before"]:
                _query_driver(entry["interface"], SET_STAMPS, entry["before"])
        except OSError as exc:
            if exc.errno != errno.ENODEV:
                raise

    def commands(self) -> List[str]:
        return [line("hwstamp_ctl", "-i", self.interface, "-r", str(ALL_FRAMES))]


def _query_driver(interface: str, command: int, config: List[int]) -> List[int]:
    """Return ``struct hwtstamp_config`` as the driver leaves it. Raises OSError."""
    data = array.array("i", config)
    request = struct.pack("16sP", interface.encode("utf-8"), data.buffer_info()[0]).ljust(40, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ioctl_socket:
        fcntl.ioctl(ioctl_socket.fileno(), command, request)
    return list(data)
