"""Drops every eighth test frame on an interface before any capture sees it: what a sink loses by itself.

    python3 xdp_drop.py INTERFACE on|off [native]

By a program of XDP in the kernel's generic mode, which comes after the NIC's counter and before tcpdump, or in the
driver's own. It takes the frames whose sequence number is a multiple of eight, so how many it dropped follows from how many were sent.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys

BPF_PROG_LOAD, BPF_PROG_TYPE_XDP = 5, 6
SYSCALL = {"x86_64": 321, "aarch64": 280}
DROP, PASS = 1, 2
MAGIC_AT, NUMBER_LAST_BYTE_AT, ENOUGH_BYTES = 42, 49, 50
RTM_SETLINK, NLM_REQUEST_ACK = 19, 0x5
IFLA_XDP, IFLA_XDP_FD, IFLA_XDP_FLAGS, SKB_MODE, DRIVER_MODE = 43, 1, 3, 2, 4


def instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, source << 4 | target, offset, value)


def program() -> bytes:
    magic = int.from_bytes(bytes.fromhex("be9be955"), "little", signed=False)
    lines = [
        instruction(0x61, 2, 1, 0),  # r2 = data
        instruction(0x61, 3, 1, 4),  # r3 = data_end
        instruction(0xBF, 4, 2),
        instruction(0x07, 4, value=ENOUGH_BYTES),
        instruction(0x2D, 4, 3, 7),  # too short: pass
        instruction(0x61, 5, 2, MAGIC_AT),
        instruction(0x56, 5, offset=5, value=struct.unpack("<i", struct.pack("<I", magic))[0]),  # not pktgen's: pass
        instruction(0x71, 5, 2, NUMBER_LAST_BYTE_AT),
        instruction(0x57, 5, value=7),
        instruction(0x55, 5, offset=2, value=0),  # no multiple of eight: pass
        instruction(0xB7, 0, value=DROP),
        instruction(0x95),
        instruction(0xB7, 0, value=PASS),
        instruction(0x95),
    ]
    return b"".join(lines)


def load() -> int:
    code, licence = ctypes.create_string_buffer(program()), ctypes.create_string_buffer(b"GPL")
    words = struct.pack(
        "<IIQQ", BPF_PROG_TYPE_XDP, len(program()) // 8, ctypes.addressof(code), ctypes.addressof(licence)
    )
    attributes = ctypes.create_string_buffer(words + bytes(96))
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(SYSCALL[os.uname().machine], BPF_PROG_LOAD, attributes, ctypes.c_uint(120))
    if found < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not take the program")
    return int(found)


def attach(interface: str, descriptor: int, mode: int = SKB_MODE) -> None:
    """-1 takes away what is attached."""
    inner = struct.pack("<HHiHHI", 8, IFLA_XDP_FD, descriptor, 8, IFLA_XDP_FLAGS, mode)
    body = struct.pack("<BxHiII", 0, 0, socket.if_nametoindex(interface), 0, 0)
    body += struct.pack("<HH", 4 + len(inner), 0x8000 | IFLA_XDP) + inner
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("<IHHII", 16 + len(body), RTM_SETLINK, NLM_REQUEST_ACK, 1, 0) + body)
        error = struct.unpack_from("<i", netlink.recv(4096), 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))


if __name__ == "__main__":
    attach(sys.argv[1], load() if sys.argv[2] == "on" else -1, DRIVER_MODE if sys.argv[3:] == ["native"] else SKB_MODE)
