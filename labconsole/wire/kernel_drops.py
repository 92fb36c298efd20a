"""What a node's kernel says of every test packet that it dropped: where in the kernel, why, and how many."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Index, Most, Name, Rule, Words, above

MAX_DROP_ROWS = 1024
MAX_LOOK_S = 60
MAX_GUESTS = 64

COST_NS = {"tp_btf": (370, 180), "raw_tp": (680, 380)}
"""By how the program is attached: what it takes of a processor for a packet that it looks at, and for one of another
namespace. By the kernel's statistics of programs, whose own cost is in it, on one machine with Linux 6.18: elsewhere it
is an estimate.
"""


def estimated_cost_ns(mode: str, looked_packets: int, passed_packets: int) -> int:
    """What counting took of a processor. A way of attaching that is not known counts as the dearest."""
    looked_ns, passed_ns = COST_NS.get(mode, max(COST_NS.values()))
    return looked_ns * looked_packets + passed_ns * passed_packets


class KernelDropsStarted(Message):
    """``mode``: tp_btf or raw_tp, how the program is attached. ``tells_reasons``: this kernel has reasons beside
    places.
    """

    mode: Name
    tells_reasons: bool


class GuestInside(Message):
    """A guest that has only this node's kernel: its name, and a process that is in its network namespace."""

    name: Name
    pid: Index


class StartKernelDrops(Request[KernelDropsStarted], op="kernel_drops.start"):
    """Count, from now on, the test packets that the kernel drops in this node's namespaces: its own, those that the
    agent made, and those of ``guests`` that are still there, under their names. ``sinks``: IPv4 addresses; a packet's
    stream is the place of its destination among them. ``budget_ns`` of a processor's time, and how often to look what
    was taken: beyond it, counting ends by itself. Refused with not_supported, no_permission or locked_down.
    """

    sinks: Words
    budget_ns: Optional[Count] = None
    look_every_s: Optional[Annotated[float, Rule(above(0, MAX_LOOK_S))]] = None
    guests: Annotated[List[GuestInside], Most(MAX_GUESTS)] = []


class KernelDrop(Message):
    """Packets dropped at one place for one reason. ``namespace`` "": the node's own. ``interface`` None: it is gone.
    ``stream`` None: a test packet to none of the sinks. ``reason`` None: this kernel does not say; ``function`` None:
    it hides its addresses.
    """

    namespace: Name
    interface: Optional[Name]
    stream: Optional[Index]
    reason: Optional[Name]
    function: Optional[Name]
    packets: Count


class KernelDrops(Message):
    """``looked_packets``: of any kind, for which the program ran in these namespaces; ``passed_packets`` elsewhere.
    ``unreadable_packets``: whose headers lay where it cannot look. ``unlisted_packets``: for which there was no room,
    ``missed_packets``: for which it did not run. ``counted_ns``: how long it was there; ``ended_early``: its budget was
    spent.
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
    """End the counting and take what was counted."""
