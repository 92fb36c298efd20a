"""One trial's observations, before anything is judged or derived, and the path of a stream through them."""

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

# -- observations ------------------------------------------------------------------------------------------------------
# One trial's observations, before anything is judged or derived: raw counts with their node and clock.


@dataclass(slots=True)
class KernelWitness:
    """A kernel's report on the packets that it dropped. The first field is auto or on.

    ``budget_ns``: of a processor's time. ``refused``: a code and a sentence on why there is no report. ``host``: the
    name of the unit under test's host, if the kernel is the host's. ``carries``: the host's interfaces by which each
    NIC of the unit under test is reached.
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
    """This node's processor activity during traffic. ``refused``: a code and a sentence on why there is no report."""

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
    """The sink kernel's counts of one stream's packets.

    ``clock_moved_ns``: by how much its wall clock was set meanwhile. ``memory_bytes``: the node's memory for counting
    all streams. ``by``: the program that counted. ``xdp``: its changes at the port.
    """

    counted: StreamTimes
    clock_moved_ns: int
    memory_bytes: int | None = None
    by: str = SOCKET_FILTER
    xdp: XdpChanges | None = None


@dataclass(frozen=True, slots=True)
class UntimedStream:
    """Why packets that were to be timed were not, as a code and a sentence, and their number if it is known."""

    code: str
    message: str
    counted_packets: int | None = None


@dataclass(slots=True)
class NicClockObservation:
    """The clock of the NIC that stamped a capture, before and after. ``refused``: why it was not read."""

    readings: list[NicClock] = field(default_factory=list)
    refused: str | None = None


@dataclass(slots=True)
class StreamObservations:
    """One stream: the reports of its generator, its capture and the counters on its path; None for a missing one."""

    stream: Stream
    path: StreamPath
    prepared: PreparedStream | None = None
    generated: SentStream | None = None
    capture: CaptureResult | None = None
    sink_samples: Sequence[tuple[int, int]] = ()
    """(monotonic ns, received packets) of the sink's NIC while the trial ran."""

    nic_clock: NicClockObservation | None = None
    """None if the kernel stamped the captured packets."""

    times: TimedStream | UntimedStream | None = None
    """None if its packets were not to be timed."""


@dataclass(slots=True)
class NodeReading:
    """One node's report beyond its counters, at the begin or the end of a trial.

    A field is None if the node was not queried, or could not report it.
    """

    drops: DropCounters | None = None
    settings: NodeSettings | None = None
    surroundings: NodeSurroundings | None = None

    def port(self, interface: str) -> InterfaceSettings | None:
        """The settings of one interface."""
        return None if self.settings is None else self.settings.interfaces.get(interface)


@dataclass(frozen=True, slots=True)
class TappedFrames:
    """Frames of a port that are not the streams', by protocol. ``every``: False if only control traffic was watched."""

    every: bool
    received: dict[str, int]
    sent: dict[str, int]


@dataclass(slots=True)
class TrialObservations:
    """All observations of one trial. ``start_skew_s`` is between first and last source, clocks reconciled."""

    run_id: str
    started_at: str
    streams: list[StreamObservations] = field(default_factory=list)
    second_streams: list[StreamObservations] = field(default_factory=list)
    """The second guest's own streams."""

    second_request: DesignPoint | None = None
    """The traffic through the second guest, or None."""

    before: dict[str, Snapshot] = field(default_factory=dict)
    after: dict[str, Snapshot] = field(default_factory=dict)
    begin: dict[str, NodeReading] = field(default_factory=dict)
    end: dict[str, NodeReading] = field(default_factory=dict)
    attestation: Attestation = field(default_factory=dict)
    attested_after: Attestation | None = None
    """The platform's attestation after the traffic, or None if it was not requested."""

    background: Background | None = None

    console_clock_moved_ns: int | None = None
    """The change of this machine's wall clock between begin and end."""

    console_cpu_s: float | None = None
    console_boot_id: str | None = None
    """This process's processor time meanwhile, and the machine it runs on."""

    foreign: dict[tuple[str, str], TappedFrames] = field(default_factory=dict)
    """(node, interface) to the foreign frames there; ports that were not watched are absent."""

    kernel: KernelWitness | None = None
    """For the unit under test, or None if drop reasons were not requested."""

    host_kernel: KernelWitness | None = None
    """For the host of a unit under test that is a virtual machine."""

    work: WorkWitness | None = None
    """None if processor activity was not requested."""

    start_skew_s: float | None = None
    drained: bool | None = None
    samples: int = 0
    missed_samples: int = 0
    aborted: bool = False
    failure: Failure | None = None
    doubts: list[Reason] = field(default_factory=list)
    """Reasons that participants of the trial found themselves. They enter the verdict unchanged."""

    notes: list[Figures] = field(default_factory=list)
    timeline: dict[str, float] = field(default_factory=dict)

    @property
    def flows(self) -> list[StreamObservations]:
        """Every stream, through either guest."""
        return [*self.streams, *self.second_streams]

    def settings(self) -> dict[str, NodeSettings | None]:
        """The nodes' settings at the begin, by node."""
        return {name: reading.settings for name, reading in self.begin.items()}

    def readings(self, node: str) -> tuple[NodeReading, NodeReading]:
        """A node's reports at the begin and at the end."""
        return self.begin.get(node, NodeReading()), self.end.get(node, NodeReading())


# -- stream path -------------------------------------------------------------------------------------------------------
# The path of a stream: its counting points, and the NICs that it uses. Pure.


@dataclass(frozen=True, slots=True)
class CountingPoint:
    """The counter of a hop: ``statistic`` of an interface, in ``namespace`` of ``node``."""

    hop: str
    node: str
    namespace: str
    interface: str
    statistic: str

    @property
    def label(self) -> str:
        """The interface, with its namespace unless that is the node's own."""
        return f"{self.namespace}/{self.interface}" if self.namespace else self.interface


def counting_points(raw: StreamObservations, uut: str) -> list[CountingPoint]:
    """The stream's path from its source's NIC to its sink's."""
    stream = raw.stream
    return [
        CountingPoint("source_nic", stream.source.node, "", stream.source.interface, "tx_packets"),
        *(CountingPoint(p.hop, uut, p.namespace, p.interface, p.statistic) for p in raw.path.points),
        CountingPoint("sink_nic", stream.sink.node, "", stream.sink.interface, "rx_packets"),
    ]


def data_ports(raw: StreamObservations, uut: str) -> list[tuple[str, str]]:
    """(node, interface) of the NICs that the stream uses, in the order in which it passes them."""
    stream = raw.stream
    ends = [(uut, stream.uut_in), (uut, stream.uut_out)] if raw.path.points else []
    return [
        (stream.source.node, stream.source.interface),
        *ends,
        (stream.sink.node, stream.sink.interface),
    ]
