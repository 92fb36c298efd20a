"""The processor time per forwarded packet at the unit under test, from processor activity during traffic. Pure.

Everything that ran there is counted, whatever its purpose, including other nodes on the same machine. Time that a
hypervisor below took away (steal) is not work and is separate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labconsole.model.record.extension import read_extension
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.model.record.telemetry import EXTENSION, ProcessorRecord, WorkRecord, WorkRefused


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
    return read_extension(record.extensions, EXTENSION, WorkRecord)


def work_refused(record: RunRecord) -> str | None:
    """Why the requested report is missing, or None if it is there or was not requested."""
    refusal = read_extension(record.extensions, EXTENSION, WorkRefused)
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
