"""Points of trials of routers: everything that was requested, and the environment. Pure."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.experiments.route.plan import format_target_pps
from labconsole.experiments.route.record import RouteRecord
from labconsole.measure.hypervisors import hypervisor
from labconsole.measure.paired_blocks import uut_kernel


class RoutePointKey(NamedTuple):
    """Key of a point. ``target_pps``: None for as many as the source can send. ``kernel``: of the unit under test.
    ``hypervisor``: with its version and the image's.
    """

    testbed_fingerprint: str
    platform: str
    guests: int
    cpu: str
    routes: int
    destinations: int
    filters: int
    target_pps: int | None
    frame_bytes: int
    duration_s: float
    memory_mib: int | None = None
    kernel: str = ""
    hypervisor: str = ""

    @property
    def words(self) -> str:
        """The request as text, without the platform."""
        text = f"{self.guests} router{'s' if self.guests > 1 else ''}, {self.load}"
        return f"{text}, {self.rate}"

    @property
    def load(self) -> str:
        """The routes and filter rules of each router, as text."""
        text = f"{self.routes} routes{self.destination_suffix}"
        return text + (f", {self.filters} filter rules" if self.filters else "")

    @property
    def destination_suffix(self) -> str:
        """``, 4096 destinations``, or empty if there is one."""
        return f", {self.destinations} destinations" if self.destinations > 1 else ""

    @property
    def rate(self) -> str:
        """The requested rate as text."""
        return "max" if self.target_pps is None else format_target_pps(self.target_pps)


Pair = tuple[RoutePointKey, RoutePointKey]
"""A point, and the one that it is compared with."""


def route_key(record: RouteRecord) -> RoutePointKey:
    """The point that a trial belongs to."""
    requested = record.requested
    return RoutePointKey(
        record.testbed_fingerprint,
        requested.platform,
        requested.guests,
        requested.cpu,
        requested.routes,
        requested.destinations,
        requested.filters,
        requested.target_pps,
        requested.frame_bytes,
        requested.duration_s,
        requested.memory_mib,
        uut_kernel(record),
        hypervisor(record),
    )


def set_up_of(record: RouteRecord) -> str:
    """Id of the crew's set-up, or the record's own if its routers did not start."""
    return record.route_id if record.set_up is None else record.set_up.id


def sum_pps(record: RouteRecord) -> float | None:
    """The forwarding rate of all routers together."""
    return record.sum_pps


def lost_packets(record: RouteRecord) -> tuple[int, int] | None:
    """Packets lost, and packets sent to all routers; None if not known."""
    sent = [each.sent_packets for each in record.routers if each.sent_packets is not None]
    if len(sent) < len(record.routers) or not sum(sent):
        return None
    return sum(sent) - sum(each.packets for each in record.routers), sum(sent)


def lost_ratio(record: RouteRecord) -> float | None:
    """Share of the sent packets that were lost, or None if not known."""
    counts = lost_packets(record)
    return None if counts is None else counts[0] / counts[1]


def lost_inside_ratio(record: RouteRecord) -> float | None:
    """Share of the packets at the UUT's port that were lost before the other ends of its routers, or None if not known.
    A router's own interface need not count what it has no room for: a machine's counts what the machine takes.
    """
    left = [each.from_packets for each in record.routers if each.from_packets is not None]
    if len(left) < len(record.routers) or not record.in_packets:
        return None
    return 1 - sum(left) / record.in_packets
