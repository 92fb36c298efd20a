"""The record of one trial of guests that forward, format 1: the packets sent to each router, those it received and sent
on, and those of them that arrived at the sink.

Rates are of packets. docs/route.md explains every field.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labconsole.model.record.kind import (
    Bin,
    Bytes,
    Guests,
    GuestTrialRecord,
    Ns,
    Packets,
    Placing,
    Rate,
    Ratio,
    RecordKind,
    Seconds,
    columns_of,
)
from labconsole.model.strict_model import StrictModel


class RouteRequested(StrictModel):
    """The design point. ``target_pps``: to all routers together, or None for as many as the source can send;
    ``frame_bytes`` includes the frame check sequence.
    """

    platform: str
    guests: Guests
    cpu: Placing
    routes: Annotated[int, Field(ge=0)]
    destinations: Annotated[int, Field(ge=1)]
    filters: Annotated[int, Field(ge=0)]
    target_pps: int | None
    frame_bytes: int
    duration_s: float
    bin_s: float
    memory_mib: int | None = None


class RouterRecord(StrictModel):
    """One router, and the stream that is sent to it. None means not known.

    ``sent_packets``: by the generator; ``to_packets`` and ``from_packets``: those that the UUT's interfaces passed to
    it and received back; ``packets``, ``bytes``: its traffic at the sink. ``sent_pps``: offered, ``forwarded_pps``: at
    the sink, over the bins in which all routers forward. ``bin_packets``: packets of every bin from the first packet of
    any router to the last non-empty bin; ``outside_packets``: packets in none of the bins. ``routes``, ``filters``: its
    numbers before the trial; ``routes_after`` after it. ``load_s``: time to load them, or None if it had them already.
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
    """Packets of all kinds in the sink's capture and at its NIC. ``other_packets``: of no flow of ours,
    ``control_packets`` of them ARP, IPv6 discovery, LLDP or spanning tree (None: a program that did not report them);
    ``foreign_packets``: of flows that belong to no router.
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


class RouteRecord(GuestTrialRecord):
    """One trial. ``status`` failed: it supports no conclusion, and ``failure`` gives the reason.

    ``origin_ns``: arrival of the first packet of any router at the sink, by its wall clock: bin 0 begins there.
    ``shared_from``, ``shared_to``: the bins in which all routers forward, the second excluded. In these bins
    ``sum_pps`` is the sum of all routers and ``jain`` the fairness of their shares. ``in_packets``: packets that the
    UUT's NIC received from the source. ``switches_per_s``, ``busy_ratio``: context switches of the UUT and the used
    share of its processors, between the counters before and after. ``set_up``: None if its routers did not start or no
    attempt succeeded; then nothing was observed, and the verdict says why.
    """

    route_id: str
    requested: RouteRequested
    link_speed_bps: int
    source: str
    origin_ns: Ns | None
    in_packets: Packets | None
    routers: tuple[RouterRecord, ...]
    sink: RouteSinkRecord | None
    shared_from: Bin | None
    shared_to: Bin | None
    sum_pps: Rate | None
    jain: Ratio | None
    start_skew_s: Seconds | None
    switches_per_s: Rate | None
    busy_ratio: Ratio | None
    swapped_pages: int | None

    @property
    def timekeeper_node(self) -> str | None:
        """The sink's node."""
        return None if self.sink is None else self.sink.node


RECORD = RecordKind(
    name="route",
    plural="routes",
    record=RouteRecord,
    format=1,
    columns=columns_of,
    measured=lambda record: {"forwarded_pps": [router.forwarded_pps for router in record.routers]},
)
