"""How often a kernel has switched from one task to another, as it counts in /proc/stat. Pure."""

from __future__ import annotations

import re

_SWITCHES = re.compile(r"^ctxt (\d{1,18})$", re.MULTILINE)


def context_switches(stat: str) -> int | None:
    """On all processors together since it was started; None: that is not said."""
    found = _SWITCHES.search(stat)
    return None if found is None else int(found[1])


def count_switches(before: str, after: str) -> int | None:
    """Between two readings; None: one does not say, or they are not one after the other."""
    first, last = context_switches(before), context_switches(after)
    return None if first is None or last is None or last < first else last - first
