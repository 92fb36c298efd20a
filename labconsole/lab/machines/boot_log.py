"""What a machine says while it boots: states over its port, and its last words when it does not get that far."""

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
"""In the lab's directory: what the kernel of a UUT that is a machine says."""

WORDS = 400
"""Characters of what the machine says of itself."""

_PANIC = re.compile(rf"Kernel panic - [^{REPLACEMENT}\n\]]+")
_LOG_BYTES = 16384
_LOG_LINES = 12


def await_state(port: socket.socket, state: str, limit_s: float, words: Callable[[], str]) -> dict[str, Any]:
    """The machine's next message, which has to say ``state``. Raises LabSetupError with its last words."""
    started_s = time.monotonic()
    port.settimeout(limit_s)
    try:
        message = control.json_line(port)
    except TimeoutError:
        raise LabSetupError(f"the machine did not say {state!r} within {limit_s:g} s; {words()}") from None
    except (EOFError, ConnectionError) as exc:
        why = "ended" if isinstance(exc, EOFError) else f"sent something invalid ({exc})"
        raise LabSetupError(f"the machine {why} after {time.monotonic() - started_s:.0f} s; {words()}") from None
    if message.get("state") != state:
        raise LabSetupError(f"in the machine: {sanitize(str(message.get('message', message)))[:WORDS]}")
    print(f"the machine said {state!r} after {time.monotonic() - started_s:.1f} s", flush=True)  # into the lab's log
    return message


def find_panic_message(path: Path) -> str | None:
    """Why a kernel ended, by its own words on the serial line; None: it did not say, or there is no such log."""
    found = _PANIC.findall(_read_log_end(path))
    return found[-1][:WORDS] if found else None


def format_log_ends(logs: Mapping[str, Path]) -> str:
    """The end of each of its logs."""
    words = []
    for name, path in logs.items():
        lines = _read_log_end(path).strip().splitlines()[-_LOG_LINES:]
        words.append(f"its {name} ends: {' | '.join(lines) or '(empty)'}")
    return "; ".join(words)


def _read_log_end(path: Path) -> str:
    """The end of a log, harmless in a terminal; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return sanitize(file.read().decode("utf-8", "replace"))
    except FileNotFoundError:
        return ""
