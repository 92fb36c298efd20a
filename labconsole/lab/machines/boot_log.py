"""Messages of a booting machine: states over its port, and the ends of its logs if it does not get that far."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labconsole.errors import LabSetupError
from labconsole.lab import control
from labconsole.text.sanitize import REPLACEMENT, sanitize

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
