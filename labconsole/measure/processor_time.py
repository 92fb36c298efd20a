"""Processor activity at the unit under test: time per forwarded packet, context switches, and its description. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labconsole.model.record.extensions import (
    TELEMETRY,
    InterruptRecord,
    ProcessorRecord,
    WorkRecord,
    WorkRefused,
    read_extension,
)
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.units import format_count

# -- processor time ----------------------------------------------------------------------------------------------------
# The processor time per forwarded packet at the unit under test, from processor activity during traffic.
#
# Everything that ran there is counted, whatever its purpose, including other nodes on the same machine. Time that a
# hypervisor below took away (steal) is not work and is separate.


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Processor activity in total.

    ``packets``: those that left the unit under test by its ports, or None if unknown, which leaves all values per
    packet unknown. Times are sums over processors. ``busy_ns``: all except idle and steal. ``busiest``: number of a
    processor and the share of time that it was busy. Counts are None if the kernel does not report them.
    """

    packets: int | None
    processors: int
    elapsed_ns: int
    busy_ns: int
    user_ns: int
    guest_ns: int
    system_ns: int
    interrupt_ns: int
    softirq_ns: int
    steal_ns: int
    busiest: tuple[int, float] | None
    interrupts: int
    received_softirqs: int | None
    stack_packets: int | None
    backlog_dropped_packets: int | None
    squeezed: int | None
    nodes: tuple[str, ...]
    """The nodes on the same machine, including the unit under test."""

    def per_packet(self, amount: float | None) -> float | None:
        """An amount per packet, or None if unknown."""
        return None if amount is None or not self.packets else amount / self.packets

    @property
    def busy_processors(self) -> float:
        """The average number of busy processors."""
        return self.busy_ns / self.elapsed_ns

    @property
    def packets_by_softirq(self) -> float | None:
        """The number of packets passed to the stack per run of NET_RX."""
        if self.stack_packets is None or not self.received_softirqs:
            return None
        return self.stack_packets / self.received_softirqs


def read_work(record: RunRecord) -> WorkRecord | None:
    """The unit under test's report, or None if there is none that this version understands."""
    return read_extension(record.extensions, TELEMETRY, WorkRecord)


def work_refused(record: RunRecord) -> str | None:
    """Why the requested report is missing, or None if it is there or was not requested."""
    refusal = read_extension(record.extensions, TELEMETRY, WorkRefused)
    return None if refusal is None else " ".join(refusal.refused.message.split())


def processor_time(record: RunRecord) -> ProcessorTime | None:
    """The processor time of a run, or None if its telemetry is unknown."""
    work = read_work(record)
    if work is None or not work.processors:
        return None
    second = record.background.streams if record.background is not None else ()
    did = work.processors
    return ProcessorTime(
        packets=forwarded((*record.streams, *second)),
        processors=len(did),
        elapsed_ns=work.elapsed_ns,
        busy_ns=sum(map(busy_ns, did)),
        user_ns=sum(each.user_ns for each in did),
        guest_ns=sum(each.guest_ns for each in did),
        system_ns=sum(each.system_ns for each in did),
        interrupt_ns=sum(each.interrupt_ns for each in did),
        softirq_ns=sum(each.softirq_ns for each in did),
        steal_ns=sum(each.steal_ns for each in did),
        busiest=_busiest(did),
        interrupts=sum(count for each in work.interrupts for _, count in each.by_processor) + work.unlisted_interrupts,
        received_softirqs=_known(did, lambda each: each.received_softirqs),
        stack_packets=_known(did, lambda each: each.stack_packets),
        backlog_dropped_packets=_known(did, lambda each: each.backlog_dropped_packets),
        squeezed=_known(did, lambda each: each.squeezed),
        nodes=_find_machine_nodes(record, work.node),
    )


def busy_ns(did: ProcessorRecord) -> int:
    """Time except idle and steal."""
    return did.user_ns + did.system_ns + did.interrupt_ns + did.softirq_ns


def busy_ratio(did: ProcessorRecord) -> float:
    """The busy share of the available time, without steal; 0 for a processor that was offline."""
    whole = busy_ns(did) + did.idle_ns + did.steal_ns
    return busy_ns(did) / whole if whole else 0.0


def forwarded(streams: Iterable[StreamRecord]) -> int | None:
    """Packets of all these streams that left the unit under test, or None unless known for each."""
    found = [stream.counters.get("uut_out_tx_packets") for stream in streams]
    known = [each for each in found if each is not None]
    return sum(known) if found and len(known) == len(found) else None


def _busiest(did: Iterable[ProcessorRecord]) -> tuple[int, float] | None:
    ratios = [(busy_ratio(each), -each.number) for each in did]
    ratio, number = max(ratios, default=(0.0, 0))
    return (-number, ratio) if ratio else None


def _known(did: Iterable[ProcessorRecord], of: Callable[[ProcessorRecord], int | None]) -> int | None:
    """A sum over processors, or None unless the kernel reports it for each."""
    found = [of(each) for each in did]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def _find_machine_nodes(record: RunRecord, node: str) -> tuple[str, ...]:
    nodes = record.environment.get("nodes") or {}
    boots = {name: _boot(said) for name, said in nodes.items()} if isinstance(nodes, dict) else {}
    own = boots.get(node)
    return (node,) if own is None else tuple(name for name, boot in boots.items() if boot == own)


def _boot(said: object) -> object:
    facts = said.get("facts") if isinstance(said, dict) else None
    return facts.get("boot_id") if isinstance(facts, dict) else None


# -- context switches --------------------------------------------------------------------------------------------------
# The number of a kernel's context switches, from /proc/stat.

_SWITCHES = re.compile(r"^ctxt (\d{1,18})$", re.MULTILINE)


def context_switches(stat: str) -> int | None:
    """The total on all processors since boot, or None if it is missing."""
    found = _SWITCHES.search(stat)
    return None if found is None else int(found[1])


def count_switches(before: str, after: str) -> int | None:
    """The number between two readings, or None if one lacks it or they are not consecutive."""
    first, last = context_switches(before), context_switches(after)
    return None if first is None or last is None or last < first else last - first


# -- processor description ---------------------------------------------------------------------------------------------
# Describes the unit under test's processor activity during traffic: labelled sentences, one row per processor.

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
