"""The protocol between agent and console: one JSON object per line, over the agent's stdin and stdout.

    console -> agent   {"id": 7, "op": "capture.start", "args": {...}}
    agent -> console   {"id": 7, "ok": {...}}
                       {"id": 7, "error": {"code": "...", "message": "...", "detail": {...}}}
                       {"event": "counters", ...}

Both sides read and write lines with the functions here; anything that does not fit is a WireError. The messages
themselves are the classes of this room. docs/agent-protocol.md lists them.
"""

from __future__ import annotations

import json
from typing import Any, Union

PROTOCOL = 1
"""Incremented when an older agent and a newer console could misunderstand each other."""

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest line accepted. Two outputs of ``exec`` of 1 MiB each, every byte of them escaped to six, still fit."""

MAX_PARTS = 4 * 1024 * 1024
"""Most commas, colons and opening brackets in one line: a line of empty lists takes twenty times its own length once
parsed. An output of ``exec`` that is only commas still fits.
"""

STAT_NAMES = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
)
"""Fields of struct rtnl_link_stats64 in kernel order (uapi/linux/if_link.h). Older kernels send fewer; the rest is
absent.
"""


class WireError(Exception):
    """A request that cannot be done, or a line outside the protocol. ``code`` is stable, ``message`` a sentence."""

    def __init__(self, code: str, message: str, detail: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


def encode(message: dict[str, Any]) -> bytes:
    """Encode a message as one line. Non-ASCII is escaped, so no byte of it can mean anything to a terminal."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def count_parts(text: Union[bytes, str]) -> int:
    """Return the most values a JSON text can contain: its commas, colons and opening brackets."""
    if isinstance(text, str):
        return sum(text.count(mark) for mark in ",:[{")
    return sum(text.count(mark) for mark in b",:[{")


def _refuse(constant: str) -> Any:
    raise ValueError("%s is not a valid JSON number" % constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def decode(line: bytes) -> dict[str, Any]:
    """Decode one line. Raises WireError if it is too long, not JSON or not an object."""
    if len(line) > MAX_LINE_BYTES:
        raise WireError("bad_line", "a line of %d bytes is longer than %d" % (len(line), MAX_LINE_BYTES))
    if len(line) > MAX_PARTS and count_parts(line) > MAX_PARTS:
        raise WireError("bad_line", "a line holds more than %d values" % MAX_PARTS)
    try:
        message = _DECODER.decode(line.decode("utf-8"))
    except ValueError as exc:
        raise WireError("bad_line", "a line is not JSON: %s" % exc) from exc
    except RecursionError as exc:
        raise WireError("bad_line", "a line is nested too deeply") from exc
    if not isinstance(message, dict):
        raise WireError("bad_line", "a line is not a JSON object")
    return message


def encodable(text: str) -> bool:
    """Whether the text has no half of a surrogate pair, except those that represent bytes."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def usable(text: str) -> bool:
    """Whether the kernel would accept the text as a name or a path: it has no null character."""
    return "\0" not in text and encodable(text)
