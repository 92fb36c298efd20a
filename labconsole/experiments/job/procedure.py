"""One trial of a job: start the crew, give all working guests their line at once, take the times at the timekeeper.

An invalid trial is repeated as often as the plan allows, and each attempt is stored. An error before the trial begins
(a guest that does not start, a platform that does not support the crew) is raised, and the plan goes on with steps that
do not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labconsole.contracts.crew import CrewMember, StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import StepPicture
from labconsole.engine.crew_measurement import choose_cpu
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import SharedCrewStep
from labconsole.experiments.job.disk_verdict import disk_notes
from labconsole.experiments.job.limiting_resource import is_network_job, link_notes, slowest_link_bps
from labconsole.experiments.job.live_view import build_picture_guests, format_times
from labconsole.experiments.job.measurement import JobMeasurement
from labconsole.experiments.job.plan import JobFactors, JobPoint
from labconsole.experiments.job.record import RECORD, JobRecord, JobRequested
from labconsole.experiments.job.verdict import clock_notes, derive_reasons
from labconsole.model.inventory import Inventory
from labconsole.model.jobs import JOBS

USUAL_JOB_S = 10.0
"""The assumed duration of a trial, for estimates before any was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep(SharedCrewStep[JobFactors, JobPoint, JobRecord]):
    """One trial of a job in a plan: a step."""

    kind = RECORD
    hopeless = frozenset({"job_failed"})
    no_results: ClassVar[Mapping[str, Any]] = {
        "empty": None,
        "program": None,
        "copies": (),
        "timekeeper": None,
        "start_skew_s": None,
    }

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return an estimate; only the duration of a job that just waits is known."""
        point = self.trial.point
        if JOBS[point.job].resource == "none":
            return [float(point.size)]
        return [min(self.factors.limit_s, USUAL_JOB_S * (len(point.copies()) if point.cpu == "same" else 1))]

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

    def requested(self, inventory: Inventory) -> JobRequested:
        """See CrewStep."""
        factors, point = self.factors, self.trial.point
        return JobRequested(
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
        )

    async def measure(self, crew: StandingCrew, bench: Bench, attempt: int) -> JobRecord:
        """See SharedCrewStep."""
        point, uut = self.trial.point, bench.inventory.uut
        seen = await JobMeasurement(point, self.factors.limit_s, bench, crew).take()
        taken = seen.attempt
        ports = ((crew.uut.name, crew.stream.uut_out), (crew.timekeeper.name, crew.stream.sink.interface))
        configured_bps = crew.stream.link_speed_bps
        speed_bps = slowest_link_bps(configured_bps, taken.observations, ports) if is_network_job(point.job) else None
        shown = derive_reasons(
            seen.copies,
            empty=seen.empty,
            timekeeper=seen.timekeeper,
            start_skew_s=seen.start_skew_s,
            swapped_pages=taken.swapped_pages,
            disk=seen.disk,
            program=taken.program,
            limits=self.tolerances,
        )
        return self.conclude(
            taken,
            shown,
            bench,
            attempt,
            ports=ports,
            notes=[
                *clock_notes(seen.copies),
                *disk_notes(seen.disk, JOBS[point.job].disk, point.size, len(seen.copies), uut),
                *link_notes(point.job, point.size, seen.copies, speed_bps, uut),
            ],
            empty=seen.empty,
            program=taken.program,
            client=seen.client,
            copies=seen.copies,
            timekeeper=seen.timekeeper,
            start_skew_s=seen.start_skew_s,
            disk=seen.disk,
            link_speed_bps=speed_bps,
        )

    def draw(self, record: JobRecord) -> StepPicture:
        """Return the trial's result as text and guests."""
        return StepPicture(
            found=tuple(describe_result(record)), brief=format_times(record), guests=build_picture_guests(record.copies)
        )


STEP = JobStep


def describe_result(record: JobRecord) -> list[str]:
    """Describe a trial's result: a line per copy, the slowest first where there are many."""
    lines = []
    for copy in sorted(record.copies, key=lambda each: -(each.time_s or 0.0))[:10]:
        took = "not known" if copy.time_s is None else f"{copy.time_s:.3f} s"
        ratio = "" if copy.clock_ratio is None else f", clock ratio {copy.clock_ratio:.3f}"
        lines.append(f"{copy.guest}{f' copy {copy.copy_number}' if copy.copy_number > 1 else ''}: {took}{ratio}")
    more = len(record.copies) - len(lines)
    return lines + ([f"and {more} more"] if more > 0 else [])
