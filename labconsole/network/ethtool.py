"""One command of ethtool(8) by ioctl: older than the netlink version, and supported by every driver that answers at
all.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

SIOCETHTOOL = 0x8946


def query_driver(ioctl_socket: socket.socket, interface: str, command: bytes) -> bytes:
    """Return the answer, as long as the command. Raises OSError if the driver has none."""
    data = array.array("B", command)
    request = struct.pack("16sP", interface.encode("utf-8"), data.buffer_info()[0]).ljust(40, b"\0")
    fcntl.ioctl(ioctl_socket.fileno(), SIOCETHTOOL, request)
    return data.tobytes()
