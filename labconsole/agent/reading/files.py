"""Small files, as /proc and /sys have them. What cannot be read is None."""

from __future__ import annotations

import re
from typing import Optional


def read_text(path: str, most: int = 65536) -> Optional[str]:
    """A short file's words, ``most`` characters at most; None when it does not exist or says nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read(most).strip() or None
    except OSError:
        return None


def read_number(path: str) -> Optional[int]:
    """A file's number; None when it holds none."""
    text = read_text(path)
    return int(text) if text is not None and re.match(r"-?\d{1,18}\Z", text) else None


def read_bytes(path: str, most: int = 65536) -> Optional[bytes]:
    """The beginning of a file that is not text; None when it cannot be read."""
    try:
        with open(path, "rb") as source:
            return source.read(most)
    except OSError:
        return None
