"""The ethtool(8) queries of the agent on interfaces, by ioctl."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Any, Dict, List, Optional

from labconsole.network.nic_features import query_driver

GET_SETTINGS = 0x01
GET_DRIVER = 0x03
GET_PAUSE = 0x12
GET_STRINGS = 0x1B
GET_SET_SIZES = 0x37
GET_TIME_STAMPS = 0x41
NAME_BYTES = 32
UNKNOWN_SPEEDS = (0, 0xFFFF, 0xFFFFFFFF)
RX_HARDWARE, RAW_HARDWARE = 1 << 2, 1 << 6
"""Flags of SOF_TIMESTAMPING: stamps by the NIC for received frames, in the time of its own clock."""

FILTER_ALL = 1 << 1
"""Flag of HWTSTAMP_FILTER: every frame, and not those of PTP alone."""

UNANSWERED = (errno.EOPNOTSUPP, errno.ENODEV, errno.EPERM, errno.EINVAL)


class Ethtool:
    """Ethtool queries over one socket."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def close(self) -> None:
        self._socket.close()

    def ask(self, name: str, question: bytes) -> Optional[bytes]:
        """Return the answer to a command, as long as the question, or None if the driver has none."""
        try:
            return query_driver(self._socket, name, question)
        except OSError as exc:
            if exc.errno in UNANSWERED:
                return None
            raise

    def number(self, name: str, command: int) -> Optional[int]:
        answer = self.ask(name, struct.pack("=I4x", command))
        return None if answer is None else int(struct.unpack_from("=I", answer, 4)[0])

    def numbers(self, name: str, command: int, count: int) -> Optional[List[int]]:
        answer = self.ask(name, struct.pack("=I", command) + bytes(4 * count))
        return None if answer is None else list(struct.unpack_from("=%dI" % count, answer, 4))

    def driver(self, name: str) -> Dict[str, Optional[str]]:
        """Return the driver with its version, and the card's firmware."""
        answer = self.ask(name, struct.pack("=I192x", GET_DRIVER))
        found = {}
        for key, start in (("driver", 4), ("driver_version", 36), ("firmware", 68)):
            word = answer[start : start + 32].split(b"\0")[0] if answer is not None else b""
            found[key] = word.decode("ascii", "replace") or None
        return found

    def link(self, name: str) -> Dict[str, Any]:
        """Return speed, duplex and autonegotiation, as far as known."""
        answer = self.ask(name, struct.pack("=I40x", GET_SETTINGS))
        if answer is None:
            return {"speed_mbps": None, "duplex": None, "autoneg": None}
        low, duplex, autoneg, high = struct.unpack_from("=12xHB3xB9xH", answer)
        speed = high << 16 | low
        return {
            "speed_mbps": None if speed in UNKNOWN_SPEEDS else speed,
            "duplex": {0: "half", 1: "full"}.get(duplex),
            "autoneg": bool(autoneg),
        }

    def count_names(self, name: str, which: int) -> int:
        """Return the number of names in a set of the driver's, or 0 if it has none."""
        answer = self.ask(name, struct.pack("=IIQI", GET_SET_SIZES, 0, 1 << which, 0))
        if answer is None or not struct.unpack_from("=Q", answer, 8)[0] & 1 << which:
            return 0
        return int(struct.unpack_from("=I", answer, 16)[0])

    def pause(self, name: str) -> Optional[Dict[str, bool]]:
        """Return flow control as set: the netlink library has no call for it."""
        values = self.numbers(name, GET_PAUSE, 3)
        return None if values is None else dict(zip(("autoneg", "rx", "tx"), map(bool, values)))

    def time_stamps(self, name: str) -> Optional[Dict[str, Any]]:
        """Return whether the NIC stamps every received frame, and the number of its clock, or None if not reported."""
        values = self.numbers(name, GET_TIME_STAMPS, 10)
        if values is None:
            return None
        flags, index, filters = values[0], values[1], values[6]
        whole = RX_HARDWARE | RAW_HARDWARE
        return {
            "all_received": flags & whole == whole and bool(filters & FILTER_ALL),
            "clock": index if index < 1 << 31 else None,
        }
