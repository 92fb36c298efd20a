"""One boot trial as a step of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from labconsole.contracts.crew import CrewMember
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import StepPicture
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import CrewStep
from labconsole.errors import TooLittleMemory
from labconsole.experiments.boot.derived_values import (
    clock_allowed_s,
    clock_error_s,
    coarse_notes,
    deviation_s,
    latest_s,
    mark_zero_ns,
)
from labconsole.experiments.boot.measurement import QUIET_S, BootMeasurement, BootObservation, guests_started
from labconsole.experiments.boot.plan import BootFactors, BootPoint
from labconsole.experiments.boot.record import RECORD, BootRecord, BootRequested
from labconsole.experiments.boot.verdict import derive_reasons
from labconsole.model.inventory import Inventory
from labconsole.verdict.crew_trial import judged
from labconsole.verdict.influences import influences
from labconsole.verdict.reasons import reason

USUAL_START_S = 5.0
"""The assumed start-up time of a guest, for estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootStep(CrewStep[BootFactors, BootPoint, BootRecord]):
    """One boot trial of a plan: a step."""

    kind = RECORD
    no_results: ClassVar[Mapping[str, Any]] = {
        "clocks": None,
        "mark_zero_ns": None,
        "clock_error_s": None,
        "clock_error_allowed_s": None,
        "guests": (),
        "startup_s": None,
        "ready_s": None,
        "sd_s": None,
        "file_system": None,
        "files": None,
        "memory": None,
        "idle": None,
        "timekeeper": None,
    }

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return an estimate. The trial has two quiet times: before the start, and once all guests are up."""
        thrown_away = 1 if self.trial.point.start == "hot" else 0
        return [min(self.factors.limit_s, USUAL_START_S * (self.trial.point.guests + thrown_away)) + 2 * QUIET_S]

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep. They are never placed."""
        return tuple(build_member(number, self.factors.memory_mib) for number in range(self.trial.point.guests))

    def requested(self, inventory: Inventory) -> BootRequested:
        """See CrewStep."""
        factors, point = self.factors, self.trial.point
        return BootRequested(
            platform=point.platform,
            guests=point.guests,
            start=point.start,
            limit_s=factors.limit_s,
            memory_mib=factors.memory_mib,
        )

    async def attempt(self, bench: Bench, attempt: int) -> BootRecord:
        """Take one attempt with new guests, see CrewStep."""
        turn = f"{self.hash}/{attempt}"
        measurement = BootMeasurement(self.trial.point, self.factors.limit_s, self.members(()), bench, turn)
        try:
            seen = await measurement.take()
        except TooLittleMemory as exc:
            return self.void(reason("no_memory", exc.message), bench, attempt)
        return self._conclude(seen, bench, attempt)

    def has_started_guests(self, record: Any) -> bool:
        """See CrewStep. Each attempt starts new guests, unless they do not fit into memory."""
        return "no_memory" not in {each.code for each in self.verdict_of(record).reasons}

    def _conclude(self, seen: BootObservation, bench: Bench, attempt: int) -> BootRecord:
        """Return the record of a measurement, with its verdict."""
        inventory = bench.inventory
        error_s = None if seen.clocks is None else clock_error_s(seen.clocks)
        marks_s = [each.mark_s for each in seen.guests]
        allowed_s = clock_allowed_s(latest_s(marks_s))
        shown = derive_reasons(
            seen.guests,
            start=self.trial.point.start,
            clock_error_s=error_s,
            clock_error_allowed_s=allowed_s,
            files=seen.files,
            timekeeper=seen.timekeeper,
            swapped_pages=seen.swapped_pages,
            limits=self.tolerances,
        )
        # The UUT's port is reconfigured for the guests during the trial, so only the timekeeper's is compared.
        ports = [] if seen.timekeeper is None else [(seen.timekeeper.node, seen.timekeeper.interface)]
        verdict = judged(
            seen.observations, shown, seen.missing, limits=self.tolerances, inventory=inventory, ports=ports
        )
        first_ns = min((each.started_ns for each in seen.guests if each.started_ns is not None), default=None)
        return self.build_record(
            seen.observations,
            verdict,
            bench,
            attempt,
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
            attestation=seen.attestation,
            influences=(
                *influences(seen.observations, (), inventory.uut),
                *coarse_notes(seen.guests, inventory.uut),
            ),
            environment=seen.environment,
        )

    def draw(self, record: BootRecord) -> StepPicture:
        """Return the trial's result as text and guests."""
        return StepPicture(found=tuple(describe_result(record)), guests=guests_started(record.guests))


STEP = BootStep


def describe_result(record: BootRecord) -> list[str]:
    """Return the start-up time and the guests' memory, a line each."""
    took = "not all guests came" if record.startup_s is None else f"all up after {record.startup_s:.3f} s"
    spread = "" if record.sd_s is None else f", sd between guests {record.sd_s:.3f} s"
    used = None if record.memory is None else record.memory.used_bytes
    if used is None:
        return [took + spread]
    return [took + spread, f"{abs(used) / 2**20:.1f} MiB {'less' if used >= 0 else 'more'} memory available"]
