"""Work of a node's processors within a window: time by kind, interrupts, softirqs, queues, processes."""

from __future__ import annotations

from typing import Annotated, Any, List, Optional

from labconsole.wire.message import Done, Message, Request
from labconsole.wire.processors import MAX_PROCESSORS
from labconsole.wire.rules import S64, Count, Index, Most, Name, Rule, WordList, rising_pairs, whole

MAX_LINES = 512
"""Most interrupts listed individually, the busiest; the others are summed."""

MAX_QUEUES = 4096
MAX_WORKING = 20


class ProcessorWork(Message):
    """One processor. Times are in whole ticks of the kernel (``tick_ns``). ``system_ns`` is without interrupts;
    ``guest_ns`` is included in ``user_ns``. ``received_softirqs``, ``sent_softirqs``: how often NET_RX and NET_TX ran.
    ``stack_packets``: how often a packet was handed to the stack here (processed in softnet_stat: once more behind each
    virtual port that it passes; merged packets count as one). ``backlog_dropped_packets``: others, for which the
    backlog had no room. ``squeezed``: NET_RX ended for lack of time or budget with work left. Fields are None if the
    kernel does not report them.
    """

    number: Index
    user_ns: Count
    guest_ns: Count
    system_ns: Count
    interrupt_ns: Count
    softirq_ns: Count
    steal_ns: Count
    idle_ns: Count
    received_softirqs: Optional[Count]
    sent_softirqs: Optional[Count]
    stack_packets: Optional[Count]
    backlog_dropped_packets: Optional[Count]
    squeezed: Optional[Count]


class InterruptWork(Message):
    """One interrupt that occurred: ``line`` as in /proc/interrupts, ``what`` its device or meaning there,
    ``by_processor``: (processor, how often).
    """

    line: Name
    what: Name
    by_processor: Annotated[List[Any], Rule(rising_pairs(MAX_PROCESSORS))]


class QueueWork(Message):
    """Packets of one queue of an interface, by its driver's own statistics. ``direction``: rx or tx."""

    interface: Name
    direction: Name
    queue: Annotated[int, Rule(whole(0, 65535))]
    packets: Annotated[int, Rule(whole(1, S64 - 1))]


class WorkingProcess(Message):
    """A process and the children that it waited for. ``kernel``: it is a kernel thread."""

    pid: Count
    name: Name
    kernel: bool
    cpu_ns: Count


class NodeWork(Message):
    """``unlisted_interrupts``: of lines that are not listed. ``processes``: the busiest."""

    elapsed_ns: Annotated[int, Rule(whole(1, S64 - 1))]
    tick_ns: Annotated[int, Rule(whole(1, 10**9))]
    processors: Annotated[List[ProcessorWork], Most(MAX_PROCESSORS)]
    interrupts: Annotated[List[InterruptWork], Most(MAX_LINES)]
    unlisted_interrupts: Count
    queues: Annotated[List[QueueWork], Most(MAX_QUEUES)]
    processes: Annotated[List[WorkingProcess], Most(MAX_WORKING)]


class BeginProcessorWork(Request[Done], op="processor_work.begin"):
    """Open a window, or restart an open one. ``interfaces``: those whose queues are read."""

    interfaces: WordList


class EndProcessorWork(Request[NodeWork], op="processor_work.end"):
    """Close the window and return its work. Refused with not_found if no window is open."""
