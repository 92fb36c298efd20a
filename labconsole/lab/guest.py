"""``python -m labconsole.lab.guest``: process 1 of a QEMU machine that holds a whole lab.

The same nodes as on the host, but under a kernel that has pktgen. It is told what to build, and asked, through a virtio
port; QEMU forwards the host's management addresses to its listeners. When it ends the kernel panics and QEMU exits.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import traceback
from asyncio.streams import FlowControlMixin
from pathlib import Path
from typing import Any

from labconsole.lab import control
from labconsole.lab.init import Blueprint, Lab
from labconsole.lab.layout import lay_out
from labconsole.lab.spec import LabSpec

PORT_NAME = "labconsole"
GUEST_ADDRESS = "10.0.2.15"
"""QEMU's user network gives the guest this address and forwards to it."""

_BACKLOG = 64


def guest_port(number: int) -> int:
    """Where the SSH server of a node listens inside the machine."""
    return 10_000 + number


def main() -> int:
    """Build what the host says, then serve. Whatever goes wrong is told to the host: this process may not end."""
    port = os.open(_virtio_port(), os.O_RDWR | os.O_CLOEXEC)
    _say(port, {"state": "hello", "kernel": os.uname().release})
    try:
        lab = _build(_read_message(port))
        _say(port, {"state": "ready"})
        asyncio.run(_serve(lab, port))
    except Exception as exc:
        traceback.print_exc()
        _say(port, {"state": "failed", "message": str(exc)})
    return 1


def _virtio_port() -> str:
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text().strip() == PORT_NAME:
            return f"/dev/{entry.name}"
    raise FileNotFoundError(f"no virtio port {PORT_NAME}")


def _say(port: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(port, data) :]


def _read_message(port: int) -> dict[str, Any]:
    received = bytearray()
    while not received.endswith(b"\n"):
        received += os.read(port, 65536)
    return dict(json.loads(received))


def _build(message: dict[str, Any]) -> Lab:
    spec = LabSpec.from_json(message["spec"])
    layout = lay_out(spec, int(message["index"]))
    listeners = {
        node.name: socket.create_server((GUEST_ADDRESS, guest_port(node.number)), backlog=_BACKLOG)
        for node in layout.nodes
    }
    lab = Lab(
        Blueprint(
            spec,
            layout,
            listeners,
            dict(message["host_keys"]),
            str(message["client_key"]),
            str(message["user"]),
        )
    )
    lab.build()
    return lab


async def _serve(lab: Lab, port: int) -> None:
    await lab.connect()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=control.MAX_LINE_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(port), "rb", buffering=0))
    transport, flow = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(port, "wb", buffering=0))
    writer = asyncio.StreamWriter(transport, flow, reader, loop)
    await control.Peer(reader, writer, lab.answer).serve()


if __name__ == "__main__":
    sys.exit(main())
