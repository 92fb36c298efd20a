"""Test packets that a node's kernel reports as dropped: where in the kernel, why, and how many."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Index, Most, Name, Rule, WordList, above

MAX_DROP_ROWS = 1024
MAX_LOOK_S = 60
MAX_GUESTS = 64

COST_NS = {"tp_btf": (370, 180), "raw_tp": (680, 380)}
"""Processor time by mode of attachment: for a packet that the program examines, and for one of another namespace.
Measured by the kernel's statistics of programs, which include their own cost, on one machine with Linux 6.18; elsewhere
it is an estimate.
"""


def estimated_cost_ns(mode: str, looked_packets: int, passed_packets: int) -> int:
    """Estimate the processor time that counting took. An unknown mode of attachment counts as the most expensive."""
    looked_ns, passed_ns = COST_NS.get(mode, max(COST_NS.values()))
    return looked_ns * looked_packets + passed_ns * passed_packets


class KernelDropsStarted(Message):
    """``mode``: tp_btf or raw_tp, how the program is attached. ``tells_reasons``: this kernel reports reasons in
    addition to places.
    """

    mode: Name
    tells_reasons: bool


class GuestInside(Message):
    """A guest that shares this node's kernel: its name, and a process in its network namespace."""

    name: Name
    pid: Index


class StartKernelDrops(Request[KernelDropsStarted], op="kernel_drops.start"):
    """Start to count the test packets that the kernel drops in this node's namespaces: its own, those that the agent
    made, and those of ``guests`` that still exist, under their names. ``sinks``: IPv4 addresses; a packet's stream is
    the index of its destination among them. ``budget_ns``: a limit on processor time, beyond which counting ends by
    itself; the use is checked at the given interval. Refused with not_supported, no_permission or locked_down.
    """

    sinks: WordList
    budget_ns: Optional[Count] = None
    look_every_s: Optional[Annotated[float, Rule(above(0, MAX_LOOK_S))]] = None
    guests: Annotated[List[GuestInside], Most(MAX_GUESTS)] = []


class KernelDrop(Message):
    """Packets dropped at one place for one reason. ``namespace`` is "" for the node's own. ``interface`` is None if it
    is gone, ``stream`` is None for a test packet to none of the sinks, ``reason`` is None if this kernel does not
    report it, and ``function`` is None if the kernel hides its addresses.
    """

    namespace: Name
    interface: Optional[Name]
    stream: Optional[Index]
    reason: Optional[Name]
    function: Optional[Name]
    packets: Count


class KernelDrops(Message):
    """``looked_packets``: packets of any kind for which the program ran in these namespaces; ``passed_packets``:
    elsewhere. ``unreadable_packets``: their headers were where the program cannot look. ``unlisted_packets``: there was
    no room for them. ``missed_packets``: the program did not run for them. ``counted_ns``: how long the program was
    attached. ``ended_early``: its budget was spent.
    """

    rows: Annotated[List[KernelDrop], Most(MAX_DROP_ROWS)]
    passed_packets: Count
    looked_packets: Count
    unreadable_packets: Count
    unlisted_packets: Count
    missed_packets: Count
    counted_ns: Count
    ended_early: bool


class StopKernelDrops(Request[KernelDrops], op="kernel_drops.stop"):
    """Stop counting and return the counts."""
