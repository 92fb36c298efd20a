"""The processes that this node can see, from /proc/PID/stat."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

from labconsole.agent.reading.files import read_text

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
