"""Settings of a NIC by ioctl: its features, flow control, and its time stamps."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct
from contextlib import suppress
from typing import ClassVar, Dict, List, Optional, Tuple

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line
from labconsole.wire.codec import WireError

# -- ethtool -----------------------------------------------------------------------------------------------------------
# One command of ethtool(8) by ioctl: older than the netlink version, and supported by every driver that answers at
# all.

SIOCETHTOOL = 0x8946


def query_driver(ioctl_socket: socket.socket, interface: str, command: bytes) -> bytes:
    """Return the answer, as long as the command. Raises OSError if the driver has none."""
    data = array.array("B", command)
    request = struct.pack("16sP", interface.encode("utf-8"), data.buffer_info()[0]).ljust(40, b"\0")
    fcntl.ioctl(ioctl_socket.fileno(), SIOCETHTOOL, request)
    return data.tobytes()


# -- port features -----------------------------------------------------------------------------------------------------
# The features of an interface, by their names in ``ethtool -k``: read, and restored.

GET_STRINGS, GET_COUNTS, GET_FEATURES, SET_FEATURES = 0x1B, 0x37, 0x3A, 0x3B
NAMES_OF_FEATURES = 4
NAME_BYTES = 32

PORT_FEATURES = "port_features"
"""The kind of a promise to restore features (agent/undo.py)."""

Features = Dict[str, bool]


def _names(tool: socket.socket, interface: str) -> List[str]:
    said = query_driver(tool, interface, struct.pack("=IIQI", GET_COUNTS, 0, 1 << NAMES_OF_FEATURES, 0))
    count = struct.unpack_from("=I", said, 16)[0]
    head = struct.pack("=III", GET_STRINGS, NAMES_OF_FEATURES, count)
    names = query_driver(tool, interface, head + bytes(NAME_BYTES * count))[len(head) :]
    rows = [names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES)]
    return [row.split(b"\0")[0].decode("ascii", "replace") for row in rows]


def _blocks(names: List[str]) -> int:
    return (len(names) + 31) // 32


def read_features(interface: str) -> Features:
    """Return the active features; none of an interface that is gone. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tool:
        try:
            names = _names(tool, interface)
            head = struct.pack("=II", GET_FEATURES, _blocks(names))
            said = query_driver(tool, interface, head + bytes(16 * _blocks(names)))[len(head) :]
        except OSError as exc:
            if exc.errno == errno.ENODEV:
                return {}
            raise
    in_force = [block[2] for block in struct.iter_unpack("=4I", said)]
    return {name: bool(in_force[place // 32] >> place % 32 & 1) for place, name in enumerate(names) if name}


def write_features(interface: str, wanted: Features) -> None:
    """Request these features; those that the driver does not support stay unchanged. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tool:
        names = _names(tool, interface)
        blocks = [[0, 0] for _ in range(_blocks(names))]
        for place, name in enumerate(names):
            if name in wanted:
                blocks[place // 32][0] |= 1 << place % 32
                blocks[place // 32][1] |= wanted[name] << place % 32
        head = struct.pack("=II", SET_FEATURES, len(blocks))
        query_driver(tool, interface, head + b"".join(struct.pack("=II", *pair) for pair in blocks))


def differing(before: Dict[str, Features]) -> Dict[str, Features]:
    """Return the former values of features that differ now, by interface, without interfaces that are gone. Raises
    OSError.
    """
    found = {}
    for interface, then in before.items():
        now = read_features(interface)
        found[interface] = {name: on for name, on in then.items() if now.get(name, on) != on}
    return {interface: features for interface, features in found.items() if features}


def put_back(before: Dict[str, Features]) -> Dict[str, Features]:
    """Restore features, interface by interface; return those that still differ, as far as known."""
    left = {}
    for interface, features in before.items():
        own = {interface: features}
        try:
            for changed in differing(own).values():
                with suppress(OSError):  # refused features are among those that still differ
                    write_features(interface, changed)
            left.update(differing(own))
        except OSError:
            left.update(own)
    return left


# -- flow control ------------------------------------------------------------------------------------------------------
# Ethernet flow control of a NIC (IEEE 802.3, annex 31B): whether it obeys and sends pause frames.

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


# -- time stamps -------------------------------------------------------------------------------------------------------
# Time stamps that a NIC itself gives to received frames (SIOCSHWTSTAMP).

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
