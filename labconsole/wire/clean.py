"""Text that a node sent, made safe to show: one line, no control characters, no escape sequences, bounded.

A node is not trusted with the operator's terminal: a host name or an error message may carry escape sequences,
text-direction overrides or half a surrogate pair. All text from a node that enters a message passes here.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Dict, Optional

_ESCAPES = re.compile(
    r"""
    (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?                 # CSI: colours, cursor, erase
    | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]) [^\x07\x1b\x9c]* (?:\x07|\x1b\\|\x9c)?   # OSC, DCS, SOS, PM, APC: strings
    | \x1b [ -/]* [0-~]?                                 # every other escape sequence
    """,
    re.VERBOSE,
)
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANKS = re.compile(r"\s+")


def clean(text: object, limit: int = 400) -> str:
    """Return ``text`` as one printable line of at most ``limit`` characters; cut text ends in an ellipsis."""
    if isinstance(text, (bytes, bytearray, memoryview)):
        text = bytes(text[: 8 * limit]).decode("utf-8", "replace")
    line = str(text)[: 8 * limit]  # bounds the work before the expressions below see it
    if not (line.isascii() and line.isprintable()):
        line = _ESCAPES.sub("", line)
        line = "".join(" " if char.isspace() else char for char in line if char.isspace() or _printable(char))
    line = _BLANKS.sub(" ", line).strip()
    return line if len(line) <= limit else line[: max(0, limit - 1)].rstrip() + "…"


class _PrintableCache(Dict[int, Optional[int]]):
    """Caches, for common characters, the replacement that str.translate uses."""

    def __missing__(self, code: int) -> int | None:
        kept = code if code in (9, 10) or _printable(chr(code)) else None
        if code < 0x3000:
            self[code] = kept
        return kept


_KEPT = _PrintableCache()


def clean_lines(text: str) -> str:
    """Return ``text`` without unprintable characters other than line feeds and tabs. Nothing else is lost."""
    return text if text.isprintable() else text.translate(_KEPT)


def read_json(text: str) -> Any:
    """Parse the JSON that a program on a node printed; every text in it is cleaned as the output itself is.

    JSON escapes may encode what output cannot contain: control characters, half surrogates. Raises ValueError, also for
    JSON that is nested too deeply.
    """
    try:
        return _clean_values(json.loads(text))
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _clean_values(value: Any) -> Any:
    if isinstance(value, str):
        return clean_lines(value)
    if isinstance(value, list):
        return [_clean_values(each) for each in value]
    if isinstance(value, dict):
        return {clean_lines(key): _clean_values(each) for key, each in value.items()}
    return value


def _printable(char: str) -> bool:
    return unicodedata.category(char) not in _UNPRINTABLE


def last_line(data: bytes | bytearray, limit: int = 300) -> str:
    """Return the last line of ``data`` with any text, cleaned, or '' if there is none.

    For a Python traceback that is the exception; for sudo or a shell, the error message.
    """
    for line in reversed(bytes(data[-16 * 1024 :]).splitlines()):
        if text := clean(line, limit):
            return text
    return ""
