"""Which function of the kernel an address lies in (/proc/kallsyms).

Its lines begin with addresses of one width, so that lines in order are addresses in order: sorting 120 000 of them and
looking a few up takes 60 ms, taking each apart three times as long.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Iterable, List, Optional

PATH = "/proc/kallsyms"
_FUNCTION = re.compile(rb"[0-9a-f]{16} [tTwW] \S")
_PART = re.compile(r"\.(?:constprop|isra|part|cold|llvm)\b.*")


class Symbols:
    """Names of functions. Where the kernel hides its addresses none is known."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines: List[bytes] = sorted(line for line in lines if _FUNCTION.match(line))
        self._hidden = not self._lines or self._lines[-1].startswith(b"0" * 16)

    def function(self, address: int) -> Optional[str]:
        """The name without what a compiler hangs on to it."""
        place = bisect_right(self._lines, b"%016x~" % address) - 1
        if self._hidden or place < 0:
            return None
        return _PART.sub("", self._lines[place].split()[2].decode("ascii", "replace"))


def read_symbols() -> Symbols:
    """Of the running kernel. Raises OSError."""
    with open(PATH, "rb") as source:
        return Symbols(source.read().splitlines())
