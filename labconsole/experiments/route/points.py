"""What a point of trials of routers is: all that was asked, and on what. Pure."""

from __future__ import annotations

from typing import NamedTuple

from labconsole.measure.hypervisors import hypervisor
from labconsole.measure.paired_blocks import uut_kernel
from labconsole.model.plan.routes import format_target_pps
from labconsole.model.record.route import RouteRecord


class RoutePointKey(NamedTuple):
    """What a point is. ``target_pps`` None: as many as the source can. ``kernel``: of the unit under test;
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
        """What is asked of the routers, without their platform."""
        words = f"{self.guests} router{'s' if self.guests > 1 else ''}, {self.load}"
        return f"{words}, {self.rate}"

    @property
    def load(self) -> str:
        """What each of them has."""
        words = f"{self.routes} routes{self.destination_suffix}"
        return words + (f", {self.filters} filter rules" if self.filters else "")

    @property
    def destination_suffix(self) -> str:
        """``, 4096 destinations``, or nothing where there is one."""
        return f", {self.destinations} destinations" if self.destinations > 1 else ""

    @property
    def rate(self) -> str:
        """What is sent to them."""
        return "max" if self.target_pps is None else format_target_pps(self.target_pps)


Pair = tuple[RoutePointKey, RoutePointKey]
"""A point, and the one that it is held against."""


def route_key(record: RouteRecord) -> RoutePointKey:
    """Which point a trial belongs to."""
    asked = record.requested
    return RoutePointKey(
        record.testbed_fingerprint,
        asked.platform,
        asked.guests,
        asked.cpu,
        asked.routes,
        asked.destinations,
        asked.filters,
        asked.target_pps,
        asked.frame_bytes,
        asked.duration_s,
        asked.memory_mib,
        uut_kernel(record),
        hypervisor(record),
    )


def set_up_of(record: RouteRecord) -> str:
    """Which crew it is of; one whose routers did not come is of none."""
    return record.route_id if record.set_up is None else record.set_up.id


def sum_pps(record: RouteRecord) -> float | None:
    """Of all routers together."""
    return record.sum_pps


def lost_packets(record: RouteRecord) -> tuple[int, int] | None:
    """Packets lost, of how many that were sent to all routers."""
    sent = [each.sent_packets for each in record.routers if each.sent_packets is not None]
    if len(sent) < len(record.routers) or not sum(sent):
        return None
    return sum(sent) - sum(each.packets for each in record.routers), sum(sent)


def lost_ratio(record: RouteRecord) -> float | None:
    """The same as a share."""
    counts = lost_packets(record)
    return None if counts is None else counts[0] / counts[1]


def lost_inside_ratio(record: RouteRecord) -> float | None:
    """What was lost between the unit under test's port and the other ends of its routers, of what came to that port. A
    router's own interface need not count what it has no room for: that of a machine counts what the machine takes.
    """
    left = [each.from_packets for each in record.routers if each.from_packets is not None]
    if len(left) < len(record.routers) or not record.in_packets:
        return None
    return 1 - sum(left) / record.in_packets
