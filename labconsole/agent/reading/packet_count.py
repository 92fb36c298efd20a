"""Counting every packet of a stream without rights in the kernel: a classic filter on a packet socket with no room.

The kernel counts every packet that a socket's filter passed, including those for which the socket had no room. So
nothing has to be read, and the count is exact. Any user who may open the socket may set the filter.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import List, Sequence, Tuple

from labconsole.agent.reading.foreign import PACKET_STATISTICS
from labconsole.agent.reading.frame_listener import ETH_P_ALL, ETH_P_IP, MAGIC, SO_ATTACH_FILTER, SOL_PACKET
from labconsole.agent.reading.packet_times import PACKET_IGNORE_OUTGOING
from labconsole.wire.packet_times import StreamToTime

_WORD, _HALF, _BYTE = 0x20, 0x28, 0x30
_IF_EQUAL, _RETURN = 0x15, 0x06


def program(stream: StreamToTime) -> bytes:
    """Build the filter: a byte of the stream's packets, nothing of any other."""
    wanted: List[Tuple[int, int, int]] = [
        (_HALF, 12, ETH_P_IP),
        (_BYTE, 14, 0x45),
        (_BYTE, 23, socket.IPPROTO_UDP),
        (_WORD, 26, int.from_bytes(socket.inet_aton(stream.source_ip), "big")),
        (_WORD, 30, int.from_bytes(socket.inet_aton(stream.sink_ip), "big")),
        (_HALF, 36, stream.udp_sink_port),
        (_WORD, 42, MAGIC),
    ]
    lines = []
    for place, (load, at, value) in enumerate(wanted):
        to_the_end = 2 * (len(wanted) - place - 1) + 1
        lines += [(load, 0, 0, at), (_IF_EQUAL, 0, to_the_end, value)]
    lines += [(_RETURN, 0, 0, 1), (_RETURN, 0, 0, 0)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


class PacketCounter:
    """A socket for each stream at one interface of the calling thread's namespace. Raises OSError."""

    def __init__(self, interface: str, streams: Sequence[StreamToTime]) -> None:
        self.interface = interface
        self._sockets: List[socket.socket] = []
        self._counted = [0] * len(streams)
        try:
            for stream in streams:
                tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
                self._sockets.append(tap)
                lines = program(stream)
                buffer = ctypes.create_string_buffer(lines, len(lines))
                filter_ = struct.pack("HP", len(lines) // 8, ctypes.addressof(buffer))
                tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
                tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the kernel raises it to its minimum
                tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
                tap.bind((interface, ETH_P_ALL))
        except BaseException:
            self.close()
            raise

    def packets(self) -> List[int]:
        """Return the packets of each stream so far, in order. The kernel's count restarts at each reading, and after
        2**32 packets: minutes on a fast link, so that it has to be read meanwhile.
        """
        for place, tap in enumerate(self._sockets):
            self._counted[place] += struct.unpack("=II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[0]
        return list(self._counted)

    def close(self) -> None:
        """Release everything."""
        while self._sockets:
            self._sockets.pop().close()
