"""Observations of one window of forwarding, and the parts of a record that follow from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.experiments.route.loading import SINK_PORT, LoadResult
from labconsole.experiments.route.rates import ArrivedPackets, rate_pps
from labconsole.experiments.route.record import RouterRecord, RouteSinkRecord
from labconsole.measure.processor_time import count_switches
from labconsole.verdict.observations import Snapshot
from labconsole.wire.capture import CaptureResult
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.flows import CountedFlow
from labconsole.wire.generator import SentStream

RX, TX = STAT_NAMES.index("rx_packets"), STAT_NAMES.index("tx_packets")

_BUSY = re.compile(r"^cpu  ?((?:\d{1,20} ){3,9}\d{1,20}) ?$", re.MULTILINE)
_EACH = re.compile(r"^cpu\d", re.MULTILINE)
TICKS_PER_S = 100
"""Ticks per second of a processor in /proc/stat."""

IDLE = (3, 4)
"""Places of the time that a processor does not use: idle, and waiting for a disk."""

GUESTS = 8
"""First place of the times that the first two places already contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A router: its MAC addresses, and the UUT's interfaces to it."""

    name: str
    inbound_mac: str
    mac: str
    inbound_interface: str | None
    host_interface: str | None
    udp_source_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteWindow:
    """Observations of one window. ``before`` and ``after``: counters of the UUT and of the sink. ``stat``: /proc/stat
    of the UUT. ``capture``: None if it failed; ``capture_failure`` says why.
    """

    sent: Sequence[SentStream]
    before: tuple[Snapshot, Snapshot]
    after: tuple[Snapshot, Snapshot]
    stat: tuple[str, str]
    loaded: Mapping[str, LoadResult] = field(default_factory=dict)
    loaded_after: Mapping[str, LoadResult] = field(default_factory=dict)
    capture: CaptureResult | None = None
    capture_failure: str = ""

    def of(self, router: str) -> SentStream | None:
        """The stream that was sent to a router, or None."""
        return next((each for each in self.sent if each.stream == router), None)

    @property
    def origin_ns(self) -> int | None:
        """When the first packet of a flow arrived at the sink, or None without a capture."""
        return None if self.capture is None or self.capture.flows is None else self.capture.flows.origin_ns


def arrived(routers: Sequence[Router], window: RouteWindow) -> dict[str, ArrivedPackets]:
    """The packets of each router that arrived at the sink; empty if nothing was captured."""
    if window.capture is None or window.capture.flows is None:
        return {}
    counted = {
        (each.mac.lower(), each.udp_source_port): each
        for each in window.capture.flows.flows
        if each.udp_sink_port == SINK_PORT
    }
    return {router.name: _arrived(counted.get((router.mac, router.udp_source_port))) for router in routers}


def _arrived(counted: CountedFlow | None) -> ArrivedPackets:
    if counted is None:
        return ArrivedPackets()
    bins = [0] * (counted.bins[-1] + 1 if counted.bins else 0)
    for place, packets in zip(counted.bins, counted.bin_packets, strict=True):
        bins[place] = packets
    return ArrivedPackets(
        counted.packets, counted.bytes, counted.first_at_ns, counted.last_at_ns, tuple(bins), counted.outside_packets
    )


def build_router(
    router: Router, arrived_packets: ArrivedPackets, window: RouteWindow, forwarded_pps: float | None
) -> RouterRecord:
    """Build the record of one router."""
    sent, had, after = window.of(router.name), window.loaded.get(router.name), window.loaded_after.get(router.name)
    sent_for_s = None if sent is None or not sent.elapsed_ns else sent.elapsed_ns / 1e9
    sent_packets = None if sent is None else sent.sent_packets
    return RouterRecord(
        guest=router.name,
        inbound_mac=router.inbound_mac,
        mac=router.mac,
        udp_source_port=router.udp_source_port,
        inbound_interface=router.inbound_interface,
        host_interface=router.host_interface,
        generator=None if sent is None else sent.generator,
        stopped_by=None if sent is None else sent.stopped_by,
        error=None if sent is None else sent.error_text,
        sent_packets=sent_packets,
        sent_for_s=sent_for_s,
        to_packets=counted(window, 0, router.inbound_interface, TX),
        from_packets=counted(window, 0, router.host_interface, RX),
        packets=arrived_packets.packets,
        bytes=arrived_packets.bytes,
        first_at_ns=arrived_packets.first_at_ns,
        last_at_ns=arrived_packets.last_at_ns,
        bin_packets=arrived_packets.bin_packets,
        outside_packets=arrived_packets.outside_packets,
        sent_pps=rate_pps(sent_packets, sent_for_s),
        forwarded_pps=forwarded_pps,
        routes=None if had is None else had.prefixes,
        routes_after=None if after is None else after.prefixes,
        filters=None if had is None else had.filters,
        filters_after=None if after is None else after.filters,
        load_s=None if had is None else had.took_s,
        said="" if had is None else had.said,
    )


def build_sink(
    node: str, interface: str, mac: str, by_router: Mapping[str, ArrivedPackets], window: RouteWindow
) -> RouteSinkRecord | None:
    """Build the record of all that the sink counted, or None if it did not capture."""
    capture = window.capture
    if capture is None or capture.flows is None:
        return None
    of_flows = sum(flow.packets for flow in capture.flows.flows) + capture.flows.unlisted_packets
    return RouteSinkRecord(
        node=node,
        interface=interface,
        mac=mac,
        captured_packets=capture.flows.packets,
        dropped_packets=capture.dropped_kernel_packets,
        nic_packets=counted(window, 1, interface, RX),
        other_packets=capture.flows.other_packets,
        control_packets=capture.flows.control_packets,
        foreign_packets=of_flows - sum(each.packets for each in by_router.values()),
    )


def counted(window: RouteWindow, node: int, interface: str | None, statistic: int) -> int | None:
    """Increase of a counter of an interface in the window, or None if it was not there all the time."""
    if interface is None:
        return None
    before, after = (side[node].get(("", interface)) for side in (window.before, window.after))
    if before is None or after is None or after.values[statistic] < before.values[statistic]:
        return None
    return after.values[statistic] - before.values[statistic]


def derive_processor_use(before: str, after: str) -> tuple[float | None, float | None]:
    """Context switches per second, and used share of the processors, between two readings of /proc/stat; None if not
    known.
    """
    one, other = [_ticks(text) for text in (before, after)]
    if one is None or other is None or len(one) != len(other):
        return None, None
    used = [late - early for early, late in zip(one, other, strict=True)]
    total, processors = sum(used), len(_EACH.findall(after))
    if total <= 0 or min(used) < 0 or not processors:
        return None, None
    busy = 1 - sum(used[place] for place in IDLE) / total
    switches = count_switches(before, after)
    return None if switches is None else switches / (total / TICKS_PER_S / processors), busy


def _ticks(text: str) -> list[int] | None:
    found = _BUSY.search(text)
    numbers = [] if found is None else [int(each) for each in found[1].split()]
    return numbers[:GUESTS] if len(numbers) > max(IDLE) else None
