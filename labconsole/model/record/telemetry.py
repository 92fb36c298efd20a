"""What a trial for telemetry tells of the unit under test's processors: an extension of a run's record. Pure.

``extensions["telemetry"]`` of a run with the role ``telemetry``. It says why there is none where the node could not
tell.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from labconsole.model.strict_model import StrictModel

EXTENSION = "telemetry"
VERSION: Final = 1

Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Word = Annotated[str, Field(max_length=400)]


class ProcessorRecord(StrictModel):
    """One processor while traffic ran, in whole ticks of the kernel. ``system_ns``: without interrupts; ``guest_ns`` is
    in ``user_ns``, too. ``received_softirqs``, ``sent_softirqs``: how often NET_RX and NET_TX ran. ``stack_packets``:
    how often a packet was handed to the stack here, once more behind each virtual port that it passes;
    ``backlog_dropped_packets``: others, that found no room in the backlog. ``squeezed``: NET_RX ended for want of time
    or budget with work left. None: the kernel does not say.
    """

    number: Count
    user_ns: Count
    guest_ns: Count
    system_ns: Count
    interrupt_ns: Count
    softirq_ns: Count
    steal_ns: Count
    idle_ns: Count
    received_softirqs: Count | None
    sent_softirqs: Count | None
    stack_packets: Count | None
    backlog_dropped_packets: Count | None
    squeezed: Count | None


class InterruptRecord(StrictModel):
    """``by_processor``: (processor, how often)."""

    line: Word
    what: Word
    by_processor: tuple[tuple[Count, Count], ...]


class QueueRecord(StrictModel):
    """Packets of one queue of an interface by its driver's own statistics. ``direction``: rx or tx."""

    interface: Word
    direction: Word
    queue: Count
    packets: Annotated[int, Field(strict=True, gt=0, lt=2**63)]


class ProcessRecord(StrictModel):
    """One of the processes that used the processors most. ``kernel``: a thread of the kernel."""

    pid: Count
    name: Word
    kernel: bool
    cpu_ns: Count


class WorkRecord(StrictModel):
    """From right before the traffic to right after it. ``tick_ns``: how finely the kernel counts time.
    ``unlisted_interrupts``: of lines that are not told one by one.
    """

    version: Literal[1] = VERSION
    node: Word
    elapsed_ns: Annotated[int, Field(strict=True, gt=0, lt=2**63)]
    tick_ns: Annotated[int, Field(strict=True, gt=0, le=10**9)]
    processors: tuple[ProcessorRecord, ...]
    interrupts: tuple[InterruptRecord, ...]
    unlisted_interrupts: Count
    queues: tuple[QueueRecord, ...]
    processes: tuple[ProcessRecord, ...]


class WorkRefusal(StrictModel):
    """A word and a sentence."""

    code: Word
    message: Word


class WorkRefused(StrictModel):
    """In place of it."""

    version: Literal[1] = VERSION
    node: Word
    refused: WorkRefusal
