"""What a forwarded packet cost the unit under test's processors, from what they did while traffic ran. Pure.

Everything that ran there is counted, whatever it ran for: on a machine that hosts several nodes theirs, too. Time that
a hypervisor below took away (steal) is no work and is told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labconsole.model.record.extension import read_extension
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.model.record.telemetry import EXTENSION, ProcessorRecord, WorkRecord, WorkRefused


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """``packets``: that left the unit under test by its ports; None: not known, and then nothing is told by packet.

    Times of all processors together. ``busy_ns``: all but idle and steal. ``busiest``: its number and share of the time
    that it was busy. Counts are None where the kernel does not say.
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
    """Those that run on the same machine, the unit under test among them."""

    def per_packet(self, amount: float | None) -> float | None:
        """An amount of one packet; None: not known."""
        return None if amount is None or not self.packets else amount / self.packets

    @property
    def busy_processors(self) -> float:
        """How many processors were busy, on the average."""
        return self.busy_ns / self.elapsed_ns

    @property
    def packets_by_softirq(self) -> float | None:
        """How often a packet was handed to the stack, each time NET_RX ran."""
        if self.stack_packets is None or not self.received_softirqs:
            return None
        return self.stack_packets / self.received_softirqs


def read_work(record: RunRecord) -> WorkRecord | None:
    """What the unit under test told; None: nothing that this version understands."""
    return read_extension(record.extensions, EXTENSION, WorkRecord)


def work_refused(record: RunRecord) -> str | None:
    """Why it told nothing though it was asked; None: it told, or was not asked."""
    told = read_extension(record.extensions, EXTENSION, WorkRefused)
    return None if told is None else " ".join(told.refused.message.split())


def processor_time(record: RunRecord) -> ProcessorTime | None:
    """None of a run whose telemetry is not known."""
    told = read_work(record)
    if told is None or not told.processors:
        return None
    second = record.background.streams if record.background is not None else ()
    did = told.processors
    return ProcessorTime(
        packets=forwarded((*record.streams, *second)),
        processors=len(did),
        elapsed_ns=told.elapsed_ns,
        busy_ns=sum(map(busy_ns, did)),
        user_ns=sum(each.user_ns for each in did),
        guest_ns=sum(each.guest_ns for each in did),
        system_ns=sum(each.system_ns for each in did),
        interrupt_ns=sum(each.interrupt_ns for each in did),
        softirq_ns=sum(each.softirq_ns for each in did),
        steal_ns=sum(each.steal_ns for each in did),
        busiest=_busiest(did),
        interrupts=sum(count for each in told.interrupts for _, count in each.by_processor) + told.unlisted_interrupts,
        received_softirqs=_known(did, lambda each: each.received_softirqs),
        stack_packets=_known(did, lambda each: each.stack_packets),
        backlog_dropped_packets=_known(did, lambda each: each.backlog_dropped_packets),
        squeezed=_known(did, lambda each: each.squeezed),
        nodes=_find_machine_nodes(record, told.node),
    )


def busy_ns(did: ProcessorRecord) -> int:
    """All but idle and steal."""
    return did.user_ns + did.system_ns + did.interrupt_ns + did.softirq_ns


def busy_ratio(did: ProcessorRecord) -> float:
    """Of the time that it had: without idle and steal; 0 of one that was offline."""
    whole = busy_ns(did) + did.idle_ns + did.steal_ns
    return busy_ns(did) / whole if whole else 0.0


def forwarded(streams: Iterable[StreamRecord]) -> int | None:
    """Packets that left the unit under test, of all these streams; None unless it is known of each."""
    found = [stream.counters.get("uut_out_tx_packets") for stream in streams]
    known = [each for each in found if each is not None]
    return sum(known) if found and len(known) == len(found) else None


def _busiest(did: Iterable[ProcessorRecord]) -> tuple[int, float] | None:
    ratios = [(busy_ratio(each), -each.number) for each in did]
    ratio, number = max(ratios, default=(0.0, 0))
    return (-number, ratio) if ratio else None


def _known(did: Iterable[ProcessorRecord], of: Callable[[ProcessorRecord], int | None]) -> int | None:
    """A sum, of a kernel that says it of every processor."""
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
