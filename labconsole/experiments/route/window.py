"""Observations of one window of forwarding, and the parts of a record that follow from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.engine.crew_sink import RX, TX, FlowArrivals, SinkWindow, count_arrivals
from labconsole.experiments.route.loading import SINK_PORT, LoadResult
from labconsole.experiments.route.rates import rate_pps
from labconsole.experiments.route.record import RouterRecord
from labconsole.measure.processor_time import count_switches
from labconsole.wire.generator import SentStream

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
class RouteWindow(SinkWindow):
    """Observations of one window. ``stat``: /proc/stat of the UUT."""

    sent: Sequence[SentStream]
    stat: tuple[str, str]
    loaded: Mapping[str, LoadResult] = field(default_factory=dict)
    loaded_after: Mapping[str, LoadResult] = field(default_factory=dict)

    def of(self, router: str) -> SentStream | None:
        """The stream that was sent to a router, or None."""
        return next((each for each in self.sent if each.stream == router), None)


def count_router_arrivals(routers: Sequence[Router], window: RouteWindow) -> dict[str, FlowArrivals]:
    """The packets of each router that arrived at the sink; empty if nothing was captured."""
    if (counted := window.counted) is None:
        return {}
    return {each.name: count_arrivals(counted.get((each.mac, each.udp_source_port, SINK_PORT))) for each in routers}


def build_router(
    router: Router, arrivals: FlowArrivals, window: RouteWindow, forwarded_pps: float | None
) -> RouterRecord:
    """Build the record of one router."""
    sent, had, after = window.of(router.name), window.loaded.get(router.name), window.loaded_after.get(router.name)
    sent_for_s = None if sent is None or not sent.elapsed_ns else sent.elapsed_ns / 1e9
    sent_packets = None if sent is None else sent.sent_packets
    return arrivals.build_record(
        RouterRecord,
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
        to_packets=window.count(0, router.inbound_interface, TX),
        from_packets=window.count(0, router.host_interface, RX),
        sent_pps=rate_pps(sent_packets, sent_for_s),
        forwarded_pps=forwarded_pps,
        routes=None if had is None else had.prefixes,
        routes_after=None if after is None else after.prefixes,
        filters=None if had is None else had.filters,
        filters_after=None if after is None else after.filters,
        load_s=None if had is None else had.took_s,
        said="" if had is None else had.said,
    )


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
