"""One trial of routers as a step of a plan: the crew runs with its routes, each gets a stream, the sink counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from labconsole.contracts.crew import CrewMember, StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import StepPicture
from labconsole.engine.crew_measurement import choose_cpu
from labconsole.engine.crew_step import SharedCrewStep
from labconsole.experiments.route.addresses import router
from labconsole.experiments.route.live_view import build_picture, describe_result
from labconsole.experiments.route.measurement import RouteMeasurement
from labconsole.experiments.route.plan import BIN_S, RouteFactors, RoutePoint
from labconsole.experiments.route.rates import ArrivedPackets, derive_joint_forwarding, start_skew_s
from labconsole.experiments.route.record import RECORD, RouteRecord, RouteRequested
from labconsole.experiments.route.verdict import derive_reasons
from labconsole.experiments.route.window import RX, arrived, build_router, build_sink, counted, derive_processor_use
from labconsole.model.inventory import Inventory
from labconsole.verdict.crew_trial import capture_reasons


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
        arrivals = arrived(seen.routers, window)
        common = derive_joint_forwarding(arrivals, window.origin_ns, BIN_S)
        each_pps = common.each_pps or {}
        routers = tuple(
            build_router(each, arrivals.get(each.name, ArrivedPackets()), window, each_pps.get(each.name))
            for each in seen.routers
        )
        sink = build_sink(crew.timekeeper.name, crew.stream.sink.interface, seen.sink_mac, arrivals, window)
        skew_s = start_skew_s([each.first_at_ns for each in routers])
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
            in_packets=counted(window, 0, crew.stream.uut_in, RX),
            routers=routers,
            sink=sink,
            shared_from=common.first,
            shared_to=common.stop,
            sum_pps=common.sum_pps,
            jain=common.jain,
            start_skew_s=skew_s,
            switches_per_s=switches_per_s,
            busy_ratio=busy_ratio,
        )

    def draw(self, record: RouteRecord) -> StepPicture:
        """See CrewStep."""
        return build_picture(record, describe_result(record))


STEP = RouteStep
