"""Kinds of experiment with guests: the trials of a plan as steps, those of them that are stored, and whole blocks.

All trials of a block in one crew share its guests: they are repeated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from labconsole.contracts.crew import CrewOffer
from labconsole.contracts.experiment import ExperimentStore, Stage, Step, StepRecord
from labconsole.engine.crew_step import CrewStep, F, P, R
from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.crews import CrewTrial
from labconsole.model.plan.plan import Plan
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.summary import RunFilter
from labconsole.plugins import load_kind_file

MAX_HASHES_PER_QUERY = 5000
"""Maximum number of hashes in one query, which a store limits."""

SOME_CPUS = (0,)
"""Placeholder for the UUT's CPUs until they are read; whether guests can be pinned does not depend on numbers."""

T = TypeVar("T", bound=CrewStep[Any, Any, Any])


class CrewExperiment(Generic[F, P, R]):
    """A kind of experiment with guests (contracts/experiment.py): each trial of its plans is a step, ``STEP`` of the
    kind's ``procedure.py``.
    """

    kind: ClassVar[RecordKind[Any]]

    def __init__(self, store: ExperimentStore[R]) -> None:
        self.store = store

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[CrewStep[F, P, R]]:
        """Every trial of a plan that is resolved for its testbed, or ``only`` on the platforms of these points."""
        guests = plan.guests
        if guests is None or guests.kind != self.kind.name:
            return []
        salted = replace(guests, salt=salt or guests.salt)
        make: type[CrewStep[F, P, R]] = load_kind_file(self.kind.name, "procedure").STEP  # takes time to import
        at = {point.request.platform: point.request.loadless() for point in plan.points}
        return [
            make(
                trial=trial,
                request=at[trial.point.platform],
                hash=salted.hash_of(trial),
                plan_name=plan.name,
                store=self.store,
                factors=guests.factors,
                tolerances=plan.tolerances,
                settle_s=plan.settle_s,
                retry=plan.retry,
                seed=plan.seed,
                set_ups=guests.set_ups,
                repetitions=guests.repetitions,
                attempts=plan.max_redo + 1,
                margin_ratio=plan.margin_ratio,
                plan_hash=None if plan.ad_hoc else plan.hash(),
            )
            for trial in filter_trials(plan, guests.trials, only)
        ]

    def stored(self, steps: Sequence[CrewStep[F, P, R]], testbed_fingerprint: str) -> Mapping[str, R]:
        """See load_usable_records()."""
        return load_usable_records(self.store, self.kind, steps, testbed_fingerprint)

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[Step, R]]:
        """Empty: earlier trials are shown with the results."""
        return []

    def refuse(
        self, steps: Sequence[CrewStep[F, P, R]], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]:
        """The steps that a platform cannot run, with reasons. See find_refusals()."""
        return find_refusals(steps, lambda step: self.check(step, inventory, stage))

    def check(self, step: CrewStep[F, P, R], inventory: Inventory, stage: Stage) -> None:
        """Raise ConfigError if this testbed cannot run the step, which others at the same point share."""
        stage.offer(step.trial.point.platform, step.members(SOME_CPUS))


def filter_trials(plan: Plan, trials: Iterable[CrewTrial[P]], only: frozenset[int] | None) -> list[CrewTrial[P]]:
    """The trials on the platforms of these points of the plan, or all if ``only`` is None."""
    platforms = {point.request.platform for point in plan.points if only is None or point.index in only}
    return [trial for trial in trials if trial.point.platform in platforms]


def find_refusals(steps: Sequence[T], check: Callable[[T], None]) -> dict[str, ConfigError]:
    """The steps at whose point ``check`` raises ConfigError, by hash. Raises the first error if that is every step."""
    at: dict[int, ConfigError | None] = {}
    found: dict[str, ConfigError] = {}
    for step in steps:
        point = step.trial.point
        if point.index not in at:
            at[point.index] = None
            try:
                check(step)
            except ConfigError as exc:
                at[point.index] = exc
        if (problem := at[point.index]) is not None:
            found[step.hash] = problem
    if len(found) == len(steps) and found:
        raise next(iter(found.values()))
    return found


def require_program(program: str, offer: CrewOffer) -> None:
    """Raises ConfigError if the local lab's guests lack the program. The contents of other images are unknown."""
    if offer.no_programs is not None:
        raise ConfigError(
            f"{offer.no_programs}, and the image of the local lab has no {program}: bring the lab up by "
            "`labconsole lab up --jobs`",
            key="platforms",
        )


def describe_refusals(steps: Iterable[Step], refusals: Mapping[str, ConfigError]) -> list[str]:
    """One sentence per reason, with the trials that cannot be taken."""
    of: dict[str, list[Step]] = {}
    for step in steps:
        if step.hash in refusals:
            of.setdefault(str(refusals[step.hash]), []).append(step)
    return [
        f"{alike[0].describe()}{f', and {len(alike) - 1} more' if alike[1:] else ''}: {why}"
        for why, alike in of.items()
    ]


def load_by_hash(
    store: ExperimentStore[R], kind: RecordKind[R], hashes: Sequence[str], testbed_fingerprint: str
) -> Iterator[R]:
    """Every attempt of trials with these hashes, the oldest first for each. Blocking."""
    for first in range(0, len(hashes), MAX_HASHES_PER_QUERY):
        chunk = hashes[first : first + MAX_HASHES_PER_QUERY]
        where = RunFilter(plan_hash=chunk, testbed_fingerprint=testbed_fingerprint)
        yield from reversed(store.experiments(kind, where))


def load_usable_records(
    store: ExperimentStore[R],
    kind: RecordKind[R],
    steps: Sequence[CrewStep[Any, Any, R]],
    testbed_fingerprint: str,
    another: Callable[[R], bool] = lambda record: False,
) -> dict[str, R]:
    """The newest usable record of each trial whose crew completed its block. Blocking.

    ``another``: whether a record is of other guests than requested, which its hash does not show.

    A crew that did not complete its block is set up again, and all of its trials are repeated. Raises ConfigError if
    more repetitions are requested of a crew that did complete its block, because it is gone.
    """
    done: dict[str, R] = {}
    tried: dict[str, int] = {}
    for record in load_by_hash(store, kind, [each.hash for each in steps], testbed_fingerprint):
        found: Any = record
        if found.format == kind.format and not another(record):
            tried[found.plan.hash] = found.plan.repetitions
            if found.status == "done":
                done[found.plan.hash] = record
    broken = {(each.trial.point.crew, each.trial.block) for each in steps if each.hash not in tried}
    _refuse_outgrown([each for each in steps if (each.trial.point.crew, each.trial.block) in broken], tried)
    return {
        each.hash: done[each.hash]
        for each in steps
        if each.hash in done and (each.trial.point.crew, each.trial.block) not in broken
    }


def _refuse_outgrown(steps: Sequence[CrewStep[Any, Any, Any]], tried: Mapping[str, int]) -> None:
    """``steps``: of crews that lack trials; ``tried``: the number of repetitions requested when each was taken."""
    lacking: dict[tuple[object, int], list[CrewStep[Any, Any, Any]]] = {}
    for each in steps:
        lacking.setdefault((each.trial.point.crew, each.trial.block), []).append(each)
    for (_, block), of_crew in lacking.items():
        planned = {tried[each.hash] for each in of_crew if each.hash in tried}
        before = planned.pop() if len(planned) == 1 else None
        if before is None or before >= of_crew[0].repetitions:
            continue
        if all((each.hash in tried) == (each.trial.repetition <= before) for each in of_crew):
            raise ConfigError(
                f"plan {of_crew[0].plan_name} asks for more trials in a set-up than block {block} had, and its set-ups "
                "are gone: raise set_ups instead",
                key="repetitions",
                value=of_crew[0].repetitions,
                allowed=str(before),
            )


def count_steps_in_broken_blocks(taken: Iterable[Step], lacking: Iterable[Step]) -> int:
    """The number of taken steps that share guests with a missing one, so that they will be repeated."""
    return len(find_steps_in_broken_blocks(taken, lacking))


def find_steps_in_broken_blocks(taken: Iterable[Step], lacking: Iterable[Step]) -> list[Step]:
    """The taken steps that share guests with a missing one."""
    broken = {(each.trial.point.crew, each.trial.block) for each in lacking if isinstance(each, CrewStep)}
    of_crews = [each for each in taken if isinstance(each, CrewStep) and each.set_up_shared]
    return [each for each in of_crews if (each.trial.point.crew, each.trial.block) in broken]


def count_trials(step: Step, record: StepRecord | None) -> int:
    """The number of trials a crew's step counts as: one, or zero if its guests did not start."""
    return int(isinstance(step, CrewStep) and record is not None and step.has_started_guests(record))


def drop_incomplete_blocks(steps: Sequence[Step], stored: Mapping[str, StepRecord]) -> dict[str, StepRecord]:
    """Drop blocks in which a crew's trial is missing or invalid for a mean: only whole blocks are compared."""
    of_crews = [step for step in steps if isinstance(step, CrewStep)]
    doubted = set()
    for step in of_crews:
        record = stored.get(step.hash)
        if record is None or step.verdict_of(record).status != "valid":
            doubted.add(step.trial.block)
    again = {step.hash for step in of_crews if step.trial.block in doubted}
    return {key: record for key, record in stored.items() if key not in again}
