"""The record of one trial of guests that forward, format 1: what was sent to each router, what came into it and out of
it, and what of it came to the sink.

Rates are of packets. docs/route.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from labconsole.model.record.crew_trial import Bytes, CrewTrialRef, Guests, Ns, Seconds
from labconsole.model.record.environment import Attestation, Environment
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.run import Figures, InForce, SetUp, Verdict
from labconsole.model.strict_model import StrictModel

ROUTE_FORMAT = 1

Packets = Annotated[int, Field(ge=0, lt=2**63)]
Rate = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class RouteRequested(StrictModel):
    """The design point. ``target_pps``: to all routers together, None: as many as the source can; ``frame_bytes`` with
    the frame check sequence.
    """

    platform: str
    guests: Guests
    cpu: Literal["same", "own", "any"]
    routes: Annotated[int, Field(ge=0)]
    destinations: Annotated[int, Field(ge=1)]
    filters: Annotated[int, Field(ge=0)]
    target_pps: int | None
    frame_bytes: int
    duration_s: float
    bin_s: float
    memory_mib: int | None = None


class RouterRecord(StrictModel):
    """One router, and the stream that is sent to it. None: not known.

    ``sent_packets`` by the generator; ``to_packets`` and ``from_packets``: what the UUT's interfaces to it handed over
    and got back; ``packets``, ``bytes``: what came from it to the sink. ``sent_pps``: offered, ``forwarded_pps``: at
    the sink, over the bins in which all routers forward. ``bin_packets``: of every bin from the first packet of any
    router on, up to the last that is not empty; ``outside_packets``: in none of the bins. ``routes``, ``filters``: what
    it had when it was asked before the trial; ``routes_after`` after it. ``load_s``: what giving them to it took, None:
    it had them already.
    """

    guest: str
    inbound_mac: str
    mac: str
    udp_source_port: int
    inbound_interface: str | None
    host_interface: str | None
    generator: str | None
    stopped_by: str | None
    error: str | None
    sent_packets: Packets | None
    sent_for_s: Seconds | None
    to_packets: Packets | None
    from_packets: Packets | None
    packets: Packets
    bytes: Bytes
    first_at_ns: Ns | None
    last_at_ns: Ns | None
    bin_packets: tuple[Packets, ...]
    outside_packets: Packets
    sent_pps: Rate | None
    forwarded_pps: Rate | None
    routes: Packets | None
    routes_after: Packets | None
    filters: Packets | None
    filters_after: Packets | None = None
    load_s: Seconds | None
    said: str = ""


class RouteSinkRecord(StrictModel):
    """What the sink's capture and its NIC counted: packets of all kinds. ``other_packets``: of no flow of ours,
    ``control_packets`` of them ARP, IPv6 discovery, LLDP or spanning tree (None: of a program that did not tell);
    ``foreign_packets``: of flows that are no router's.
    """

    node: str
    interface: str
    mac: str
    captured_packets: Packets
    dropped_packets: Packets | None
    nic_packets: Packets | None
    other_packets: Packets
    foreign_packets: Packets
    control_packets: Packets | None = None


class RouteRecord(ExperimentRecord):
    """One trial. ``status`` failed: nothing can be concluded from it, and ``failure`` says why.

    ``origin_ns``: when the first packet of any router came to the sink, by its wall clock: there bin 0 begins.
    ``shared_from``, ``shared_to``: the bins in which all routers forward, the second not included. ``sum_pps``: what
    came of all of them in these bins, ``jain``: how equal their shares are there. ``in_packets``: what the UUT's NIC
    got from the source. ``switches_per_s``, ``busy_ratio``: context switches of the UUT and the share of its processors
    that was used, between the counters before and after. ``set_up`` None: its routers did not come, or no attempt came
    to anything; then nothing was seen, and the verdict says why.
    """

    route_id: str
    format: int = ROUTE_FORMAT
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: CrewTrialRef
    requested: RouteRequested
    set_up: SetUp | None
    link_speed_bps: int
    source: str
    origin_ns: Ns | None
    in_packets: Packets | None
    routers: tuple[RouterRecord, ...]
    sink: RouteSinkRecord | None
    shared_from: int | None
    shared_to: int | None
    sum_pps: Rate | None
    jain: Ratio | None
    start_skew_s: Seconds | None
    switches_per_s: Rate | None
    busy_ratio: Ratio | None
    swapped_pages: int | None
    in_force: InForce | None = None
    verdict: Verdict
    attestation: Attestation
    influences: tuple[Figures, ...] = ()
    environment: Environment
    status: Literal["done", "failed"]
    failure: str | None = None

    @property
    def timekeeper(self) -> RouteSinkRecord | None:
        """The node outside: the sink."""
        return self.sink
