"""Describes the unit under test's processor activity during traffic: labelled sentences, one row per processor.

Pure.
"""

from __future__ import annotations

from labconsole.measure.processor_time import (
    ProcessorTime,
    busy_ns,
    busy_ratio,
    processor_time,
    read_work,
    work_refused,
)
from labconsole.model.record.run import RunRecord
from labconsole.model.record.telemetry import InterruptRecord, ProcessorRecord, WorkRecord
from labconsole.units import format_count

MOST = 6
"""The number of interrupts, queues and processes that are named: the busiest."""

MOST_PROCESSORS = 16
HEADINGS = ("processor", "busy", "softirq", "system", "user", "NET_RX", "packets", "squeezed")
UNKNOWN = "–"


def processor_sentences(record: RunRecord) -> list[tuple[str, str]]:
    """Pairs of label and sentence; empty if processor activity was not requested."""
    refused = work_refused(record)
    if refused is not None:
        return [("processors", f"it did not report what they did: {refused}")]
    work, time = read_work(record), processor_time(record)
    if work is None or time is None:
        return []
    found = [("per packet", _packet(time)), ("processors", _processors(time)), ("softirqs", _softirqs(time))]
    if work.interrupts:
        found.append(("interrupts", _interrupts(work, time)))
    if work.queues:
        found.append(("queues", _queues(work)))
    if work.processes:
        shares = [f"{each.name} {100 * each.cpu_ns / work.elapsed_ns:.1f} %" for each in work.processes[:MOST]]
        found.append(("processes", f"{', '.join(shares)} of a processor"))
    if len(time.nodes) > 1:
        found.append(("shared", f"{', '.join(time.nodes)} are one machine, and what all of them did is counted"))
    return found


def processor_rows(record: RunRecord) -> list[tuple[str, ...]]:
    """The values of HEADINGS for each processor, the busiest first, limited to MOST_PROCESSORS."""
    work = read_work(record)
    if work is None:
        return []
    busiest = sorted(work.processors, key=lambda each: (-busy_ratio(each), each.number))[:MOST_PROCESSORS]
    return [_row(each) for each in busiest]


def _row(did: ProcessorRecord) -> tuple[str, ...]:
    whole = busy_ns(did) + did.idle_ns + did.steal_ns
    shares = (busy_ns(did), did.softirq_ns, did.system_ns, did.user_ns)
    counts = (did.received_softirqs, did.stack_packets, did.squeezed)
    return (
        str(did.number),
        *(f"{100 * share / whole:.0f} %" if whole else UNKNOWN for share in shares),
        *(UNKNOWN if count is None else format_count(count) for count in counts),
    )


def _packet(time: ProcessorTime) -> str:
    whole = time.per_packet(time.busy_ns)
    if whole is None:
        return "the number of forwarded packets is not known"
    parts = {
        "softirq": time.softirq_ns,
        "system": time.system_ns,
        "user": time.user_ns,
        "interrupts": time.interrupt_ns,
    }
    amounts = ", ".join(f"{name} {format_count(round(time.per_packet(ns) or 0))}" for name, ns in parts.items())
    guests = (
        "" if not time.guest_ns else f"; of user, guests {format_count(round(time.per_packet(time.guest_ns) or 0))}"
    )
    return (
        f"{format_count(round(whole))} ns of processor time for each of {format_count(time.packets or 0)} forwarded "
        f"packets: {amounts}{guests}"
    )


def _processors(time: ProcessorTime) -> str:
    busiest = "" if time.busiest is None else f"; the busiest, {time.busiest[0]}, {100 * time.busiest[1]:.0f} %"
    stolen = f"; {time.steal_ns / time.elapsed_ns:.2f} stolen" if time.steal_ns else ""
    return f"{time.busy_processors:.2f} of {time.processors} busy{busiest}{stolen}"


def _softirqs(time: ProcessorTime) -> str:
    if time.received_softirqs is None:
        return "the kernel does not count them"
    text = f"NET_RX ran {format_count(time.received_softirqs)} times"
    if time.packets_by_softirq is not None:
        text += f", {time.packets_by_softirq:.1f} packets per run"
    if time.squeezed is not None:
        text += f", {format_count(time.squeezed)} times ended with work left (squeezed)"
    if time.backlog_dropped_packets:
        text += f"; {format_count(time.backlog_dropped_packets)} packets found no room in a backlog"
    return text


def _interrupts(work: WorkRecord, time: ProcessorTime) -> str:
    named = [
        f"{_line(each)} {format_count(sum(count for _, count in each.by_processor))} on {_where(each)}"
        for each in work.interrupts[:MOST]
    ]
    per_packet = time.per_packet(time.interrupts)
    share = "" if per_packet is None else f", {per_packet:.3g} per packet"
    return f"{format_count(time.interrupts)}{share}: {'; '.join(named)}"


def _line(each: InterruptRecord) -> str:
    """A device's name, the last word of its description; of the kernel's own interrupts the whole description."""
    if not each.line.isdecimal():
        return each.what or each.line
    return each.what.rpartition(" ")[2] or each.line


def _where(each: InterruptRecord) -> str:
    """The processors that received the interrupt, the busiest first."""
    busiest = sorted(each.by_processor, key=lambda pair: (-pair[1], pair[0]))
    named = ", ".join(str(number) for number, _ in busiest[:MOST])
    return f"processor{'s' if len(busiest) > 1 else ''} {named}" + (" …" if len(busiest) > MOST else "")


def _queues(work: WorkRecord) -> str:
    """The distribution of each port's packets over queues."""
    ports: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for each in work.queues:
        ports.setdefault((each.interface, each.direction), []).append((each.queue, each.packets))
    described = []
    for (interface, direction), queues in ports.items():
        total = sum(packets for _, packets in queues)
        queue, most = max(queues, key=lambda pair: (pair[1], -pair[0]))
        spread = (
            f"{len(queues)} queues, most in {queue} ({100 * most / total:.0f} %)"
            if len(queues) > 1
            else f"queue {queue}"
        )
        described.append(f"{interface} {direction} {format_count(total)} packets in {spread}")
    return "; ".join(described)
