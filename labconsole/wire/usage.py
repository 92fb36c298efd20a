"""Processor use of processes with all their descendants."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Most, Rule, whole

MAX_PIDS = 64
Pid = Annotated[int, Rule(whole(1, 2**31 - 1))]


class Usage(Message):
    """Sums so far over the processes and their descendants.

    ``cpu_ns`` is user and system time. ``run_ns`` and ``wait_ns`` are time on a processor and waiting for one, or None
    if the kernel does not count it. ``gone``: the requested processes that do not exist.
    """

    monotonic_ns: Count
    processes: Count
    threads: Count
    cpu_ns: Count
    run_ns: Optional[Count]
    wait_ns: Optional[Count]
    gone: Annotated[List[Pid], Most(MAX_PIDS)]


class ProcessUsage(Request[Usage], op="process.usage"):
    """Request the current usage of these processes."""

    pids: Annotated[List[Pid], Most(MAX_PIDS)]
