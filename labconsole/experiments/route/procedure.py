"""One trial of routers as a step of a plan: the crew runs with its routes, each gets a stream, the sink counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from labconsole.contracts.crew import CrewMember, StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.crew_measurement import choose_cpu
from labconsole.engine.crew_sink import RX, FlowArrivals, start_skew_s
from labconsole.engine.crew_step import SharedCrewStep
from labconsole.experiments.route.loading import router
from labconsole.experiments.route.measurement import RouteMeasurement
from labconsole.experiments.route.plan import BIN_S, RouteFactors, RoutePoint
from labconsole.experiments.route.points import lost_ratio
from labconsole.experiments.route.rates import build_hops, derive_router_rates
from labconsole.experiments.route.record import RECORD, RouteRecord, RouteRequested, RouterRecord, RouteSinkRecord
from labconsole.experiments.route.verdict import derive_reasons
from labconsole.experiments.route.window import build_router, count_router_arrivals, derive_processor_use
from labconsole.model.inventory import Inventory
from labconsole.text.cells import format_decimal, format_percent, format_rounded
from labconsole.verdict.crew_trial import capture_reasons

# -- live view ---------------------------------------------------------------------------------------------------------
# View of a completed trial of routers. Pure.

MOST_NAMED, MOST_IN_BRIEF = 8, 4


def describe_result(record: RouteRecord) -> list[str]:
    """The result as lines of text: the sum, then a line per router, the most lossy first if there are many."""
    lines = []
    if record.sum_pps is not None:
        jain = "" if record.jain is None or len(record.routers) < 2 else f", Jain {record.jain:.4f}"
        lines.append(f"{format_decimal(record.sum_pps, 0)} packets/s in all{jain}")
    in_order = sorted(record.routers, key=lambda each: -(build_hops(each).lost_ratio or 0.0))
    for each in in_order[:MOST_NAMED]:
        rate = "not known" if each.forwarded_pps is None else f"{format_decimal(each.forwarded_pps, 0)} packets/s"
        lines.append(f"{each.guest}: {rate}{build_hops(each).words()}")
    more = len(in_order) - MOST_NAMED
    return lines + ([f"and {more} more"] if more > 0 else [])


def build_picture(record: RouteRecord, lines: Sequence[str]) -> StepPicture:
    """Build the picture of a completed trial: its text and its routers' rates, bin by bin."""
    bin_s = record.requested.bin_s
    curves = tuple(
        PictureCurve(
            name=each.guest,
            seconds=tuple((number + 0.5) * bin_s for number in range(len(each.bin_packets))),
            values=tuple(packets / bin_s / 1e3 for packets in each.bin_packets),
        )
        for each in record.routers
    )
    guests = tuple(
        PictureGuest(name=each.guest, state=CopyState.DONE, found=_format_cells(each)) for each in record.routers
    )
    over_time = OverTime(title="At the sink, by router", unit="kpackets/s", curves=curves)
    return StepPicture(
        found=tuple(lines),
        brief=format_brief(record),
        guests=guests,
        over_time=over_time if record.sink is not None else None,
    )


def _format_cells(each: RouterRecord) -> tuple[tuple[str, str], ...]:
    """Cells of a router's row: heading of a column, and text."""
    hops = build_hops(each)
    return (
        ("packets/s at sink", format_rounded(each.forwarded_pps)),
        ("lost %", format_percent(hops.lost_ratio)),
        ("lost before", format_rounded(hops.before)),
        ("lost in it", format_rounded(hops.inside)),
        ("lost behind", format_rounded(hops.behind)),
        ("packets/s sent", format_rounded(each.sent_pps)),
        ("sent", format_rounded(each.sent_packets)),
        ("into it", format_rounded(each.to_packets)),
        ("at sink", format_rounded(each.packets)),
        ("routes", format_rounded(each.routes)),
    )


def format_brief(record: RouteRecord) -> str:
    """Short result in packets/s, the main part first: ``130 000, 0.10% lost, g1 65 000, g2 65 000, Jain 0.9999``."""
    if record.sum_pps is None:
        return ""
    parts, lost, several = [format_rounded(record.sum_pps)], lost_ratio(record), len(record.routers) > 1
    parts += [f"{lost:.2%} lost"] if lost is not None else []
    if several and len(record.routers) <= MOST_IN_BRIEF:
        parts += [f"{each.guest} {format_rounded(each.forwarded_pps)}" for each in record.routers]
    parts += [f"Jain {record.jain:.4f}"] if record.jain is not None and several else []
    return ", ".join(parts)


# -- the step ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStep(SharedCrewStep[RouteFactors, RoutePoint, RouteRecord]):
    """One trial of routers as a step of a plan."""

    kind = RECORD
    hopeless = frozenset({"generator_failed"})
    captures = True
    noun = "router"
    no_results: ClassVar[Mapping[str, Any]] = {
        "origin_ns": None,
        "in_packets": None,
        "routers": (),
        "sink": None,
        "shared_from": None,
        "shared_to": None,
        "sum_pps": None,
        "jain": None,
        "start_skew_s": None,
        "switches_per_s": None,
        "busy_ratio": None,
    }

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """The requested duration."""
        return [self.factors.duration_s]

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep."""
        point, memory_mib = self.trial.point, self.factors.memory_mib
        return tuple(router(number, memory_mib, choose_cpu(point.cpu, cpus, number)) for number in range(point.guests))

    def requested(self, inventory: Inventory) -> RouteRequested:
        """See CrewStep."""
        factors, point = self.factors, self.trial.point
        return RouteRequested(
            platform=point.platform,
            guests=point.guests,
            cpu=point.cpu,
            routes=point.routes,
            destinations=point.destinations,
            filters=point.filters,
            target_pps=None if point.target == "max" else point.target,
            frame_bytes=point.frame_bytes,
            duration_s=factors.duration_s,
            bin_s=BIN_S,
            memory_mib=factors.memory_mib,
        )

    def link_fields(self, inventory: Inventory) -> Mapping[str, Any]:
        """See CrewStep."""
        stream = inventory.streams[0]
        return {"link_speed_bps": stream.link_speed_bps, "source": stream.source.node}

    async def measure(self, crew: StandingCrew, bench: Bench, attempt: int) -> RouteRecord:
        """See SharedCrewStep."""
        seen = await RouteMeasurement(self.trial.point, self.factors, bench, crew).take()
        window, requested, taken = seen.window, self.requested(bench.inventory), seen.attempt
        arrivals = count_router_arrivals(seen.routers, window)
        common = derive_router_rates(arrivals, window.origin_ns, BIN_S)
        each_pps = common.each or {}
        routers = tuple(
            build_router(each, arrivals.get(each.name, FlowArrivals()), window, each_pps.get(each.name))
            for each in seen.routers
        )
        own_packets = sum(each.packets for each in routers)
        sink = window.build_sink(
            RouteSinkRecord, crew.timekeeper.name, crew.stream.sink.interface, seen.sink_mac, own_packets
        )
        skew_s = start_skew_s(each.first_at_ns for each in routers)
        switches_per_s, busy_ratio = derive_processor_use(*window.stat)
        shown = derive_reasons(
            requested,
            routers,
            sink,
            start_skew_s=skew_s,
            swapped_pages=taken.swapped_pages,
            limits=self.tolerances,
        )
        return self.conclude(
            taken,
            [*capture_reasons(window.capture_failure), *shown],
            bench,
            attempt,
            ports=seen.ports,
            origin_ns=window.origin_ns,
            in_packets=window.count(0, crew.stream.uut_in, RX),
            routers=routers,
            sink=sink,
            shared_from=common.first,
            shared_to=common.stop,
            sum_pps=common.total,
            jain=common.jain,
            start_skew_s=skew_s,
            switches_per_s=switches_per_s,
            busy_ratio=busy_ratio,
        )

    def draw(self, record: RouteRecord) -> StepPicture:
        """See CrewStep."""
        return build_picture(record, describe_result(record))


STEP = RouteStep
