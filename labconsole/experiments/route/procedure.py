"""One trial of routers as a step of a plan: the crew runs with its routes, each gets a stream, the sink counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.contracts.crew import CrewMember, StandingCrew
from labconsole.contracts.experiment import Bench, StepRecord
from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.engine.crew_measurement import build_empty_observations, choose_cpu, has_started_guests, start_crew
from labconsole.engine.crew_step import CrewStep, describe_failure
from labconsole.errors import Aborted, LabError, MeasurementError, NodeLost
from labconsole.experiments.route.addresses import router
from labconsole.experiments.route.live_view import build_picture, describe_result
from labconsole.experiments.route.measurement import RouteMeasurement, RouteObservation
from labconsole.experiments.route.plan import BIN_S, RouteFactors, RoutePoint
from labconsole.experiments.route.rates import ArrivedPackets, derive_joint_forwarding, start_skew_s
from labconsole.experiments.route.record import RECORD as ROUTE
from labconsole.experiments.route.record import RouteRecord, RouteRequested
from labconsole.experiments.route.verdict import judge
from labconsole.experiments.route.window import RX, arrived, build_router, build_sink, counted, derive_processor_use
from labconsole.model.identity import utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Figures, Reason, Verdict
from labconsole.verdict.crew_trial import judged
from labconsole.verdict.influences import influences
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.wire.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStep(CrewStep[RouteFactors, RoutePoint, RouteRecord]):
    """One trial of routers as a step of a plan."""

    kind = ROUTE
    hopeless = frozenset({"generator_failed"})

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep."""
        point, memory_mib = self.trial.point, self.factors.memory_mib
        return tuple(router(number, memory_mib, choose_cpu(point.cpu, cpus, number)) for number in range(point.guests))

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """The requested duration."""
        return [self.factors.duration_s]

    def verdict_of(self, record: RouteRecord) -> Verdict:
        return record.verdict

    async def attempt(self, bench: Bench, attempt: int) -> RouteRecord:
        """See CrewStep. Raises NodeError if the crew cannot start."""
        stage, point = bench.stage, self.trial.point
        cpus = () if point.cpu == "any" else await stage.guest_cpus(point.platform)
        members = self.members(cpus)
        starting = tuple(PictureGuest(name=member.name, state=CopyState.STARTS) for member in members)
        many = f"{len(members)} router{'s' if len(members) > 1 else ''}"
        bench.show(
            StepPicture(found=(f"{many} on {point.platform}: being set up, or standing already",), guests=starting)
        )
        crew = await start_crew(stage, stage.stand(point.platform, members, (self.plan_name, self.trial.block)))
        if isinstance(crew, Reason):
            return self._void(crew, bench, attempt)
        try:
            seen = await RouteMeasurement(point, self.factors, bench, crew).take()
            record = self._record(seen, crew, bench, attempt)
        except (NodeLost, Aborted):
            raise
        except LabError as exc:
            await stage.restore()  # discard these routers before the next trial, whatever their state
            raise self.kept(exc) from exc
        if record.status == "failed":
            await stage.restore()
        return record

    def has_started_guests(self, record: RouteRecord) -> bool:
        return has_started_guests(record.set_up, record.verdict)

    def unmeasured(self, problem: MeasurementError, bench: Bench, attempt: int) -> RouteRecord:
        return self._void(reason("not_measured", str(problem)), bench, attempt)

    def _void(self, why: Reason, bench: Bench, attempt: int) -> RouteRecord:
        """The record of a trial without observations."""
        seen, stage = build_empty_observations(why), bench.stage
        verdict = judged(seen, (), (), limits=self.tolerances, inventory=bench.inventory)
        return RouteRecord(
            **self._common_fields(seen, verdict, bench, attempt),
            set_up=None,
            origin_ns=None,
            in_packets=None,
            routers=(),
            sink=None,
            shared_from=None,
            shared_to=None,
            sum_pps=None,
            jain=None,
            start_skew_s=None,
            switches_per_s=None,
            busy_ratio=None,
            swapped_pages=None,
            attestation={},
            environment=stage.environment((stage.uut, stage.timekeeper)),
        )

    def _common_fields(self, seen: TrialObservations, verdict: Verdict, bench: Bench, attempt: int) -> dict[str, Any]:
        """The fields of a record that do not depend on the routers' results."""
        inventory = bench.inventory
        stream = inventory.streams[0]
        return {
            "route_id": seen.run_id,
            "started_at": seen.started_at,
            "finished_at": utc_now(),
            "testbed": inventory.testbed,
            "testbed_fingerprint": inventory.fingerprint(),
            "emulated": inventory.emulated,
            "operator": bench.operator,
            "labconsole_version": __version__,
            "plan": self.ref(attempt),
            "requested": self._requested(),
            "link_speed_bps": stream.link_speed_bps,
            "source": stream.source.node,
            "in_force": self.in_force.model_copy(update={"drain_s": inventory.defaults.drain_s}),
            "verdict": verdict,
            "status": "failed" if verdict.status == "invalid" else "done",
            "failure": describe_failure(verdict),
        }

    def _requested(self) -> RouteRequested:
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

    def _record(self, seen: RouteObservation, crew: StandingCrew, bench: Bench, attempt: int) -> RouteRecord:
        inventory, window, requested, taken = bench.inventory, seen.window, self._requested(), seen.attempt
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
        verdict = judge(
            taken.observations,
            requested,
            routers,
            sink,
            capture_failure=window.capture_failure,
            start_skew_s=skew_s,
            swapped_pages=taken.swapped_pages,
            guest_problems=taken.problems,
            ports=seen.ports,
            limits=self.tolerances,
            inventory=inventory,
        )
        figures = list[Figures](influences(taken.observations, (), inventory.uut))
        return RouteRecord(
            **self._common_fields(taken.observations, verdict, bench, attempt),
            set_up=taken.set_up,
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
            swapped_pages=taken.swapped_pages,
            attestation=crew.crew.attestation,
            influences=tuple(figures),
            environment=bench.stage.environment(taken.nodes, taken.observations.settings()),
        )

    def picture(self, record: StepRecord) -> StepPicture:
        """The picture of the trial's result."""
        if not isinstance(record, RouteRecord):
            return StepPicture()
        return build_picture(record, describe_result(record))
