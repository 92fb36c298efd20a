"""The features of an interface, by their names in ``ethtool -k``: read, and restored."""

from __future__ import annotations

import errno
import socket
import struct
from contextlib import suppress
from typing import Dict, List

from labconsole.network.ethtool import query_driver

GET_STRINGS, GET_COUNTS, GET_FEATURES, SET_FEATURES = 0x1B, 0x37, 0x3A, 0x3B
NAMES_OF_FEATURES = 4
NAME_BYTES = 32

KIND = "port_features"
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


def read(interface: str) -> Features:
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


def write(interface: str, wanted: Features) -> None:
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
        now = read(interface)
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
                    write(interface, changed)
            left.update(differing(own))
        except OSError:
            left.update(own)
    return left
