"""One boot trial as a step of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.contracts.crew import CrewMember
from labconsole.contracts.experiment import Bench, StepRecord
from labconsole.contracts.picture import StepPicture
from labconsole.engine.crew_measurement import build_empty_observations
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import CrewStep, describe_failure
from labconsole.errors import MeasurementError, TooLittleMemory
from labconsole.experiments.boot.derived_values import clock_error_s, deviation_s, latest_s, mark_zero_ns
from labconsole.experiments.boot.live_view import guests_started
from labconsole.experiments.boot.measurement import QUIET_S, BootMeasurement, BootObservation
from labconsole.experiments.boot.plan import BootFactors, BootPoint
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord, BootRequested
from labconsole.experiments.boot.resolution import clock_allowed_s, coarse_notes
from labconsole.experiments.boot.verdict import judge
from labconsole.model.identity import utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Figures, Reason, Verdict
from labconsole.verdict.influences import influences
from labconsole.verdict.reasons import reason
from labconsole.wire.version import __version__

USUAL_START_S = 5.0
"""The assumed start-up time of a guest, for estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootStep(CrewStep[BootFactors, BootPoint, BootRecord]):
    """One boot trial of a plan: a step."""

    kind = BOOT
    set_up_shared = False

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep. They are never placed."""
        return tuple(build_member(number, self.factors.memory_mib) for number in range(self.trial.point.guests))

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return an estimate. The trial has two quiet times: before the start, and once all guests are up."""
        thrown_away = 1 if self.trial.point.start == "hot" else 0
        return [min(self.factors.limit_s, USUAL_START_S * (self.trial.point.guests + thrown_away)) + 2 * QUIET_S]

    def verdict_of(self, record: BootRecord) -> Verdict:
        return record.verdict

    async def attempt(self, bench: Bench, attempt: int) -> BootRecord:
        """Take one attempt, see CrewStep. Raises NodeError for what the platform does not support."""
        members = self.members(())
        turn = f"{self.hash}/{attempt}"
        try:
            seen = await BootMeasurement(self.trial.point, self.factors.limit_s, members, bench, turn).take()
        except TooLittleMemory as exc:
            return self._void(reason("no_memory", exc.message), bench, attempt)
        return self._record(seen, bench, attempt)

    def has_started_guests(self, record: BootRecord) -> bool:
        return "no_memory" not in {each.code for each in record.verdict.reasons}

    def unmeasured(self, problem: MeasurementError, bench: Bench, attempt: int) -> BootRecord:
        return self._void(reason("not_measured", str(problem)), bench, attempt)

    def _void(self, why: Reason, bench: Bench, attempt: int) -> BootRecord:
        """Return the record of a boot trial without observations."""
        stage = bench.stage
        seen = BootObservation(
            observations=build_empty_observations(why),
            set_up=None,
            clocks=None,
            guests=(),
            file_system=None,
            files=None,
            memory=None,
            idle=None,
            swapped_pages=None,
            timekeeper=None,
            missing=(),
            attestation={},
            environment=stage.environment((stage.uut, stage.timekeeper)),
        )
        return self._record(seen, bench, attempt)

    def _record(self, seen: BootObservation, bench: Bench, attempt: int) -> BootRecord:
        factors, inventory, point = self.factors, bench.inventory, self.trial.point
        error_s = None if seen.clocks is None else clock_error_s(seen.clocks)
        marks_s = [each.mark_s for each in seen.guests]
        allowed_s = clock_allowed_s(latest_s(marks_s))
        verdict = judge(
            seen.observations,
            seen.guests,
            start=point.start,
            clock_error_s=error_s,
            clock_error_allowed_s=allowed_s,
            files=seen.files,
            timekeeper=seen.timekeeper,
            swapped_pages=seen.swapped_pages,
            missing=seen.missing,
            limits=self.tolerances,
            inventory=inventory,
        )
        notes: list[Figures] = [*influences(seen.observations, (), inventory.uut)]
        notes += coarse_notes(seen.guests, inventory.uut)
        first_ns = min((each.started_ns for each in seen.guests if each.started_ns is not None), default=None)
        return BootRecord(
            boot_id=seen.observations.run_id,
            started_at=seen.observations.started_at,
            finished_at=utc_now(),
            testbed=inventory.testbed,
            testbed_fingerprint=inventory.fingerprint(),
            emulated=inventory.emulated,
            operator=bench.operator,
            labconsole_version=__version__,
            plan=self.ref(attempt),
            requested=BootRequested(
                platform=point.platform,
                guests=point.guests,
                start=point.start,
                limit_s=factors.limit_s,
                memory_mib=factors.memory_mib,
            ),
            set_up=seen.set_up,
            clocks=seen.clocks,
            mark_zero_ns=None if seen.clocks is None or first_ns is None else mark_zero_ns(seen.clocks, first_ns),
            clock_error_s=error_s,
            clock_error_allowed_s=allowed_s,
            guests=seen.guests,
            startup_s=latest_s(marks_s),
            ready_s=latest_s([each.ready_s for each in seen.guests]),
            sd_s=deviation_s(marks_s),
            file_system=seen.file_system,
            files=seen.files,
            memory=seen.memory,
            idle=seen.idle,
            swapped_pages=seen.swapped_pages,
            timekeeper=seen.timekeeper,
            in_force=self.in_force,
            verdict=verdict,
            attestation=seen.attestation,
            influences=tuple(notes),
            environment=seen.environment,
            status="failed" if verdict.status == "invalid" else "done",
            failure=describe_failure(verdict),
        )

    def picture(self, record: StepRecord) -> StepPicture:
        """Return the trial's result as text and guests."""
        if not isinstance(record, BootRecord):
            return StepPicture()
        return StepPicture(found=tuple(describe_result(record)), guests=guests_started(record.guests))


def describe_result(record: BootRecord) -> list[str]:
    """Return the start-up time and the guests' memory, a line each."""
    took = "not all guests came" if record.startup_s is None else f"all up after {record.startup_s:.3f} s"
    spread = "" if record.sd_s is None else f", sd between guests {record.sd_s:.3f} s"
    used = None if record.memory is None else record.memory.used_bytes
    if used is None:
        return [took + spread]
    return [took + spread, f"{abs(used) / 2**20:.1f} MiB {'less' if used >= 0 else 'more'} memory available"]
