"""One command of ethtool(8) by ioctl: older than netlink's, and answered by every driver that has an answer."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

SIOCETHTOOL = 0x8946


def query_driver(asking: socket.socket, interface: str, command: bytes) -> bytes:
    """The answer, as long as the command. Raises OSError when the driver has none."""
    data = array.array("B", command)
    request = struct.pack("16sP", interface.encode("utf-8"), data.buffer_info()[0]).ljust(40, b"\0")
    fcntl.ioctl(asking.fileno(), SIOCETHTOOL, request)
    return data.tobytes()
