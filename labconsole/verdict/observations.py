"""What one trial saw, before anything is judged or derived: raw counts with the node and the clock they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.contracts.driver import Attestation, StreamPath
from labconsole.measure.counts import CounterSample
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Stream
from labconsole.model.record.run import Background, Failure, Figures, Reason
from labconsole.wire.capture import CaptureResult
from labconsole.wire.clocks import NicClock
from labconsole.wire.counters import InterfaceCounters
from labconsole.wire.drops import DropCounters
from labconsole.wire.generator import PreparedStream, SentStream
from labconsole.wire.host_activity import NodeSurroundings
from labconsole.wire.kernel_drops import KernelDrops, KernelDropsStarted
from labconsole.wire.packet_times import SOCKET_FILTER, StreamTimes, XdpChanges
from labconsole.wire.processor_work import NodeWork
from labconsole.wire.settings import InterfaceSettings, NodeSettings


@dataclass(slots=True)
class KernelWitness:
    """What a kernel said of the packets it dropped. ``asked``: auto or on; ``budget_ns`` of a processor's time.
    ``refused``: a word and a sentence why it does not say. ``host``: the name of the unit under test's host, if it is
    that one's, with ``carries``: the host's interfaces by which each NIC of the unit under test is reached.
    """

    asked: str
    budget_ns: int | None
    started: KernelDropsStarted | None = None
    refused: tuple[str, str] | None = None
    drops: KernelDrops | None = None
    host: str | None = None
    carries: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(slots=True)
class WorkWitness:
    """What this node's processors did while traffic ran. ``refused``: a word and a sentence why it does not say."""

    node: str
    done: NodeWork | None = None
    refused: tuple[str, str] | None = None


Snapshot = dict[tuple[str, str], CounterSample]
"""(namespace, interface) to its counters, of one node at one instant."""


def parse_snapshot(reply: InterfaceCounters) -> Snapshot:
    """A node's counters as a snapshot."""
    return {
        (namespace, name): CounterSample(reply.monotonic_ns, tuple(values))
        for namespace, rows in reply.namespaces.items()
        for _index, name, values in rows
    }


@dataclass(frozen=True, slots=True)
class TimedStream:
    """What the sink's kernel counted of one stream's packets, by how much its wall clock was set meanwhile, and what
    counting all streams took of the node's memory. ``by``: what counted them; ``xdp``: what this changed at the port.
    """

    counted: StreamTimes
    clock_moved_ns: int
    memory_bytes: int | None = None
    by: str = SOCKET_FILTER
    xdp: XdpChanges | None = None


@dataclass(frozen=True, slots=True)
class UntimedStream:
    """A word and a sentence why packets that were to be timed were not; how many there were, if they were counted."""

    code: str
    message: str
    counted_packets: int | None = None


@dataclass(slots=True)
class NicClockObservation:
    """The clock of the NIC that stamped a capture, before and after; ``refused``: why it was not read."""

    readings: list[NicClock] = field(default_factory=list)
    refused: str | None = None


@dataclass(slots=True)
class StreamObservations:
    """One stream: what its generator, its capture and the counters on its way said. None: it did not say."""

    stream: Stream
    path: StreamPath
    prepared: PreparedStream | None = None
    generated: SentStream | None = None
    capture: CaptureResult | None = None
    sink_samples: Sequence[tuple[int, int]] = ()
    """(monotonic ns, received packets) of the sink's NIC while the trial ran."""

    nic_clock: NicClockObservation | None = None
    """None: the kernel stamped what was captured."""

    times: TimedStream | UntimedStream | None = None
    """None: its packets were not to be timed."""


@dataclass(slots=True)
class NodeReading:
    """What one node said beyond its counters, at the begin or the end of a trial.

    None: it was not asked, or could not say.
    """

    drops: DropCounters | None = None
    settings: NodeSettings | None = None
    surroundings: NodeSurroundings | None = None

    def port(self, interface: str) -> InterfaceSettings | None:
        """The settings of one interface."""
        return None if self.settings is None else self.settings.interfaces.get(interface)


@dataclass(frozen=True, slots=True)
class TappedFrames:
    """Frames of a port that are not the streams', by protocol. ``every``: else control traffic only was watched."""

    every: bool
    received: dict[str, int]
    sent: dict[str, int]


@dataclass(slots=True)
class TrialObservations:
    """Everything one trial observed. ``start_skew_s`` is between first and last source, clocks reconciled."""

    run_id: str
    started_at: str
    streams: list[StreamObservations] = field(default_factory=list)
    second_streams: list[StreamObservations] = field(default_factory=list)
    """The second guest's own streams."""

    second_request: DesignPoint | None = None
    """What was sent through the second guest; None: nothing."""

    before: dict[str, Snapshot] = field(default_factory=dict)
    after: dict[str, Snapshot] = field(default_factory=dict)
    begin: dict[str, NodeReading] = field(default_factory=dict)
    end: dict[str, NodeReading] = field(default_factory=dict)
    attestation: Attestation = field(default_factory=dict)
    attested_after: Attestation | None = None
    """What the platform attested after the traffic; None when it was not asked."""

    background: Background | None = None

    console_clock_moved_ns: int | None = None
    """By how much this machine's wall clock was set between begin and end."""

    console_cpu_s: float | None = None
    console_boot_id: str | None = None
    """What this process used of the processors meanwhile, and on which machine."""

    foreign: dict[tuple[str, str], TappedFrames] = field(default_factory=dict)
    """(node, interface) to what passed there that is not the streams'; a port that was not watched is not there."""

    kernel: KernelWitness | None = None
    """Of the unit under test. None: it was not asked why it drops packets."""

    host_kernel: KernelWitness | None = None
    """Of the host of a unit under test that is a virtual machine."""

    work: WorkWitness | None = None
    """None: it was not asked what its processors did."""

    start_skew_s: float | None = None
    drained: bool | None = None
    samples: int = 0
    missed_samples: int = 0
    aborted: bool = False
    failure: Failure | None = None
    doubts: list[Reason] = field(default_factory=list)
    """Reasons that whoever takes part in a trial found by itself; they enter the verdict as they are."""

    notes: list[Figures] = field(default_factory=list)
    timeline: dict[str, float] = field(default_factory=dict)

    @property
    def flows(self) -> list[StreamObservations]:
        """Every stream, whichever guest it passed."""
        return [*self.streams, *self.second_streams]

    def settings(self) -> dict[str, NodeSettings | None]:
        """How the nodes were set at the begin, by name."""
        return {name: reading.settings for name, reading in self.begin.items()}

    def readings(self, node: str) -> tuple[NodeReading, NodeReading]:
        """What a node said at the begin and at the end."""
        return self.begin.get(node, NodeReading()), self.end.get(node, NodeReading())
