"""The port between a machine and the host, and the messages of a booting machine over it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import time
from asyncio.streams import FlowControlMixin
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labconsole.errors import LabSetupError
from labconsole.lab import control
from labconsole.text.sanitize import REPLACEMENT, sanitize

# -- the port ----------------------------------------------------------------------------------------------------------
# The port between a machine and the host: JSON lines over virtio, for process 1 inside.

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


# -- boot log ----------------------------------------------------------------------------------------------------------
# Messages of a booting machine: states over its port, and the ends of its logs if it does not get that far.

SERIAL_LOG = "uut-serial.log"
"""In the lab's directory: the kernel messages of a UUT that is a machine."""

MAX_MESSAGE_CHARACTERS = 400
"""Most characters of the machine's own messages."""

_PANIC = re.compile(rf"Kernel panic - [^{REPLACEMENT}\n\]]+")
_LOG_BYTES = 16384
_LOG_LINES = 12


def await_state(port: socket.socket, state: str, limit_s: float, log_ends: Callable[[], str]) -> dict[str, Any]:
    """Read the machine's next message, which must be ``state``. Raises LabSetupError with the ends of its logs."""
    started_s = time.monotonic()
    port.settimeout(limit_s)
    try:
        message = control.json_line(port)
    except TimeoutError:
        raise LabSetupError(f"the machine did not say {state!r} within {limit_s:g} s; {log_ends()}") from None
    except (EOFError, ConnectionError) as exc:
        why = "ended" if isinstance(exc, EOFError) else f"sent something invalid ({exc})"
        raise LabSetupError(f"the machine {why} after {time.monotonic() - started_s:.0f} s; {log_ends()}") from None
    if message.get("state") != state:
        reported = sanitize(str(message.get("message", message)))[:MAX_MESSAGE_CHARACTERS]
        raise LabSetupError(f"in the machine: {reported}")
    print(f"the machine said {state!r} after {time.monotonic() - started_s:.1f} s", flush=True)  # into the lab's log
    return message


def find_panic_message(path: Path) -> str | None:
    """Find the kernel's panic message on the serial line, or None if it printed none or there is no such log."""
    found = _PANIC.findall(_read_log_end(path))
    return found[-1][:MAX_MESSAGE_CHARACTERS] if found else None


def format_log_ends(logs: Mapping[str, Path]) -> str:
    """Return the end of each of its logs."""
    parts = []
    for name, path in logs.items():
        lines = _read_log_end(path).strip().splitlines()[-_LOG_LINES:]
        parts.append(f"its {name} ends: {' | '.join(lines) or '(empty)'}")
    return "; ".join(parts)


def _read_log_end(path: Path) -> str:
    """Return the end of a log, safe for a terminal, or empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return sanitize(file.read().decode("utf-8", "replace"))
    except FileNotFoundError:
        return ""
