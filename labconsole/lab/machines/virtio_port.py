"""The port between a machine and the host: JSON lines over virtio, for process 1 inside."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.streams import FlowControlMixin
from pathlib import Path
from typing import Any

from labconsole.lab import control

PORT_NAME = "labconsole"


def open_port() -> int:
    """Open the port and return its descriptor."""
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text().strip() == PORT_NAME:
            return os.open(f"/dev/{entry.name}", os.O_RDWR | os.O_CLOEXEC)
    raise FileNotFoundError(f"no virtio port {PORT_NAME}")


def say(port: int, message: dict[str, Any]) -> None:
    """Send one message to the host."""
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(port, data) :]


def read_message(port: int) -> dict[str, Any]:
    """Read one message from the host, which sends nothing more until it has the answer."""
    received = bytearray()
    while not received.endswith(b"\n"):
        received += os.read(port, 65536)
    return dict(json.loads(received))


async def serve(port: int, handler: control.Handler) -> None:
    """Serve the host's requests until it is gone."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=control.MAX_LINE_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(port), "rb", buffering=0))
    transport, flow = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(port, "wb", buffering=0))
    writer = asyncio.StreamWriter(transport, flow, reader, loop)
    await control.Peer(reader, writer, handler).serve()
