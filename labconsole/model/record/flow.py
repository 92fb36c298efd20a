"""The record of one trial of flows out of guests or into them, format 1: what each flow brought to the sink over
time, what each guest handed over or read, and what surrounded them.

Rates are of payload unless their name says otherwise. docs/flow.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from labconsole.model.background_disk_job import DiskBeside
from labconsole.model.record.crew_trial import Bytes, CrewTrialRef, Guests, Ns, ProgramRecord, Seconds
from labconsole.model.record.environment import Attestation, Environment
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.run import Figures, InForce, SetUp, Verdict
from labconsole.model.strict_model import StrictModel
from labconsole.model.weights import Weights, WeightSteps
from labconsole.packets.flows import MAX_BINS

FLOW_FORMAT = 1

Packets = Annotated[int, Field(ge=0, lt=2**63)]
Rate = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class FlowRequested(StrictModel):
    """The design point. ``offered_bps``: payload of each flow; ``limits_bps``: of the guests in turn, in whole frames
    without check sequence, empty: none; ``greedy``: flows of the first guest. ``pattern`` ring: each sends to the next
    over TCP, as much as it can; in: the source sends to all of them.
    """

    platform: str
    guests: Guests
    cpu: Literal["same", "own", "any"]
    offered_bps: int
    limits_bps: tuple[int, ...]
    greedy: Annotated[int, Field(ge=1)]
    second_after_s: float
    payload_bytes: Annotated[int, Field(ge=1, le=65_535)]
    duration_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    bin_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    memory_mib: int | None = None
    pattern: Literal["out", "in", "ring"] = "out"
    weights: WeightSteps | None = None
    disk: DiskBeside | None = None

    @model_validator(mode="after")
    def _few_bins(self) -> FlowRequested:
        """Refuse more bins than are ever counted: a report has a value for each."""
        if self.duration_s / self.bin_s > MAX_BINS:
            raise ValueError(f"duration_s and bin_s make more than {MAX_BINS} bins")
        return self

    @property
    def senders(self) -> int:
        """How many of the guests send."""
        return self.guests - (self.disk is not None)

    def limit_of(self, guest: int) -> int | None:
        """What a guest, from 0, may send in bit/s; None: as much as it can."""
        return self.limits_bps[guest % len(self.limits_bps)] if self.limits_bps else None

    def flows_of(self, guest: int) -> int:
        """How many flows a guest has, from 0."""
        return self.greedy if guest == 0 else 1


class SinkFlowRecord(StrictModel):
    """One flow at the sink, by the sink's capture: of a guest, and a port of it.

    ``bin_packets``: of every bin from the first packet of any flow on, up to the last that is not empty.
    ``outside_packets``: in none of the bins.
    """

    guest: str
    flow: int
    udp_source_port: int
    packets: Packets
    bytes: Bytes
    first_at_ns: Ns | None
    last_at_ns: Ns | None
    bin_packets: tuple[Packets, ...]
    outside_packets: Packets = 0


class LimiterRecord(StrictModel):
    """What held a guest to its limit, as its own kernel has it. None: not read back."""

    kind: str
    interface: str
    rate_bps: int | None
    burst_bytes: int | None
    passed_packets: Packets | None
    dropped_packets: Packets | None


class SenderRecord(StrictModel):
    """One guest. ``host_packets``: what came from it to its interface on the UUT, the second witness, with whatever
    else it sends; None: it has none there. ``offered_bps``: payload of so many, between the first and the last of its
    packets at the sink, which a full link's queue stretches; ``payload_bps``: what its flows brought there in that
    time; ``shared_bps``: the mean over the bins in which all guests send.
    """

    guest: str
    address: str
    mac: str
    host_interface: str | None
    host_packets: Packets | None
    offered_bps: Rate | None
    limiter: LimiterRecord | None
    exit_status: int | None
    output: str
    packets: Packets
    lost_packets: int | None
    payload_bps: Rate | None
    shared_bps: Rate | None


class RingGuestRecord(StrictModel):
    """One guest of a ring, which sends to the guest ``to``. Bytes are whole frames without check sequence, as the UUT's
    interface to the guest counts them in the window: with answers to the guest before it. None: not counted.
    ``said_bps``: payload by iperf's word and the guest's own clock, over all that it sent.
    """

    guest: str
    to: str
    address: str
    mac: str
    host_interface: str
    out_bytes: int | None
    in_bytes: int | None
    out_bps: float | None
    said_bps: float | None
    limiter: LimiterRecord | None
    exit_status: int | None
    output: str


class HopLoss(StrictModel):
    """Packets that came to a place on the way into a guest, and not to the next; fewer than none: more came there."""

    hop: str
    packets: int


class ReceiverRecord(StrictModel):
    """One guest that is sent to. Counts are those of the window; None: not known.

    ``sent_packets``: by the source's word, in ``sent_s`` from ``started_ns`` on by its monotonic clock;
    ``offered_bps``: payload of so many in that time. ``handed_packets``: those that the UUT's interface to the guest
    gave it, ``dropped_packets`` those that it dropped. The others are the guest's: ``nic_packets`` in at its NIC,
    ``ip_packets`` delivered by its IP layer, ``udp_packets`` read by the reader, ``socket_full_packets`` with no room
    in the reader's socket, ``no_reader_packets`` to a port that nobody had, ``error_packets`` otherwise refused.
    ``reader``: whether the reader's socket was there at both ends.

    ``losses``: by place, in the order of the way; ``unplaced_packets``: what of ``lost_packets`` is at none of them.
    ``payload_bps``: what was read in the time that the source sent.
    """

    guest: str
    address: str
    mac: str
    host_interface: str | None
    sent_packets: Packets | None
    started_ns: Ns | None
    sent_s: Rate | None
    stopped_by: str
    errors: Packets | None
    output: str
    offered_bps: Rate | None
    handed_packets: Packets | None
    dropped_packets: Packets | None
    nic_packets: Packets | None
    ip_packets: Packets | None
    udp_packets: Packets | None
    socket_full_packets: Packets | None
    no_reader_packets: Packets | None
    error_packets: int | None
    reader: bool | None
    lost_packets: int | None
    losses: tuple[HopLoss, ...]
    unplaced_packets: int | None
    payload_bps: Rate | None


class SourceRecord(StrictModel):
    """Who sends to guests. ``nic_packets``: out at its NIC, ``uut_packets``: in at the UUT's, of all kinds."""

    node: str
    interface: str
    mac: str
    address: str
    generator: str
    nic_packets: Packets | None
    uut_interface: str
    uut_packets: Packets | None


class SinkRecord(StrictModel):
    """What the sink's capture and its NIC counted: packets of all kinds. ``other_packets``: of no flow of ours,
    ``control_packets`` of them ARP, IPv6 discovery, LLDP or spanning tree (None: of a program that did not tell);
    ``foreign_packets``: of flows that are nobody's of the crew.
    """

    node: str
    interface: str
    address: str
    mac: str
    captured_packets: Packets
    dropped_packets: Packets | None
    nic_packets: Packets | None
    other_packets: Packets
    foreign_packets: Packets
    fragments: Packets
    control_packets: Packets | None = None


class WeightStepRecord(StrictModel):
    """Weights and what became of them. Times are counted from when the queue was in use, by the UUT's monotonic clock:
    when they were due, and when they took effect (None: they did not). ``rates_bps``: of each guest's class, as read
    back then, ``kept_bps`` just before the next change, or at the end. ``first_bin``, ``stop_bin``: the bins that lie
    wholly in the step without its first 0.2 s, the second not included; in them ``share_ratios``, ``error_ratio``: the
    mean over guests of how far each is from its weight's (None where limits hold them, too), and ``filled_ratio``:
    what all had of what the queue lets through.
    """

    weights: Weights
    due_s: Seconds
    taken_s: Seconds | None
    rates_bps: tuple[int | None, ...]
    kept_bps: tuple[int | None, ...] = ()
    complaint: str = ""
    first_bin: int | None = None
    stop_bin: int | None = None
    share_ratios: tuple[Ratio, ...] = ()
    error_ratio: Ratio | None = None
    filled_ratio: Ratio | None = None


class WeightsRecord(StrictModel):
    """The queue on the UUT that the guests shared, of ``link_bps`` in whole frames. ``begun_ns``: when it was first
    seen to be in use, and ``looked_ns`` when it was last seen not to be, by the UUT's monotonic clock.
    """

    interface: str
    link_bps: int
    looked_ns: int | None
    begun_ns: int | None
    steps: tuple[WeightStepRecord, ...]
    mean_error_ratio: Ratio | None


class BackgroundDiskRecord(StrictModel):
    """The guest that worked on its disk, and sent nothing but its marks. ``start_ns``, ``end_ns``: when the last packet
    of its mark before and the first one of that after came to the sink, by its wall clock; None: none did.

    ``before_bins``, ``during_bins``: the bins in which all others send that lie wholly before and in it, the second not
    included; ``during_ratio``: what the others brought in it, of what they did before; ``recovered_s``: after it, until
    the first bin in which they bring 95 % of that again, None: none did.
    """

    guest: str
    address: str
    mac: str
    job: str
    size: int
    exit_status: int | None
    output: str
    mark_packets: Packets
    start_ns: Ns | None
    end_ns: Ns | None
    before_bins: tuple[int, int] | None = None
    during_bins: tuple[int, int] | None = None
    during_ratio: Ratio | None = None
    recovered_s: Seconds | None = None


class FlowRecord(ExperimentRecord):
    """One trial. ``status`` failed: nothing can be concluded from it, and ``failure`` says why.

    ``origin_ns``: when the first packet of a flow came to the sink, by its wall clock: there bin 0 begins.
    ``shared_from``, ``shared_to``: the bins in which all guests send all the time, the second not included.
    ``sum_bps`` of all guests in them, ``jain`` how equal their shares are there, ``line_ratio`` what the sum is of
    what the link can carry of such payload. Of a ring there is neither sink nor flow: ``ring`` has its guests,
    ``window_s`` how long was counted by the UUT's clock, ``sum_bps`` and ``jain`` are of the rates at their interfaces.
    Where guests receive, there is a ``source`` instead, ``receivers`` has the guests, ``sum_bps``, ``jain`` and
    ``line_ratio`` are of what they read.
    ``set_up`` None: its guests did not come, or no attempt came to anything; then nothing was seen, and the verdict
    says why. ``weights``: of guests that share the link by them; ``disk``: the last guest, where it works on its disk
    meanwhile.
    """

    flow_id: str
    format: int = FLOW_FORMAT
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: CrewTrialRef
    requested: FlowRequested
    set_up: SetUp | None
    link_speed_bps: int
    line_bps: Rate
    origin_ns: Ns | None
    flows: tuple[SinkFlowRecord, ...]
    senders: tuple[SenderRecord, ...]
    sink: SinkRecord | None
    ring: tuple[RingGuestRecord, ...] = ()
    window_s: Seconds | None = None
    receivers: tuple[ReceiverRecord, ...] = ()
    source: SourceRecord | None = None
    weights: WeightsRecord | None = None
    disk: BackgroundDiskRecord | None = None
    shared_from: int | None
    shared_to: int | None
    sum_bps: Rate | None
    jain: Ratio | None
    line_ratio: Ratio | None
    start_skew_s: Seconds | None
    swapped_pages: int | None
    program: ProgramRecord | None = None
    in_force: InForce | None = None
    verdict: Verdict
    attestation: Attestation
    influences: tuple[Figures, ...] = ()
    environment: Environment
    status: Literal["done", "failed"]
    failure: str | None = None

    @property
    def timekeeper(self) -> SinkRecord | None:
        """The node outside: the sink."""
        return self.sink
