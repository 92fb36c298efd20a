"""One trial of flows from guests as a step of a plan: the crew runs, all guests send at once, the sink counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from labconsole.contracts.crew import USUAL, CrewMember, HowMade, StandingCrew
from labconsole.contracts.experiment import Bench, StepRecord
from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.engine.crew_measurement import build_empty_observations, choose_cpu, has_started_guests, start_crew
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import CrewStep, describe_failure
from labconsole.errors import Aborted, LabError, MeasurementError, NodeLost
from labconsole.experiments.flow.base import FlowObservation
from labconsole.experiments.flow.disk import build_disk_observation
from labconsole.experiments.flow.live_view import MOST_NAMED, build_picture, format_line_share, format_losses
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.rates import derive_shared_time, line_bps, start_skew_s
from labconsole.experiments.flow.receive_measurement import ReceiveMeasurement, ReceiveObservation
from labconsole.experiments.flow.receive_results import build_receiver, build_source, receive_skew_s, sum_received
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord, FlowRequested, ReceiverRecord
from labconsole.experiments.flow.ring import build_ring, ring_busy_s, ring_sum
from labconsole.experiments.flow.ring_measurement import RingMeasurement, RingObservation
from labconsole.experiments.flow.send_measurement import SendMeasurement, SendObservation
from labconsole.experiments.flow.verdict import (
    capture_reasons,
    derive_reasons,
    derive_receive_reasons,
    derive_ring_reasons,
)
from labconsole.experiments.flow.weights import derive_weights, link_bps
from labconsole.experiments.flow.window import build_flows, build_sender, build_sink
from labconsole.model.identity import utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Figures, Reason, Verdict
from labconsole.units import format_rate_bps
from labconsole.verdict.crew_trial import judged
from labconsole.verdict.influences import influences
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.wire.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep(CrewStep[FlowFactors, FlowPoint, FlowRecord]):
    """One trial of flows as a step of a plan."""

    kind = FLOW
    hopeless = frozenset({"generator_failed", "job_failed"})

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep. The last one may have a disk to work on."""
        factors, point = self.factors, self.trial.point
        return tuple(
            replace(
                build_member(number, factors.memory_mib, choose_cpu(point.cpu, cpus, number)),
                disk_mib=factors.crew_disk_mib if number and number == point.guests - 1 else 0,
            )
            for number in range(point.guests)
        )

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """The requested duration; for a ring, the time for which it keeps its guests busy."""
        duration_s = self.factors.duration_s
        return [ring_busy_s(duration_s) if self.trial.point.pattern == "ring" else duration_s]

    def verdict_of(self, record: FlowRecord) -> Verdict:
        return record.verdict

    async def attempt(self, bench: Bench, attempt: int) -> FlowRecord:
        """See CrewStep. Raises NodeError if the crew cannot start."""
        stage, point = bench.stage, self.trial.point
        cpus = () if point.cpu == "any" else await stage.guest_cpus(point.platform)
        members = self.members(cpus)
        starting = tuple(PictureGuest(name=member.name, state=CopyState.STARTS) for member in members)
        many = f"{len(members)} guest{'s' if len(members) > 1 else ''}"
        bench.show(
            StepPicture(found=(f"{many} on {point.platform}: being set up, or standing already",), guests=starting)
        )
        how = HowMade(port=bench.inventory.streams[0].uut_in) if point.pattern == "in" else USUAL
        standing = stage.stand(point.platform, members, (self.plan_name, self.trial.block), how)
        crew = await start_crew(stage, standing)
        if isinstance(crew, Reason):
            return self._void(crew, bench, attempt)
        offered_bps = derive_offered_bps(point, bench.inventory)
        try:
            if point.pattern == "ring":
                record = self._ring_record(
                    await RingMeasurement(point, self.factors, bench, crew).take(), crew, bench, attempt
                )
            elif point.pattern == "in":
                requested = self._requested(offered_bps)
                taking = ReceiveMeasurement(point, self.factors, requested, self.request.generator, bench, crew)
                record = self._receive_record(await taking.take(), requested, crew, bench, attempt)
            else:
                seen = await SendMeasurement(point, self.factors, offered_bps, bench, crew).take()
                record = self._record(seen, crew, offered_bps, bench, attempt)
        except (NodeLost, Aborted):
            raise
        except LabError as exc:
            await stage.restore()  # discard these guests before the next trial, whatever their state
            raise self.kept(exc) from exc
        if record.status == "failed":
            await stage.restore()
        return record

    def has_started_guests(self, record: FlowRecord) -> bool:
        return has_started_guests(record.set_up, record.verdict)

    def unmeasured(self, problem: MeasurementError, bench: Bench, attempt: int) -> FlowRecord:
        return self._void(reason("not_measured", str(problem)), bench, attempt)

    def _void(self, why: Reason, bench: Bench, attempt: int) -> FlowRecord:
        """The record of a trial without observations."""
        seen, stage = build_empty_observations(why), bench.stage
        verdict = judged(seen, (), (), limits=self.tolerances, inventory=bench.inventory)
        return FlowRecord(
            **self._common_fields(seen, verdict, bench, attempt),
            set_up=None,
            origin_ns=None,
            flows=(),
            senders=(),
            sink=None,
            requested=self._requested(derive_offered_bps(self.trial.point, bench.inventory)),
            shared_from=None,
            shared_to=None,
            sum_bps=None,
            jain=None,
            line_ratio=None,
            start_skew_s=None,
            swapped_pages=None,
            attestation={},
            environment=stage.environment((stage.uut, stage.timekeeper)),
        )

    def _common_fields(self, seen: TrialObservations, verdict: Verdict, bench: Bench, attempt: int) -> dict[str, Any]:
        """The fields of a record that do not depend on the guests' results."""
        inventory = bench.inventory
        speed_bps = inventory.streams[0].link_speed_bps
        return {
            "flow_id": seen.run_id,
            "started_at": seen.started_at,
            "finished_at": utc_now(),
            "testbed": inventory.testbed,
            "testbed_fingerprint": inventory.fingerprint(),
            "emulated": inventory.emulated,
            "operator": bench.operator,
            "labconsole_version": __version__,
            "plan": self.ref(attempt),
            "link_speed_bps": speed_bps,
            "line_bps": line_bps(speed_bps, self.trial.point.payload_bytes),
            "in_force": self.in_force.model_copy(update={"drain_s": inventory.defaults.drain_s}),
            "verdict": verdict,
            "status": "failed" if verdict.status == "invalid" else "done",
            "failure": describe_failure(verdict),
        }

    def _requested(self, offered_bps: int) -> FlowRequested:
        factors, point = self.factors, self.trial.point
        return FlowRequested(
            platform=point.platform,
            guests=point.guests,
            cpu=point.cpu,
            offered_bps=offered_bps,
            limits_bps=point.limits,
            greedy=point.greedy,
            second_after_s=point.second_after_s,
            payload_bytes=point.payload_bytes,
            duration_s=factors.duration_s,
            bin_s=factors.bin_s,
            memory_mib=factors.memory_mib,
            pattern=point.pattern,
            weights=point.weights,
            disk=point.disk,
        )

    def _ring_record(self, seen: RingObservation, crew: StandingCrew, bench: Bench, attempt: int) -> FlowRecord:
        requested = self._requested(derive_offered_bps(self.trial.point, bench.inventory))
        ring, window_s = build_ring(seen.guests, seen.window), seen.window.window_s(seen.guests)
        sum_bps, jain = ring_sum(ring)
        shown = derive_ring_reasons(requested, ring, window_s, seen.attempt.swapped_pages, seen.attempt.program)
        return self._build_record(
            seen,
            crew,
            bench,
            attempt,
            shown,
            requested=requested,
            origin_ns=None,
            flows=(),
            senders=(),
            sink=None,
            ring=ring,
            window_s=window_s,
            shared_from=None,
            shared_to=None,
            sum_bps=sum_bps,
            jain=jain,
            line_ratio=None,
            start_skew_s=None,
        )

    def _receive_record(
        self, seen: ReceiveObservation, requested: FlowRequested, crew: StandingCrew, bench: Bench, attempt: int
    ) -> FlowRecord:
        stream, window = crew.stream, seen.window
        receivers = tuple(build_receiver(guest, window, requested.payload_bytes) for guest in seen.guests)
        source = build_source(
            stream.source.node, stream.source.interface, seen.source_mac, stream.uut_in, window, seen.generator
        )
        (sum_bps, jain), skew_s = sum_received(receivers), receive_skew_s(receivers)
        shown = derive_receive_reasons(
            requested, receivers, source, skew_s, seen.attempt.swapped_pages, seen.attempt.program, self.tolerances
        )
        most_bps = line_bps(stream.link_speed_bps, requested.payload_bytes)
        return self._build_record(
            seen,
            crew,
            bench,
            attempt,
            shown,
            requested=requested,
            origin_ns=None,
            flows=(),
            senders=(),
            sink=None,
            receivers=receivers,
            source=source,
            shared_from=None,
            shared_to=None,
            sum_bps=sum_bps,
            jain=jain,
            line_ratio=None if sum_bps is None else sum_bps / most_bps,
            start_skew_s=skew_s,
        )

    def _record(
        self, seen: SendObservation, crew: StandingCrew, offered_bps: int, bench: Bench, attempt: int
    ) -> FlowRecord:
        factors, point = self.factors, self.trial.point
        requested = self._requested(offered_bps)
        flows, names = build_flows(seen.senders, seen.window), [sender.name for sender in seen.senders]
        common = derive_shared_time(flows, names, seen.window.origin_ns, point.payload_bytes, factors.bin_s)
        each_bps = common.each_bps or {}
        senders = tuple(
            build_sender(sender, flows, seen.window, requested, each_bps.get(sender.name)) for sender in seen.senders
        )
        all_bps = link_bps(crew.stream.link_speed_bps, point.payload_bytes)
        weights = derive_weights(
            requested,
            flows,
            names,
            (common.first, common.stop),
            all_bps=all_bps,
            taken=seen.window.taken,
            kept_bps=seen.window.kept_bps,
        )
        disk = None
        if seen.worker is not None and point.disk is not None:
            disk = build_disk_observation(seen.worker, point.disk, seen.window, flows, names, requested)
        sink = build_sink(
            crew.timekeeper.name,
            crew.stream.sink.interface,
            seen.sink_mac,
            flows,
            seen.window,
            marks=0 if disk is None else disk.mark_packets,
        )
        most_bps = line_bps(crew.stream.link_speed_bps, point.payload_bytes)
        skew_s = start_skew_s(flows, names, point.second_after_s)
        shown = [
            *capture_reasons(seen.window.capture_failure),
            *derive_reasons(
                requested,
                flows,
                senders,
                sink,
                line_bps=most_bps,
                start_skew_s=skew_s,
                swapped_pages=seen.attempt.swapped_pages,
                program=seen.attempt.program,
                limits=self.tolerances,
                weights=weights,
                disk=disk,
            ),
        ]
        return self._build_record(
            seen,
            crew,
            bench,
            attempt,
            shown,
            requested=requested,
            origin_ns=seen.window.origin_ns,
            flows=flows,
            senders=senders,
            sink=sink,
            shared_from=common.first,
            shared_to=common.stop,
            sum_bps=common.sum_bps,
            jain=common.jain,
            line_ratio=None if common.sum_bps is None else common.sum_bps / most_bps,
            start_skew_s=skew_s,
            weights=weights,
            disk=disk,
        )

    def _build_record(
        self,
        seen: FlowObservation,
        crew: StandingCrew,
        bench: Bench,
        attempt: int,
        shown: Sequence[Reason],
        *,
        requested: FlowRequested,
        **found: Any,
    ) -> FlowRecord:
        """Build the record with what every trial has, wherever its guests sent. ``shown``: reasons derived from the
        record alone.
        """
        inventory, taken = bench.inventory, seen.attempt
        figures = list[Figures](influences(taken.observations, (), inventory.uut))
        verdict = judged(
            taken.observations, shown, taken.problems, limits=self.tolerances, inventory=inventory, ports=seen.ports
        )
        return FlowRecord(
            **self._common_fields(taken.observations, verdict, bench, attempt),
            requested=requested,
            set_up=taken.set_up,
            swapped_pages=taken.swapped_pages,
            program=taken.program,
            attestation=crew.crew.attestation,
            influences=tuple(figures),
            environment=bench.stage.environment(taken.nodes, taken.observations.settings()),
            **found,
        )

    def picture(self, record: StepRecord) -> StepPicture:
        """The picture of the trial's result."""
        if not isinstance(record, FlowRecord):
            return StepPicture()
        return build_picture(record, describe_result(record))


def derive_offered_bps(point: FlowPoint, inventory: Inventory) -> int:
    """Payload rate of each flow in bit/s. At line rate, guests offer more than fits. The source offers what fits, in
    equal parts to the guests.
    """
    speed_bps = inventory.streams[0].link_speed_bps
    if point.offered != "line":
        return point.offered
    return int(line_bps(speed_bps, point.payload_bytes) / point.guests) if point.pattern == "in" else speed_bps


def describe_result(record: FlowRecord) -> list[str]:
    """The result as lines of text: the sum, then a line per guest, the slowest first if there are many."""
    if record.ring:
        in_all = "not known" if record.sum_bps is None else format_rate_bps(record.sum_bps)
        rates = sorted((each.out_bps or 0.0, f"{each.guest} → {each.to}") for each in record.ring)
        slow = [f"{pair}: {format_rate_bps(rate)}" for rate, pair in rates[:MOST_NAMED]]
        return [f"{in_all} in all out of the guests of the ring", *slow]
    lines: list[str] = []
    if record.sum_bps is not None and record.line_ratio is not None:
        jain = "" if record.jain is None else f", Jain {record.jain:.4f}"
        lines.append(f"{format_rate_bps(record.sum_bps)} of payload in all, {format_line_share(record)}{jain}")
    if record.receivers:
        shown = [f"{each.guest}: {describe_receiver(each)}" for each in record.receivers[:MOST_NAMED]]
        more = len(record.receivers) - MOST_NAMED
        return lines + shown + ([f"and {more} more"] if more > 0 else [])
    if record.disk is not None and record.disk.during_ratio is not None:
        lines.append(f"{record.disk.during_ratio:.1%} of it while {record.disk.guest} worked on its disk")
    if record.weights is not None and record.weights.mean_error_ratio is not None:
        lines.append(f"shares are {record.weights.mean_error_ratio:.4f} from their weights' on average over the steps")
    in_order = sorted(record.senders, key=lambda each: each.shared_bps or 0.0)
    for sender in in_order[:MOST_NAMED]:
        rate = "not known" if sender.shared_bps is None else format_rate_bps(sender.shared_bps)
        lines.append(f"{sender.guest}: {rate}")
    more = len(in_order) - MOST_NAMED
    return lines + ([f"and {more} more"] if more > 0 else [])


def describe_receiver(each: ReceiverRecord) -> str:
    """A guest's rate and losses: ``95.71 Mbit/s of payload; lost 12: guest_socket_full 12``."""
    rate = "not known" if each.payload_bps is None else f"{format_rate_bps(each.payload_bps)} of payload"
    if each.lost_packets is None:
        return rate
    where = format_losses(each)
    return f"{rate}; lost {each.lost_packets}" + (f": {where}" if where else "")
