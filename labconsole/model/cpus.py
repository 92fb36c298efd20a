"""CPUs of a node as the kernel lists them: ``0-2,5``."""

from __future__ import annotations

import re

_CPUS = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")


def cpu_set(text: str) -> frozenset[int] | None:
    """The CPUs in a list such as ``0-2,5``, or None if the text is no such list."""
    if not _CPUS.fullmatch(text.strip()):
        return None
    found: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return frozenset(found) or None
