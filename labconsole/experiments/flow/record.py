"""The record of one trial of flows from guests or to them, format 1: the packets of each flow at the sink over time,
each guest's own counts, and the circumstances.

Rates are of payload unless their name says otherwise. docs/flow.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from labconsole.model.flow_scenarios import DiskBeside, Weights, WeightSteps
from labconsole.model.record.kind import (
    Bin,
    Bytes,
    Guests,
    GuestTrialRecord,
    Ns,
    Packets,
    Placing,
    ProgramRecord,
    Rate,
    Ratio,
    RecordKind,
    Seconds,
    columns_of,
)
from labconsole.model.strict_model import StrictModel
from labconsole.packets.flows import MAX_BINS


class FlowRequested(StrictModel):
    """The design point. ``offered_bps``: payload of each flow; ``limits_bps``: of the guests in turn, in whole frames
    without check sequence, empty without limits; ``greedy``: number of flows of the first guest. ``pattern`` ring: each
    guest sends to the next over TCP at full speed; in: the source sends to all of them.
    """

    platform: str
    guests: Guests
    cpu: Placing
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
        """Number of guests that send."""
        return self.guests - (self.disk is not None)

    def limit_of(self, guest: int) -> int | None:
        """Rate limit of a guest, from 0, in bit/s, or None if it has none."""
        return self.limits_bps[guest % len(self.limits_bps)] if self.limits_bps else None

    def flows_of(self, guest: int) -> int:
        """Number of flows of a guest, from 0."""
        return self.greedy if guest == 0 else 1


class SinkFlowRecord(StrictModel):
    """One flow in the sink's capture, of a guest and one of its ports.

    ``bin_packets``: packets of every bin from the first packet of any flow to the last non-empty bin.
    ``outside_packets``: packets in none of the bins.
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
    """A guest's rate limiter, as its own kernel reports it. None means not read back."""

    kind: str
    interface: str
    rate_bps: int | None
    burst_bytes: int | None
    passed_packets: Packets | None
    dropped_packets: Packets | None


class SenderRecord(StrictModel):
    """One guest. ``host_packets``: everything it sent to its interface on the UUT, the second witness, or None if it
    has no interface there. ``offered_bps``: payload of that number of packets, between its first and last packet at the
    sink, which a full link's queue stretches; ``payload_bps``: payload of its flows at the sink in that time;
    ``shared_bps``: the mean over the bins in which all guests send.
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
    """One guest of a ring, which sends to the guest ``to``. Bytes are whole frames without check sequence, counted in
    the window by the UUT's interface to the guest; they include answers to the guest before it. None means not counted.
    ``said_bps``: payload by iperf's report and the guest's own clock, over all that it sent.
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
    """Packets that reached a hop on the path into a guest, but not the next; negative if more reached the next."""

    hop: str
    packets: int


class ReceiverRecord(StrictModel):
    """One receiving guest. Counts are those of the window; None means not known.

    ``sent_packets``: by the source's report, in ``sent_s`` from ``started_ns`` on by its monotonic clock;
    ``offered_bps``: payload of that number in that time. ``handed_packets``: those that the UUT's interface passed to
    the guest, ``dropped_packets`` those that it dropped. The guest counts the others: ``nic_packets`` received by its
    NIC, ``ip_packets`` delivered by its IP layer, ``udp_packets`` read by the reader, ``socket_full_packets`` dropped
    at the reader's full socket, ``no_reader_packets`` to an unused port, ``error_packets`` refused for other reasons.
    ``reader``: whether the reader's socket existed at both ends.

    ``losses``: by hop, in the order of the path; ``unplaced_packets``: those of ``lost_packets`` at none of them.
    ``payload_bps``: payload read during the source's sending time.
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
    """The sender to guests. ``nic_packets``: sent by its NIC, ``uut_packets``: received by the UUT's, of all kinds."""

    node: str
    interface: str
    mac: str
    address: str
    generator: str
    nic_packets: Packets | None
    uut_interface: str
    uut_packets: Packets | None


class SinkRecord(StrictModel):
    """Packets of all kinds in the sink's capture and at its NIC. ``other_packets``: of no flow of ours,
    ``control_packets`` of them ARP, IPv6 discovery, LLDP or spanning tree (None: a program that did not report them);
    ``foreign_packets``: of flows from outside the crew.
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
    """Weights and their effect. Times are counted from when the queue was in use, by the UUT's monotonic clock: when
    they were due, and when they took effect (None: never). ``rates_bps``: of each guest's class, as read back then,
    ``kept_bps`` just before the next change, or at the end. ``first_bin``, ``stop_bin``: the bins that lie wholly in
    the step without its first 0.2 s, the second excluded; in them ``share_ratios``, ``error_ratio``: the mean over
    guests of the deviation from the weight's share (None if rate limits also apply), and ``filled_ratio``: the sum
    relative to the queue's rate.
    """

    weights: Weights
    due_s: Seconds
    taken_s: Seconds | None
    rates_bps: tuple[int | None, ...]
    kept_bps: tuple[int | None, ...] = ()
    complaint: str = ""
    first_bin: Bin | None = None
    stop_bin: Bin | None = None
    share_ratios: tuple[Ratio, ...] = ()
    error_ratio: Ratio | None = None
    filled_ratio: Ratio | None = None


class WeightsRecord(StrictModel):
    """The queue on the UUT that the guests shared, of ``link_bps`` in whole frames. ``begun_ns``: when it was first
    seen in use, and ``looked_ns`` when it was last seen unused, by the UUT's monotonic clock.
    """

    interface: str
    link_bps: int
    looked_ns: int | None
    begun_ns: int | None
    steps: tuple[WeightStepRecord, ...]
    mean_error_ratio: Ratio | None


class BackgroundDiskRecord(StrictModel):
    """The guest that worked on its disk, and sent nothing but its marks. ``start_ns``, ``end_ns``: arrival at the sink
    of the last packet of its mark before and the first one of that after, by its wall clock; None if none arrived.

    ``before_bins``, ``during_bins``: the bins in which all others send that lie wholly before and in it, the second
    excluded; ``during_ratio``: the others' rate in it, relative to before; ``recovered_s``: time after it until the
    first bin in which they reach 95 % of that again, or None if they do not.
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


class FlowRecord(GuestTrialRecord):
    """One trial. ``status`` failed: it supports no conclusion, and ``failure`` gives the reason.

    ``origin_ns``: arrival of the first packet of any flow at the sink, by its wall clock: bin 0 begins there.
    ``shared_from``, ``shared_to``: the bins in which all guests send all the time, the second excluded. In them
    ``sum_bps`` is the sum of all guests, ``jain`` the fairness of their shares, ``line_ratio`` the sum relative to the
    link's capacity for such payload. A ring has neither sink nor flow: ``ring`` has its guests, ``window_s`` the
    counting time by the UUT's clock, ``sum_bps`` and ``jain`` are of the rates at their interfaces. If guests receive,
    there is a ``source`` instead, ``receivers`` has the guests, and ``sum_bps``, ``jain`` and ``line_ratio`` are of the
    payload they read. ``set_up``: None if its guests did not start or no attempt succeeded; then nothing was observed,
    and the verdict says why. ``weights``: for guests that share the link by weight; ``disk``: the last guest, if it
    works on its disk meanwhile.
    """

    flow_id: str
    requested: FlowRequested
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
    shared_from: Bin | None
    shared_to: Bin | None
    sum_bps: Rate | None
    jain: Ratio | None
    line_ratio: Ratio | None
    start_skew_s: Seconds | None
    swapped_pages: int | None
    program: ProgramRecord | None = None

    @property
    def timekeeper_node(self) -> str | None:
        """The sink's node."""
        return None if self.sink is None else self.sink.node


RECORD = RecordKind(
    name="flow",
    plural="flows",
    record=FlowRecord,
    format=1,
    columns=columns_of,
    measured=lambda record: {
        "sent_payload_bps": [each.payload_bps for each in record.senders],
        "read_payload_bps": [each.payload_bps for each in record.receivers],
        "ring_out_bps": [each.out_bps for each in record.ring],
    },
)
