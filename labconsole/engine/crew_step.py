"""One trial of guests as a step of a plan: its attempts, from the guests' set-up to the stored record.

A trial is repeated while it is invalid, as often as the plan allows. Each attempt is stored.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from labconsole.contracts.crew import USUAL, CrewMember, HowMade, StandingCrew
from labconsole.contracts.experiment import Bench, ExperimentStore, StepRecord
from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.engine.crew_measurement import NOT_SET_UP, CrewAttempt, build_empty_observations, start_crew
from labconsole.errors import Aborted, GuestLacks, LabError, MeasurementError, NodeLost
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.plan.crews import CrewPoint, CrewTrial
from labconsole.model.plan.execution_options import Retry
from labconsole.model.record.kind import CrewTrialRef, ExperimentRecord, RecordKind
from labconsole.model.record.run import Figures, InForce, Reason, Verdict
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.strict_model import StrictModel
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import Port
from labconsole.verdict.crew_trial import judged
from labconsole.verdict.influences import influences
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.wire.version import __version__

F = TypeVar("F", bound=StrictModel)
P = TypeVar("P", bound=CrewPoint)
R = TypeVar("R", bound=ExperimentRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewStep(ABC, Generic[F, P, R]):
    """One trial of a plan. ``request``: the testbed it needs, as a design point without a load.

    A kind's step says which guests it has, takes one attempt, and has fields for its record. The rest is here.
    """

    kind: ClassVar[RecordKind[Any]]
    hopeless: ClassVar[frozenset[str]] = frozenset()
    """Codes of failures that another attempt cannot fix; retried only if the plan says so."""

    set_up_shared: ClassVar[bool] = False
    """Whether a block's trials of one crew use the same guests, and are therefore repeated together."""

    no_results: ClassVar[Mapping[str, Any]]
    """The kind's own fields in the record of a trial without observations."""

    captures: ClassVar[bool] = False
    """Whether packets are captured, so that the drain time applies."""

    trial: CrewTrial[P]
    request: DesignPoint
    hash: str
    plan_name: str
    store: ExperimentStore[R]
    factors: F
    tolerances: Tolerances = field(default_factory=Tolerances)
    retry: Retry = field(default_factory=Retry)
    seed: int = 0
    set_ups: int = 1
    repetitions: int = 1
    attempts: int = 1
    margin_ratio: float | None = None
    plan_hash: str | None = None
    settle_s: float | None = None

    def describe(self) -> str:
        """One line for people."""
        block = f", set-up {self.trial.block} of {self.set_ups}" if self.set_ups > 1 else ""
        repetition = f", repetition {self.trial.repetition}" if self.repetitions > 1 else ""
        return f"{self.trial.point.words()}{block}{repetition}"

    def format_factors(self) -> dict[str, str]:
        """The values that distinguish it from the plan's other steps, by table heading."""
        return {
            **self.trial.point.format_factors(),
            "set-up": str(self.trial.block),
            "repetition": str(self.trial.repetition),
        }

    @abstractmethod
    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """The sending time of its trial, or an estimate."""

    @abstractmethod
    def members(self, cpus: Sequence[int]) -> tuple[CrewMember, ...]:
        """Its guests. ``cpus``: of the UUT, to place them on (see choose_cpu()); empty if they are not placed."""

    @abstractmethod
    def requested(self, inventory: Inventory) -> StrictModel:
        """The request, for its record."""

    def link_fields(self, inventory: Inventory) -> Mapping[str, Any]:
        """The kind's own fields that follow from the testbed."""
        return {}

    @abstractmethod
    async def attempt(self, bench: Bench, attempt: int) -> R:
        """Run one attempt, from 1. Raises MeasurementError if it gave no record and may be repeated, and NodeError if
        the crew cannot be set up.
        """

    @abstractmethod
    def draw(self, record: R) -> StepPicture:
        """The picture of the trial's result."""

    async def take(self, bench: Bench) -> R:
        """Take the trial, again while it is invalid; return the last attempt's record.

        Raises Aborted when no further trial may begin, NodeError when the crew cannot be set up.
        """
        attempt = 1
        while True:
            await bench.begin()
            retryable = True
            try:
                record = await self._attempt(bench, attempt)
            except Aborted:
                raise  # nothing was wrong with the trial
            except MeasurementError as exc:
                retryable = not isinstance(exc, GuestLacks)
                if retryable and attempt < self.attempts:
                    await bench.over("invalid", again=str(exc))
                    attempt += 1
                    continue
                record = self.void(reason("not_measured", str(exc)), bench, attempt)
            await asyncio.to_thread(self.store.save_experiment, self.kind, record)
            verdict = self.verdict_of(record)
            if not self.has_started_guests(record):
                return record  # such a trial says nothing of the testbed's state
            more = retryable and verdict.status == "invalid" and attempt < self.attempts
            again = self._again(verdict) if more else ""
            await bench.over(verdict.status, again=again)
            if not again:
                return record
            attempt += 1

    async def _attempt(self, bench: Bench, attempt: int) -> R:
        """Run one attempt. Reported values that no record accepts are a failed measurement, not a bug."""
        try:
            return await self.attempt(bench, attempt)
        except ValidationError as exc:
            raise self.kept(exc) from exc

    def kept(self, problem: Exception) -> MeasurementError:
        """The problem that prevented the measurement, with the description of the trial."""
        text = str(problem)
        if isinstance(problem, ValidationError):
            first = problem.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            text = f"invalid value reported: {where}: {first['msg']}, got {str(first['input'])[:80]}"
        kind = GuestLacks if isinstance(problem, GuestLacks) else MeasurementError
        return kind(f"{self.describe()}: {text}")

    def verdict_of(self, record: Any) -> Verdict:
        """The record's verdict."""
        verdict: Verdict = record.verdict
        return verdict

    def has_started_guests(self, record: Any) -> bool:
        """Whether the trial's guests were set up. If not, they are not set up again for each of the crew's trials."""
        return record.set_up is not None or not NOT_SET_UP & {each.code for each in self.verdict_of(record).reasons}

    def picture(self, record: StepRecord) -> StepPicture:
        """The picture of the trial's result."""
        return self.draw(record) if isinstance(record, self.kind.record) else StepPicture()

    def void(self, why: Reason, bench: Bench, attempt: int) -> R:
        """The record of a trial without observations."""
        seen, stage = build_empty_observations(why), bench.stage
        return self.build_record(
            seen,
            judged(seen, (), (), limits=self.tolerances, inventory=bench.inventory),
            bench,
            attempt,
            set_up=None,
            swapped_pages=None,
            attestation={},
            environment=stage.environment((stage.uut, stage.timekeeper)),
            **self.no_results,
        )

    def build_record(self, seen: TrialObservations, verdict: Verdict, bench: Bench, attempt: int, **found: Any) -> R:
        """The record of an attempt: what every kind says of it, and ``found``."""
        inventory = bench.inventory
        record: R = self.kind.record(
            **{f"{self.kind.name}_id": seen.run_id},
            started_at=seen.started_at,
            finished_at=utc_now(),
            testbed=inventory.testbed,
            testbed_fingerprint=inventory.fingerprint(),
            emulated=inventory.emulated,
            operator=bench.operator,
            labconsole_version=__version__,
            plan=self.ref(attempt),
            requested=self.requested(inventory),
            **self.link_fields(inventory),
            in_force=InForce(
                tolerances=self.tolerances.model_dump(),
                settle_s=self.settle_s,
                drain_s=inventory.defaults.drain_s if self.captures else None,
            ),
            verdict=verdict,
            status="failed" if verdict.status == "invalid" else "done",
            failure=describe_failure(verdict),
            **found,
        )
        return record

    def _again(self, verdict: Verdict) -> str:
        """The causes that another attempt may fix, as text; empty if there are none."""
        causes = [each for each in verdict.reasons if each.follows is None and WEIGHT[each.code] == "invalid"]
        codes = self.retry.codes
        retryable = [
            each for each in causes if (each.code not in self.hopeless if codes is None else each.code in codes)
        ]
        return "; ".join(f"{each.code}: {each.detail}" for each in retryable)

    def ref(self, attempt: int) -> CrewTrialRef:
        """A record's reference to its place in the plan."""
        return CrewTrialRef(
            name=self.plan_name,
            hash=self.hash,
            point=self.trial.point.index,
            block=self.trial.block,
            repetition=self.trial.repetition,
            position=self.trial.position,
            seed=self.seed,
            set_ups=self.set_ups,
            repetitions=self.repetitions,
            attempt=attempt,
            attempts=self.attempts,
            margin_ratio=self.margin_ratio,
            plan_hash=self.plan_hash,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCrewStep(CrewStep[F, P, R]):
    """One trial of a plan in guests that stay for all trials of their block."""

    set_up_shared = True
    noun: ClassVar[str] = "guest"

    @abstractmethod
    async def measure(self, crew: StandingCrew, bench: Bench, attempt: int) -> R:
        """Run one attempt with these guests, and conclude() it. Raises LabError."""

    def set_up_options(self, inventory: Inventory) -> HowMade:
        """How its guests are set up."""
        return USUAL

    async def attempt(self, bench: Bench, attempt: int) -> R:
        """Set the guests up unless they are running, and measure. They are not used again after a failure."""
        stage, point = bench.stage, self.trial.point
        members = self.members(() if point.cpu == "any" else await stage.guest_cpus(point.platform))
        many = f"{len(members)} {self.noun}{'s' if len(members) > 1 else ''}"
        bench.show(
            StepPicture(
                found=(f"{many} on {point.platform}: being set up, or standing already",),
                guests=tuple(PictureGuest(name=member.name, state=CopyState.STARTS) for member in members),
            )
        )
        turn = (self.plan_name, self.trial.block)
        crew = await start_crew(stage, stage.stand(point.platform, members, turn, self.set_up_options(bench.inventory)))
        if isinstance(crew, Reason):
            return self.void(crew, bench, attempt)
        try:
            record = await self.measure(crew, bench, attempt)
        except (NodeLost, Aborted):
            raise
        except (LabError, ValidationError) as exc:
            await stage.restore()
            raise self.kept(exc) from exc
        if self.verdict_of(record).status == "invalid":
            await stage.restore()
        return record

    def conclude(
        self,
        taken: CrewAttempt,
        shown: Iterable[Reason],
        bench: Bench,
        attempt: int,
        *,
        ports: Sequence[Port] = (),
        notes: Iterable[Figures] = (),
        **found: Any,
    ) -> R:
        """The record of an attempt that was measured. ``shown``: reasons from the results alone; ``ports``: the
        interfaces that they rest on; ``notes``: further influences; ``found``: the kind's own fields.
        """
        seen, inventory = taken.observations, bench.inventory
        return self.build_record(
            seen,
            judged(seen, shown, taken.problems, limits=self.tolerances, inventory=inventory, ports=ports),
            bench,
            attempt,
            set_up=taken.set_up,
            swapped_pages=taken.swapped_pages,
            attestation=taken.crew.crew.attestation,
            influences=(*influences(seen, (), inventory.uut), *notes),
            environment=bench.stage.environment(taken.nodes, seen.settings()),
            **found,
        )


def describe_failure(verdict: Verdict) -> str | None:
    """Why nothing can be concluded, or None if something can."""
    if verdict.status != "invalid":
        return None
    return "; ".join(each.detail for each in verdict.reasons if each.follows is None)
