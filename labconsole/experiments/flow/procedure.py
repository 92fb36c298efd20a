"""One trial of flows from guests as a step of a plan: the crew runs, all guests send at once, the sink counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labconsole.contracts.crew import USUAL, CrewMember, HowMade, StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import StepPicture
from labconsole.engine.crew_measurement import choose_cpu
from labconsole.engine.crew_sink import start_skew_s
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import SharedCrewStep
from labconsole.experiments.flow.base import FlowObservation
from labconsole.experiments.flow.disk import build_disk_observation
from labconsole.experiments.flow.live_view import MOST_NAMED, build_picture, format_line_share, format_losses
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.rates import begin_skew_s, derive_guest_rates, line_bps, sum_rates
from labconsole.experiments.flow.receive import (
    ReceiveMeasurement,
    build_receiver,
    build_source,
)
from labconsole.experiments.flow.record import RECORD, FlowRecord, FlowRequested, ReceiverRecord
from labconsole.experiments.flow.ring import RingMeasurement, build_ring, ring_busy_s
from labconsole.experiments.flow.script import build_flows, build_sender, build_sink
from labconsole.experiments.flow.send_measurement import SendMeasurement
from labconsole.experiments.flow.verdict import (
    derive_reasons,
    derive_receive_reasons,
    derive_ring_reasons,
)
from labconsole.experiments.flow.weights import derive_weights, link_bps
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Reason
from labconsole.units import format_rate_bps
from labconsole.verdict.crew_trial import capture_reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep(SharedCrewStep[FlowFactors, FlowPoint, FlowRecord]):
    """One trial of flows as a step of a plan."""

    kind = RECORD
    hopeless = frozenset({"generator_failed", "job_failed"})
    captures = True
    no_results: ClassVar[Mapping[str, Any]] = {
        "origin_ns": None,
        "flows": (),
        "senders": (),
        "sink": None,
        "shared_from": None,
        "shared_to": None,
        "sum_bps": None,
        "jain": None,
        "line_ratio": None,
        "start_skew_s": None,
    }

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

    def link_fields(self, inventory: Inventory) -> Mapping[str, Any]:
        """See CrewStep."""
        speed_bps = inventory.streams[0].link_speed_bps
        return {"link_speed_bps": speed_bps, "line_bps": line_bps(speed_bps, self.trial.point.payload_bytes)}

    def set_up_options(self, inventory: Inventory) -> HowMade:
        """See SharedCrewStep. Guests that are sent to are on the port that the source sends to."""
        return HowMade(port=inventory.streams[0].uut_in) if self.trial.point.pattern == "in" else USUAL

    def requested(self, inventory: Inventory) -> FlowRequested:
        """See CrewStep."""
        factors, point = self.factors, self.trial.point
        return FlowRequested(
            platform=point.platform,
            guests=point.guests,
            cpu=point.cpu,
            offered_bps=derive_offered_bps(point, inventory),
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

    async def measure(self, crew: StandingCrew, bench: Bench, attempt: int) -> FlowRecord:
        """See SharedCrewStep."""
        by_pattern = {"ring": self._measure_ring, "in": self._measure_received, "out": self._measure_sent}
        return await by_pattern[self.trial.point.pattern](crew, bench, attempt)

    async def _measure_ring(self, crew: StandingCrew, bench: Bench, attempt: int) -> FlowRecord:
        seen = await RingMeasurement(self.trial.point, self.factors, bench, crew).take()
        ring, window_s = build_ring(seen.guests, seen.window), seen.window.window_s(seen.guests)
        sum_bps, jain = sum_rates(each.out_bps for each in ring)
        requested, taken = self.requested(bench.inventory), seen.attempt
        shown = derive_ring_reasons(requested, ring, window_s, taken.swapped_pages, taken.program)
        own: dict[str, Any] = {"ring": ring, "window_s": window_s, "sum_bps": sum_bps, "jain": jain}
        return self._conclude_apart(seen, shown, bench, attempt, own)

    async def _measure_received(self, crew: StandingCrew, bench: Bench, attempt: int) -> FlowRecord:
        requested, stream = self.requested(bench.inventory), crew.stream
        generator = self.request.generator
        seen = await ReceiveMeasurement(self.trial.point, self.factors, requested, generator, bench, crew).take()
        window, taken = seen.window, seen.attempt
        receivers = tuple(build_receiver(guest, window, requested.payload_bytes) for guest in seen.guests)
        source = build_source(
            stream.source.node, stream.source.interface, seen.source_mac, stream.uut_in, window, seen.generator
        )
        sum_bps, jain = sum_rates(each.payload_bps for each in receivers)
        skew_s = start_skew_s(each.started_ns for each in receivers)
        shown = derive_receive_reasons(
            requested, receivers, source, skew_s, taken.swapped_pages, taken.program, self.tolerances
        )
        most_bps = line_bps(stream.link_speed_bps, requested.payload_bytes)
        own: dict[str, Any] = {
            "receivers": receivers,
            "source": source,
            "sum_bps": sum_bps,
            "jain": jain,
            "line_ratio": None if sum_bps is None else sum_bps / most_bps,
            "start_skew_s": skew_s,
        }
        return self._conclude_apart(seen, shown, bench, attempt, own)

    def _conclude_apart(
        self, seen: FlowObservation, shown: Sequence[Reason], bench: Bench, attempt: int, own: Mapping[str, Any]
    ) -> FlowRecord:
        """The record of a trial whose packets are not counted at the sink."""
        found, taken = {**self.no_results, **own}, seen.attempt
        return self.conclude(taken, shown, bench, attempt, ports=seen.ports, program=taken.program, **found)

    async def _measure_sent(self, crew: StandingCrew, bench: Bench, attempt: int) -> FlowRecord:
        factors, point, requested = self.factors, self.trial.point, self.requested(bench.inventory)
        seen = await SendMeasurement(point, factors, requested.offered_bps, bench, crew).take()
        flows, names = build_flows(seen.senders, seen.window), [sender.name for sender in seen.senders]
        common = derive_guest_rates(flows, names, seen.window.origin_ns, point.payload_bytes, factors.bin_s)
        each_bps = common.each or {}
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
        skew_s = begin_skew_s(flows, names, point.second_after_s)
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
        return self.conclude(
            seen.attempt,
            shown,
            bench,
            attempt,
            ports=seen.ports,
            program=seen.attempt.program,
            origin_ns=seen.window.origin_ns,
            flows=flows,
            senders=senders,
            sink=sink,
            shared_from=common.first,
            shared_to=common.stop,
            sum_bps=common.total,
            jain=common.jain,
            line_ratio=None if common.total is None else common.total / most_bps,
            start_skew_s=skew_s,
            weights=weights,
            disk=disk,
        )

    def draw(self, record: FlowRecord) -> StepPicture:
        """See CrewStep."""
        return build_picture(record, describe_result(record))


STEP = FlowStep


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
