"""Other activity on a node: who is logged in, which processes use its processors, and where a process runs."""

from __future__ import annotations

import os
from typing import Annotated, Dict, List, Optional

from labconsole.wire.facts import MAX_LOGINS, LoadAverages, Login
from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Amount, Count, Index, Most, Name, Word, WordList

# -- process location --------------------------------------------------------------------------------------------------
# Where a process runs, as reported by console and agent alike, to recognise nodes or a console that share a kernel.


def boot_id() -> Optional[str]:
    """Return an id that is the same on all nodes that are namespaces of one machine, and on no others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            return source.read(64).strip()
    except OSError:
        return None


def pid_namespace() -> Optional[int]:
    """Return the id of the set of processes that this node sees: the same for all nodes that see the same ones."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


# -- activity ----------------------------------------------------------------------------------------------------------

MAX_OWNERS = 20
MAX_PROCESSES = 1000
MAX_GUESTS = 256


class CpuShares(Message):
    """Shares of the processors' time."""

    busy_ratio: Amount
    interrupt_ratio: Amount
    steal_ratio: Amount


class HottestCpu(Message):
    """The busiest processor."""

    cpu: Name
    busy_ratio: Amount
    interrupt_ratio: Amount
    steal_ratio: Amount


class BusyProcess(Message):
    """``whose``: ours (of this console's agents on nodes that share the kernel), kernel, guest, labconsole (another
    session's), other.
    """

    pid: Count
    name: Name
    whose: Name
    cpu_s: Amount


class UsageWindow(Message):
    """Processor use since the start of the window; ``processes``: the 20 busiest."""

    elapsed_s: Amount
    cpu: Optional[CpuShares]
    hottest: Optional[HottestCpu]
    used_s: Annotated[Dict[str, Amount], Most(MAX_OWNERS)]
    processes: Annotated[List[BusyProcess], Most(MAX_PROCESSES)]


class RunningGuest(Message):
    """A virtual machine that is not ours."""

    name: Name
    pid: Count


class NodeSurroundings(Message):
    """``pid_namespace``: an inode; nodes with the same one see the same processes. ``sessions``: agents of other
    consoles. ``window``: None at the start.
    """

    monotonic_ns: Count
    wall_ns: Count
    boot_id: Optional[Name]
    pid_namespace: Optional[Count]
    logins: Optional[Annotated[List[Login], Most(MAX_LOGINS)]]
    load: Optional[LoadAverages]
    cpus: Optional[Count]
    guests: Annotated[List[RunningGuest], Most(MAX_GUESTS)]
    sessions: Annotated[List[Count], Most(MAX_PROCESSES)]
    window: Optional[UsageWindow]


class ProcessPlace(Message):
    """The console's process, so that a node that sees it counts it as ours."""

    boot_id: Optional[Word]
    pid_namespace: Optional[Count]
    pid: Index


class ReadSurroundings(Request[NodeSurroundings], op="surroundings"):
    """Request the node's other activity. ``own``: processes of our guest that others started.

    ``guests``: patterns for the full names of processes that are guests.
    """

    begin: bool
    guests: Optional[WordList] = None
    own: Optional[Annotated[List[Index], Most(MAX_PROCESSES)]] = None
    console: Optional[ProcessPlace] = None
