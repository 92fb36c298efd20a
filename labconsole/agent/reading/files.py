"""Small files in /proc and /sys. An unreadable file is None."""

from __future__ import annotations

import re
from typing import Optional


def read_text(path: str, most: int = 65536) -> Optional[str]:
    """Return a short file's text, ``most`` characters at most, or None if it does not exist or is empty."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read(most).strip() or None
    except OSError:
        return None


def read_number(path: str) -> Optional[int]:
    """Return a file's number, or None if it has none."""
    text = read_text(path)
    return int(text) if text is not None and re.match(r"-?\d{1,18}\Z", text) else None


def read_bytes(path: str, most: int = 65536) -> Optional[bytes]:
    """Return the beginning of a file that is not text, or None if it cannot be read."""
    try:
        with open(path, "rb") as source:
            return source.read(most)
    except OSError:
        return None
