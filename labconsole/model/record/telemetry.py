"""Processor work of the UUT in a telemetry trial: an extension of a run's record. Pure.

``extensions["telemetry"]`` of a run with the role ``telemetry``. It gives the reason if the node could not report it.
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
    also in ``user_ns``. ``received_softirqs``, ``sent_softirqs``: runs of NET_RX and NET_TX. ``stack_packets``: packets
    passed to the stack here, once more behind each virtual port on their path; ``backlog_dropped_packets``: further
    packets that found the backlog full. ``squeezed``: runs of NET_RX that ended for lack of time or budget with work
    left. None if the kernel does not report it.
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
    """One interrupt line. ``by_processor``: (processor, number of interrupts)."""

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
    """One of the processes that used the processors most. ``kernel``: a kernel thread."""

    pid: Count
    name: Word
    kernel: bool
    cpu_ns: Count


class WorkRecord(StrictModel):
    """Work from right before the traffic to right after it. ``tick_ns``: the kernel's unit of time.
    ``unlisted_interrupts``: on lines that are not listed individually.
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
    """Why there is no telemetry: a code and a sentence."""

    code: Word
    message: Word


class WorkRefused(StrictModel):
    """In place of the telemetry."""

    version: Literal[1] = VERSION
    node: Word
    refused: WorkRefusal
