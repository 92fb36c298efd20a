"""What trials of jobs and of starts of guests have in common when they are summed up: which enter, and which may be
held against each other. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, Effect, holm, paired_effect, unpaired_effect
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.model.conditions import hypervisor_words, seen_conditions
from labconsole.model.record.crew_trial import CrewTrialRef

NOT_DRAWN = "all blocks took them in the same order"
_NOTHING: dict[str, Any] = dict.fromkeys(
    ("ci_low", "ci_high", "ci90_low", "ci90_high", "p", "mean_log", "error_log", "sd_log", "degrees")
)


class NodeOutside(Protocol):
    """What a record says of the node that is not the unit under test."""

    @property
    def node(self) -> str: ...


class TrialOfGuests(Protocol):
    """What their records have."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def started_at(self) -> str: ...
    @property
    def plan(self) -> CrewTrialRef: ...
    @property
    def status(self) -> str: ...
    @property
    def timekeeper(self) -> NodeOutside | None: ...
    @property
    def environment(self) -> Mapping[str, Any]: ...
    @property
    def attestation(self) -> Mapping[str, Any]: ...


class PointOfHypervisor(Protocol):
    """A point, a named tuple, that is another one under another hypervisor."""

    @property
    def hypervisor(self) -> str: ...


T = TypeVar("T", bound=TrialOfGuests)
K = TypeVar("K", bound=PointOfHypervisor)


def newest_trials(every: Iterable[T]) -> list[T]:
    """Of the trials that a plan knows by one hash the last that can be stood behind, or else the last."""
    found: dict[tuple[str, str], T] = {}
    for record in every:
        key = record.testbed_fingerprint, record.plan.hash
        if key not in found or record.status == "done" or found[key].status != "done":
            found[key] = record
    return list(found.values())


def uut_facts(record: TrialOfGuests) -> Mapping[str, Any]:
    """What the unit under test says of itself: of the nodes of a trial the one that is not the timekeeper."""
    keeper = None if record.timekeeper is None else record.timekeeper.node
    nodes = record.environment.get("nodes", {})
    for name, told in nodes.items() if isinstance(nodes, dict) else ():
        facts = told.get("facts") if isinstance(told, dict) else None
        if name != keeper and isinstance(facts, dict):
            return facts
    return {}


def uut_kernel(record: TrialOfGuests) -> str:
    """Of the unit under test; "" if it is not told."""
    return str(uut_facts(record).get("kernel", ""))


def hypervisor(record: TrialOfGuests) -> str:
    """The driver, with the versions of what runs the guests and of what they start from; "" if it is not told."""
    return hypervisor_words(seen_conditions({"platform": record.attestation}, None)) or ""


def with_points(records: Iterable[T], key_of: Callable[[T], K]) -> Iterator[tuple[K, T]]:
    """Each trial with its point. One that ended before its guests were looked at is of the hypervisor that the others
    of its point have, where they have one.
    """
    keyed = [(key_of(record), record) for record in records]
    known: dict[K, set[K]] = {}
    for key, _ in keyed:
        if key.hypervisor:
            known.setdefault(_without_hypervisor(key), set()).add(key)
    for key, record in keyed:
        alike = set() if key.hypervisor else known.get(key, set())
        yield next(iter(alike)) if len(alike) == 1 else key, record


def _without_hypervisor(key: K) -> K:
    return cast("K", cast("Any", key)._replace(hypervisor=""))


class Block(NamedTuple):
    """What trials have to share before they may be paired: the block of one plan on one testbed, one boot of the unit
    under test, and one stretch, in which no trial of another block of the plan was taken.
    """

    testbed_fingerprint: str
    plan: str
    plan_hash: str | None
    number: int
    boot_id: str
    stretch: int


class Blocks(Generic[T]):
    """The blocks of everything that is stored: what enters nothing parts a block as well."""

    def __init__(self, every: Iterable[T]) -> None:
        self._of: dict[int, Block | None] = {}
        self._kept: list[T] = []  # what is known by its id must not go
        latest: dict[tuple[str, str, str | None], tuple[int, int]] = {}
        for record in sorted(every, key=lambda each: each.started_at):
            plan = record.testbed_fingerprint, record.plan.name, record.plan.plan_hash
            number, stretch = latest.get(plan, (0, 0))
            if record.plan.block != number:
                stretch += 1
                latest[plan] = record.plan.block, stretch
            boot_id = uut_facts(record).get("boot_id")
            self._kept.append(record)
            self._of[id(record)] = Block(*plan, record.plan.block, str(boot_id), stretch) if boot_id else None

    def means(self, records: Iterable[T], value: Callable[[T], float | None]) -> dict[Block, float]:
        """Of each block the mean of ``value`` over these trials. Without those whose boot is not known."""
        found: dict[Block, list[float]] = {}
        for record in records:
            block, taken = self._of[id(record)], value(record)
            if block is not None and taken is not None:
                found.setdefault(block, []).append(taken)
        return set_up_means(found)

    def effect(self, ours: Sequence[T], theirs: Sequence[T], value: Callable[[T], float | None]) -> Effect:
        """What ``ours`` differ by from ``theirs``: paired by block; where they share no boot at all, over three boots a
        side (Welch). Claims nothing where all blocks took them in the same order, which no drawn order does: a drift
        within blocks would be taken for a difference.
        """
        one, other = self.means(ours, value), self.means(theirs, value)
        if one.keys() & other.keys():
            effect = paired_effect(one, other)
            return effect if self._drawn(ours, theirs) else replace(effect, absent=NOT_DRAWN, **_NOTHING)
        boots = [{block.boot_id for block in side} for side in (one, other)]
        if one and other and not boots[0] & boots[1]:
            return unpaired_effect(*(_by_boot(side) for side in (one, other)))
        return paired_effect({}, {})

    def _drawn(self, ours: Sequence[T], theirs: Sequence[T]) -> bool:
        """By when they were begun, whatever the plan says: every second block has the order of the one before it
        reversed.
        """
        first, second = self._begun(ours), self._begun(theirs)
        before = [first[block] < second[block] for block in first if block in second]
        return len(before) < MINIMUM_BLOCKS or (any(before) and not all(before))

    def _begun(self, records: Iterable[T]) -> dict[Block, str]:
        found: dict[Block, str] = {}
        for record in records:
            block = self._of[id(record)]
            if block is not None:
                found[block] = min(record.started_at, found.get(block, record.started_at))
        return found


def _by_boot(means: Mapping[Block, float]) -> list[float]:
    boots: dict[str, list[float]] = {}
    for block, mean in means.items():
        boots.setdefault(block.boot_id, []).append(mean)
    return list(set_up_means(boots).values())


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """By Holm over those that there are."""
    known = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(known) for p in p_values]
