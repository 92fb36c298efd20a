"""The number of a kernel's context switches, from /proc/stat. Pure."""

from __future__ import annotations

import re

_SWITCHES = re.compile(r"^ctxt (\d{1,18})$", re.MULTILINE)


def context_switches(stat: str) -> int | None:
    """The total on all processors since boot, or None if it is missing."""
    found = _SWITCHES.search(stat)
    return None if found is None else int(found[1])


def count_switches(before: str, after: str) -> int | None:
    """The number between two readings, or None if one lacks it or they are not consecutive."""
    first, last = context_switches(before), context_switches(after)
    return None if first is None or last is None or last < first else last - first
