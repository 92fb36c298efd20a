"""One trial of a job: start the crew, give all working guests their line at once, take the times at the timekeeper.

An invalid trial is repeated as often as the plan allows, and each attempt is stored. An error before the trial begins
(a guest that does not start, a platform that does not support the crew) is raised, and the plan goes on with steps that
do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from labconsole.contracts.crew import CrewMember, StandingCrew
from labconsole.contracts.experiment import Bench, StepRecord
from labconsole.contracts.picture import CopyState, StepPicture
from labconsole.engine.crew_measurement import build_empty_observations, choose_cpu, has_started_guests, start_crew
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import CrewStep, describe_failure
from labconsole.errors import Aborted, LabError, MeasurementError, NodeLost
from labconsole.experiments.job.disk_verdict import disk_notes
from labconsole.experiments.job.link_limit import is_network_job, link_notes, slowest_link_bps
from labconsole.experiments.job.live_view import build_picture_guests, build_uniform_guests, format_times
from labconsole.experiments.job.measurement import JobMeasurement, JobObservation
from labconsole.experiments.job.plan import JobFactors, JobPoint
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.record import JobRecord, JobRequested
from labconsole.experiments.job.verdict import clock_notes, judge
from labconsole.model.identity import utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.jobs import JOBS
from labconsole.model.record.run import Figures, Reason, Verdict
from labconsole.verdict.influences import influences
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.wire.version import __version__

USUAL_JOB_S = 10.0
"""The assumed duration of a trial, for estimates before any was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep(CrewStep[JobFactors, JobPoint, JobRecord]):
    """One trial of a job in a plan: a step."""

    kind = JOB
    hopeless = frozenset({"job_failed"})

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep."""
        factors, point = self.factors, self.trial.point
        shares = factors.cpu_shares
        return tuple(
            replace(
                build_member(number, factors.memory_mib, choose_cpu(point.cpu, cpus, number)),
                cpu_shares=None if shares is None else shares[number % len(shares)],
                cpu_quota_ratio=factors.cpu_quota_ratio,
                disk_mib=factors.crew_disk_mib,
            )
            for number in range(point.guests)
        )

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return an estimate; only the duration of a job that just waits is known."""
        point = self.trial.point
        if JOBS[point.job].resource == "none":
            return [float(point.size)]
        return [min(self.factors.limit_s, USUAL_JOB_S * (len(point.copies()) if point.cpu == "same" else 1))]

    def verdict_of(self, record: JobRecord) -> Verdict:
        return record.verdict

    async def attempt(self, bench: Bench, attempt: int) -> JobRecord:
        """Take one attempt, see CrewStep. Raises NodeError if the crew cannot start."""
        stage, point = bench.stage, self.trial.point
        cpus = () if point.cpu == "any" else await stage.guest_cpus(point.platform)
        members = self.members(cpus)
        many = f"{len(members)} guest{'s' if len(members) > 1 else ''}"
        starting = build_uniform_guests([member.name for member in members], CopyState.STARTS)
        text = f"{many} on {point.platform}: being set up, or standing already"
        bench.show(StepPicture(found=(text,), guests=starting))
        crew = await start_crew(stage, stage.stand(point.platform, members, (self.plan_name, self.trial.block)))
        if isinstance(crew, Reason):
            return self._void(crew, bench, attempt)
        try:
            seen = await JobMeasurement(point, self.factors.limit_s, bench, crew).take()
        except (NodeLost, Aborted):
            raise
        except (LabError, ValidationError) as exc:
            # Discard these guests before the next trial, whatever their state.
            await stage.restore()
            raise self.kept(exc) from exc
        record = self._record(seen, crew, bench, attempt)
        if record.status == "failed":
            await stage.restore()
        return record

    def has_started_guests(self, record: JobRecord) -> bool:
        return has_started_guests(record.set_up, record.verdict)

    def unmeasured(self, problem: MeasurementError, bench: Bench, attempt: int) -> JobRecord:
        return self._void(reason("not_measured", str(problem)), bench, attempt)

    def _void(self, why: Reason, bench: Bench, attempt: int) -> JobRecord:
        """Return the record of a trial without observations."""
        seen = build_empty_observations(why)
        verdict = judge(
            seen,
            (),
            empty=None,
            timekeeper=None,
            start_skew_s=None,
            swapped_pages=None,
            guest_problems=(),
            limits=self.tolerances,
            inventory=bench.inventory,
        )
        stage = bench.stage
        return JobRecord(
            **self._known_fields(seen, bench, attempt),
            set_up=None,
            empty=None,
            program=None,
            copies=(),
            timekeeper=None,
            start_skew_s=None,
            swapped_pages=None,
            verdict=verdict,
            attestation={},
            environment=stage.environment((stage.uut, stage.timekeeper)),
            status="failed",
            failure=describe_failure(verdict),
        )

    def _known_fields(self, seen: TrialObservations, bench: Bench, attempt: int) -> dict[str, Any]:
        """Return the fields of a record that are known before anything is observed."""
        factors, inventory, point = self.factors, bench.inventory, self.trial.point
        return {
            "job_id": seen.run_id,
            "started_at": seen.started_at,
            "finished_at": utc_now(),
            "testbed": inventory.testbed,
            "testbed_fingerprint": inventory.fingerprint(),
            "emulated": inventory.emulated,
            "operator": bench.operator,
            "labconsole_version": __version__,
            "plan": self.ref(attempt),
            "requested": JobRequested(
                platform=point.platform,
                job=point.job,
                size=point.size,
                command=JOBS[point.job].command(point.size),
                guests=point.guests,
                working=point.working,
                cpu=point.cpu,
                limit_s=factors.limit_s,
                cpu_shares=factors.cpu_shares,
                cpu_quota_ratio=factors.cpu_quota_ratio,
                memory_mib=factors.memory_mib,
                disk_mib=factors.crew_disk_mib or None,
            ),
            "in_force": self.in_force,
        }

    def _record(self, seen: JobObservation, crew: StandingCrew, bench: Bench, attempt: int) -> JobRecord:
        """Return the record of a measurement, with its verdict."""
        inventory, point, taken = bench.inventory, self.trial.point, seen.attempt
        ports = ((crew.uut.name, crew.stream.uut_out), (crew.timekeeper.name, crew.stream.sink.interface))
        configured_bps = crew.stream.link_speed_bps
        speed_bps = slowest_link_bps(configured_bps, taken.observations, ports) if is_network_job(point.job) else None
        verdict = judge(
            taken.observations,
            seen.copies,
            empty=seen.empty,
            timekeeper=seen.timekeeper,
            start_skew_s=seen.start_skew_s,
            swapped_pages=taken.swapped_pages,
            guest_problems=taken.problems,
            disk=seen.disk,
            program=taken.program,
            ports=ports,
            limits=self.tolerances,
            inventory=inventory,
        )
        notes: list[Figures] = [*influences(taken.observations, (), inventory.uut), *clock_notes(seen.copies)]
        notes += disk_notes(seen.disk, JOBS[point.job].disk, point.size, len(seen.copies), inventory.uut)
        notes += link_notes(point.job, point.size, seen.copies, speed_bps, inventory.uut)
        return JobRecord(
            **self._known_fields(taken.observations, bench, attempt),
            set_up=taken.set_up,
            empty=seen.empty,
            program=taken.program,
            client=seen.client,
            copies=seen.copies,
            timekeeper=seen.timekeeper,
            start_skew_s=seen.start_skew_s,
            swapped_pages=taken.swapped_pages,
            disk=seen.disk,
            link_speed_bps=speed_bps,
            verdict=verdict,
            attestation=crew.crew.attestation,
            influences=tuple(notes),
            environment=bench.stage.environment(taken.nodes, taken.observations.settings()),
            status="failed" if verdict.status == "invalid" else "done",
            failure=describe_failure(verdict),
        )

    def picture(self, record: StepRecord) -> StepPicture:
        """Return the trial's result as text and guests."""
        if not isinstance(record, JobRecord):
            return StepPicture()
        return StepPicture(
            found=tuple(describe_result(record)), brief=format_times(record), guests=build_picture_guests(record.copies)
        )


def describe_result(record: JobRecord) -> list[str]:
    """Describe a trial's result: a line per copy, the slowest first where there are many."""
    lines = []
    for copy in sorted(record.copies, key=lambda each: -(each.time_s or 0.0))[:10]:
        took = "not known" if copy.time_s is None else f"{copy.time_s:.3f} s"
        ratio = "" if copy.clock_ratio is None else f", clock ratio {copy.clock_ratio:.3f}"
        lines.append(f"{copy.guest}{f' copy {copy.copy_number}' if copy.copy_number > 1 else ''}: {took}{ratio}")
    more = len(record.copies) - len(lines)
    return lines + ([f"and {more} more"] if more > 0 else [])
