"""What processes and all that descend from them have had of the processor."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Most, Rule, whole

MAX_PIDS = 64
Pid = Annotated[int, Rule(whole(1, 2**31 - 1))]


class Usage(Message):
    """Sums so far over the processes and their descendants.

    ``cpu_ns`` is user and system time; ``run_ns`` and ``wait_ns`` are on a processor and waiting for one, None if
    the kernel does not count that. ``gone``: the processes asked for that do not exist.
    """

    monotonic_ns: Count
    processes: Count
    threads: Count
    cpu_ns: Count
    run_ns: Optional[Count]
    wait_ns: Optional[Count]
    gone: Annotated[List[Pid], Most(MAX_PIDS)]


class ProcessUsage(Request[Usage], op="process.usage"):
    """Ask for the usage of these processes now."""

    pids: Annotated[List[Pid], Most(MAX_PIDS)]
