"""Processor time of processes with all their descendants, and their time waiting for it.

This is the node's own view of a guest, which does not rely on the guest. Times come from two files: ``stat`` counts a
process with all of its threads, ended ones, too; ``schedstat`` has the waiting of the living threads.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from labconsole.agent.reading.process_table import add_descendants, processes, read_process
from labconsole.wire.codec import WireError


def read(pids: Sequence[int]) -> Dict[str, Any]:
    """Return sums over ``pids`` and their descendants; ``gone``: those of ``pids`` that do not exist."""
    if not pids:
        raise WireError("bad_request", "pids must have at least one process id")
    seen = processes()
    members = add_descendants([pid for pid in pids if pid in seen], seen)
    monotonic_ns = time.monotonic_ns()
    tick_ns = 1000000000 // os.sysconf("SC_CLK_TCK")
    ticks = threads = 0
    sums: Optional[List[int]] = [0, 0]
    for pid in members:
        now = read_process(pid)
        if now is None:
            continue  # ended meanwhile
        ticks += now.used
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
        "gone": [pid for pid in pids if pid not in seen],
    }


def _thread_times(pid: int) -> List[Optional[Tuple[int, int]]]:
    """Return run and wait of each thread in ns, or None for one whose kernel does not report them."""
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
