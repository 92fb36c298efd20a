"""One nap as a step of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from labconsole.contracts.crew import CrewMember, StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import StepPicture
from labconsole.engine.crew_measurement import CrewAttempt
from labconsole.engine.crew_stage import build_member
from labconsole.engine.crew_step import SharedCrewStep
from labconsole.model.inventory import Inventory
from labconsole.verdict.reasons import reason

from .plan import NapFactors, NapPoint
from .record import RECORD, NapRecord, NapRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class NapStep(SharedCrewStep[NapFactors, NapPoint, NapRecord]):
    """One nap."""

    kind = RECORD
    no_results: ClassVar[Mapping[str, Any]] = {"slept_s": (), "longest_s": None}

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """As long as requested."""
        return [self.factors.for_s]

    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """See CrewStep."""
        return tuple(build_member(number, self.factors.memory_mib) for number in range(self.trial.point.guests))

    def requested(self, inventory: Inventory) -> NapRequested:
        """See CrewStep."""
        factors, point = self.factors, self.trial.point
        return NapRequested(
            platform=point.platform,
            guests=point.guests,
            bed=point.bed,
            for_s=factors.for_s,
            memory_mib=factors.memory_mib,
        )

    async def measure(self, crew: StandingCrew, bench: Bench, attempt: int) -> NapRecord:
        """See SharedCrewStep."""
        taken, line = CrewAttempt(bench.stage, crew), f"time -p sleep {self.factors.for_s:g}"
        slept_s = tuple([float(await each.ask(crew.uut, line)) for each in crew.crew.members])
        await taken.attest()
        shown = [] if min(slept_s) >= self.factors.for_s else [reason("job_failed", "a guest woke up early")]
        return self.conclude(taken, shown, bench, attempt, slept_s=slept_s, longest_s=max(slept_s))

    def draw(self, record: NapRecord) -> StepPicture:
        """See CrewStep."""
        return StepPicture(found=(f"{record.longest_s} s",))


STEP = NapStep
