"""Kernel functions by address (/proc/kallsyms).

The lines begin with addresses of one width, so that sorted lines are sorted addresses: sorting 120 000 of them and
looking a few up takes 60 ms, parsing each one three times as long.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Iterable, List, Optional

PATH = "/proc/kallsyms"
_FUNCTION = re.compile(rb"[0-9a-f]{16} [tTwW] \S")
_PART = re.compile(r"\.(?:constprop|isra|part|cold|llvm)\b.*")


class Symbols:
    """Names of functions, or none if the kernel hides its addresses."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines: List[bytes] = sorted(line for line in lines if _FUNCTION.match(line))
        self._hidden = not self._lines or self._lines[-1].startswith(b"0" * 16)

    def function(self, address: int) -> Optional[str]:
        """Return the name without the suffix that a compiler adds."""
        place = bisect_right(self._lines, b"%016x~" % address) - 1
        if self._hidden or place < 0:
            return None
        return _PART.sub("", self._lines[place].split()[2].decode("ascii", "replace"))


def read_symbols() -> Symbols:
    """Read the symbols of the running kernel. Raises OSError."""
    with open(PATH, "rb") as source:
        return Symbols(source.read().splitlines())
