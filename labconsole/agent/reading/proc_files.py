"""Small files in /proc and /sys, and the processes that they list."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

# -- files -------------------------------------------------------------------------------------------------------------
# Small files in /proc and /sys. An unreadable file is None.


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


# -- process table -----------------------------------------------------------------------------------------------------
# The processes that this node can see, from /proc/PID/stat.

PF_KTHREAD = 0x00200000


class Process(NamedTuple):
    """One line of /proc/PID/stat, in clock ticks. ``waited``: of the children that it has waited for."""

    pid: int
    name: str
    parent: int
    kernel: bool
    started: int
    used: int
    waited: int


def parse_stat(line: str) -> Optional[Process]:
    """Parse a line, or return None if it is no such line. The name itself may contain blanks and brackets."""
    begin, end = line.find("("), line.rfind(")")
    fields = line[end + 2 :].split()
    if begin < 1 or end < begin or len(fields) < 20:
        return None
    try:
        return Process(
            int(line[:begin]),
            line[begin + 1 : end],
            int(fields[1]),
            bool(int(fields[6]) & PF_KTHREAD),
            int(fields[19]),
            int(fields[11]) + int(fields[12]),
            int(fields[13]) + int(fields[14]),
        )
    except ValueError:
        return None


def read_process(pid: int) -> Optional[Process]:
    """Read one process, or return None if it has ended."""
    return parse_stat(read_text("/proc/%d/stat" % pid) or "")


def processes() -> Dict[int, Process]:
    """Read every process, by id."""
    found = (read_process(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return {each.pid: each for each in found if each is not None}


def add_descendants(roots: Iterable[int], seen: Dict[int, Process]) -> Set[int]:
    """Return the roots and all their descendants."""
    children: Dict[int, List[int]] = {}
    for each in seen.values():
        children.setdefault(each.parent, []).append(each.pid)
    found: Set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found
