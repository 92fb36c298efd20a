"""What processes and all that descend from them have had of the processor, and what they have waited for it.

This is the node's own view of a guest, for which the guest need not be believed. Times come from two places: ``stat``
counts a process with all of its threads, ended ones too; ``schedstat`` has the waiting, of the threads that live.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from labconsole.wire.codec import WireError

MAX_PIDS = 64


def read(pids: Sequence[Any]) -> Dict[str, Any]:
    """Sums over ``pids`` and their descendants now; ``gone``: those of ``pids`` that there are not."""
    if not 0 < len(pids) <= MAX_PIDS or not all(type(pid) is int and pid > 0 for pid in pids):
        raise WireError("bad_request", "pids must be a list of 1 to %d process ids" % MAX_PIDS)
    parents = _parents()
    members = _with_descendants([pid for pid in pids if pid in parents], parents)
    monotonic_ns = time.monotonic_ns()
    tick_ns = 1000000000 // os.sysconf("SC_CLK_TCK")
    ticks = threads = 0
    sums: Optional[List[int]] = [0, 0]
    for pid in members:
        fields = stat_fields(pid)
        if fields is None:
            continue  # ended meanwhile
        ticks += int(fields[11]) + int(fields[12])
        for times in _thread_times(pid):
            threads += 1
            sums = None if sums is None or times is None else [sums[0] + times[0], sums[1] + times[1]]
    return {
        "monotonic_ns": monotonic_ns,
        "processes": len(members),
        "threads": threads,
        "cpu_ns": ticks * tick_ns,
        "run_ns": None if sums is None else sums[0],
        "wait_ns": None if sums is None else sums[1],
        "gone": [pid for pid in pids if pid not in parents],
    }


def stat_fields(pid: int) -> Optional[List[str]]:
    """What follows the name in /proc/PID/stat, the state first; None when there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as source:
            return source.read().rpartition(")")[2].split()
    except OSError:
        return None


def _parents() -> Dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields is not None and len(fields) > 12:
                found[int(name)] = int(fields[1])
    return found


def _with_descendants(roots: Sequence[int], parents: Dict[int, int]) -> Set[int]:
    children: Dict[int, List[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: Set[int] = set()
    left = list(roots)
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, ())
    return found


def _thread_times(pid: int) -> List[Optional[Tuple[int, int]]]:
    """Run and wait of each thread in ns; None for one whose kernel does not say."""
    base = "/proc/%d/task" % pid
    found: List[Optional[Tuple[int, int]]] = []
    try:
        names = os.listdir(base)
    except OSError:
        return found
    for name in names:
        try:
            with open("%s/%s/schedstat" % (base, name), encoding="ascii") as source:
                run, wait = source.read().split()[:2]
            found.append((int(run), int(wait)))
        except ValueError:
            found.append(None)
        except OSError:
            if os.path.isdir("%s/%s" % (base, name)):  # it lives, so this kernel keeps no such times
                found.append(None)
    return found
