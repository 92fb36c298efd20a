"""What trials of jobs and of starts of guests have in common when they are summed up: which enter, and which may be
held against each other. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, Effect, holm, paired_effect, unpaired_effect
from labconsole.measure.statistics.line_in_blocks import LineInBlocks, line_in_blocks
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.model.record.crew_trial import CrewTrialRef
from labconsole.model.record.run import Verdict

NOT_DRAWN: Final = "too many blocks took them in the same order"
FEW_KINDS: Final = "values of all 3 blocks move by the same ratio: their set-ups may be of two kinds"
FEWER_ORDER_SHARE: Final = 4
"""At least one in so many blocks has the other order, or no order was drawn: it halves them, and one block may err."""

EXACT_RATIO: Final = 1e-9
"""Up to here ratios are equal but for floating point."""

_NOTHING: dict[str, Any] = dict.fromkeys(
    ("ci_low", "ci_high", "ci90_low", "ci90_high", "p", "mean_log", "error_log", "sd_log", "degrees")
)


def in_order(key: object) -> tuple[object, ...]:
    """What to sort points by, in which something may be None, which comes first."""
    if key is None:
        return (0,)
    return (1, *map(in_order, key)) if isinstance(key, tuple) else (1, key)


class NodeOutside(Protocol):
    """What a record says of the node that is not the unit under test."""

    @property
    def node(self) -> str: ...


class AskedOf(Hashable, Protocol):
    """What was asked."""

    @property
    def platform(self) -> str: ...


class TrialOfGuests(Protocol):
    """What their records have."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def started_at(self) -> str: ...
    @property
    def plan(self) -> CrewTrialRef: ...
    @property
    def requested(self) -> AskedOf: ...
    @property
    def status(self) -> str: ...
    @property
    def timekeeper(self) -> NodeOutside | None: ...
    @property
    def environment(self) -> Mapping[str, Any]: ...
    @property
    def attestation(self) -> Mapping[str, Any]: ...


class WithVerdict(Protocol):
    """A record with a verdict."""

    @property
    def verdict(self) -> Verdict: ...


def left_out_by(codes: Collection[str], trials: Iterable[WithVerdict]) -> str | None:
    """The first of these codes that one of these trials, which do not enter, has among its reasons; None: none has."""
    seen = {each.code for trial in trials for each in trial.verdict.reasons}
    return next((code for code in codes if code in seen), None)


class PointOfHypervisor(Protocol):
    """A point, a named tuple, that is another one under another hypervisor."""

    @property
    def platform(self) -> str: ...
    @property
    def hypervisor(self) -> str: ...


class Repeatable(Protocol):
    """What is taken once more where it failed."""

    @property
    def started_at(self) -> str: ...
    @property
    def status(self) -> str: ...


S = TypeVar("S", bound=Repeatable)
T = TypeVar("T", bound=TrialOfGuests)
K = TypeVar("K", bound=PointOfHypervisor)


def newest_trials(every: Iterable[T]) -> list[T]:
    """Of the trials that a plan knows by one hash the last that can be stood behind, or else the last."""
    return newest_of(every, lambda record: (record.testbed_fingerprint, record.plan.hash))


def newest_of(every: Iterable[S], place: Callable[[S], Hashable]) -> list[S]:
    """The same of all that have one ``place``."""
    found: dict[Hashable, S] = {}
    for record in sorted(every, key=lambda each: each.started_at):
        key = place(record)
        if key not in found or record.status == "done" or found[key].status != "done":
            found[key] = record
    return list(found.values())


def uut_facts(record: TrialOfGuests) -> Mapping[str, Any]:
    """What the unit under test says of itself: of the nodes of a trial the one that the record names, or else the one
    that is not the timekeeper.
    """
    keeper = None if record.timekeeper is None else record.timekeeper.node
    nodes, uut = record.environment.get("nodes", {}), record.environment.get("uut")
    if isinstance(nodes, dict) and isinstance(uut, str):
        nodes = {uut: nodes.get(uut)}
    for name, told in nodes.items() if isinstance(nodes, dict) else ():
        facts = told.get("facts") if isinstance(told, dict) else None
        if name != keeper and isinstance(facts, dict):
            return facts
    return {}


def uut_kernel(record: TrialOfGuests) -> str:
    """Of the unit under test; "" if it is not told."""
    return str(uut_facts(record).get("kernel", ""))


def with_points(
    records: Iterable[T], key_of: Callable[[T], K], seen_late: Sequence[str] = ("hypervisor",)
) -> Iterator[tuple[K, T]]:
    """Each trial with its point. ``seen_late``: words of a key that are empty where a trial ended before its guests
    were looked at; one that is not done is then of the point that has all else and these too, where there is one.
    """
    keyed = [(key_of(record), record) for record in records]
    known: dict[K, set[K]] = {}
    for key, _ in keyed:
        known.setdefault(_without(key, seen_late), set()).add(key)
    for key, record in keyed:
        more = [] if record.status == "done" else [
            each for each in known[_without(key, seen_late)] if _tells_more(each, key, seen_late)
        ]  # fmt: skip
        most = [each for each in more if not any(_tells_more(other, each, seen_late) for other in more)]
        yield most[0] if len(most) == 1 else key, record


def _without(key: K, seen_late: Sequence[str]) -> K:
    return cast("K", cast("Any", key)._replace(**dict.fromkeys(seen_late, "")))


def _tells_more(key: K, other: K, seen_late: Sequence[str]) -> bool:
    """Whether it tells all that the other does, and more."""
    return key != other and all(getattr(other, name) in ("", getattr(key, name)) for name in seen_late)


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
    part: str = ""


class Blocks(Generic[T]):
    """The blocks of everything that is stored: what enters nothing parts a block as well."""

    def __init__(self, every: Iterable[T]) -> None:
        self._of: dict[int, Block | None] = {}
        self._kept: list[T] = []  # what is known by its id must not go
        self._place: dict[int, tuple[object, ...]] = {}
        self._first: dict[tuple[object, ...], str] = {}
        latest: dict[tuple[str, str, str | None], tuple[int, int]] = {}
        for record in sorted(every, key=lambda each: each.started_at):
            plan = record.testbed_fingerprint, record.plan.name, record.plan.plan_hash
            number, stretch = latest.get(plan, (0, 0))
            if record.plan.block != number:
                stretch += 1
                latest[plan] = record.plan.block, stretch
            # Of a plan's file a trial may be taken again in a later stretch, and was drawn for its first.
            place = *plan, record.plan.block, 0 if record.plan.plan_hash else stretch, record.requested
            self._place[id(record)] = place
            self._first.setdefault(place, record.started_at)
            boot_id = uut_facts(record).get("boot_id")
            self._kept.append(record)
            self._of[id(record)] = Block(*plan, record.plan.block, str(boot_id), stretch) if boot_id else None

    def means(
        self, records: Iterable[T], value: Callable[[T], float | None], within: Callable[[T], str] | None = None
    ) -> dict[Block, float]:
        """Of each block the mean of ``value`` over these trials; ``within``: of each part of it that this calls by one
        name. Without those whose boot is not known.
        """
        found: dict[Block, list[float]] = {}
        for record in records:
            block, taken = self._of[id(record)], value(record)
            if block is not None and taken is not None:
                part = block if within is None else block._replace(part=within(record))
                found.setdefault(part, []).append(taken)
        return set_up_means(found)

    def effect(
        self,
        ours: Sequence[T],
        theirs: Sequence[T],
        value: Callable[[T], float | None],
        value_of_theirs: Callable[[T], float | None] | None = None,
        within: Callable[[T], str] | None = None,
        packets: float | None = None,
    ) -> Effect:
        """What ``ours`` differ by from ``theirs``: paired by block, or by part of it (see means()); where they share no
        boot at all, over three boots a side (Welch). Claims nothing where too many blocks took them in the same order,
        which no drawn order does: a drift within blocks would be taken for a difference. ``packets``: of a trial, the
        fewest, where values are counts of them.
        """
        one, other = self.means(ours, value, within), self.means(theirs, value_of_theirs or value, within)
        if one.keys() & other.keys():
            effect = paired_effect(one, other, packets=packets)
            absent = None if self.drawn(ours, theirs) else NOT_DRAWN
            absent = absent or (FEW_KINDS if _are_of_few_kinds(one, other) else None)
            return effect if absent is None else replace(effect, absent=absent, **_NOTHING)
        if within is not None:
            return paired_effect({}, {})
        boots = [{block.boot_id for block in side} for side in (one, other)]
        if one and other and not boots[0] & boots[1]:
            return unpaired_effect(*(_by_boot(side) for side in (one, other)), packets=packets)
        return paired_effect({}, {})

    def line(self, of: Mapping[int, Sequence[T]], value: Callable[[T], float | None]) -> LineInBlocks | None:
        """Of ``value`` over a number, such as of guests, with the trials taken at each: from the slopes within blocks.
        It has no intervals where too many blocks took neighbouring numbers in the same order.
        """
        means = {number: self.means(records, value) for number, records in sorted(of.items())}
        known = [number for number, each in means.items() if each]
        found = line_in_blocks({float(number): means[number] for number in known})
        drawn = all(self.drawn(of[one], of[other]) for one, other in pairwise(known))
        return found if found is None or found.absent or drawn else found.without_intervals(NOT_DRAWN)

    def line_apart(
        self, ours: Mapping[int, Sequence[T]], theirs: Mapping[int, Sequence[T]], value: Callable[[T], float | None]
    ) -> LineInBlocks | None:
        """By what line ours lie from theirs: of the differences within each block, over the numbers that both were
        taken at. Its slope is the difference of their slopes.
        """
        numbers = sorted(ours.keys() & theirs.keys())
        means = {number: (self.means(ours[number], value), self.means(theirs[number], value)) for number in numbers}
        apart = {
            number: {block: here - there[block] for block, here in one.items() if block in there}
            for number, (one, there) in means.items()
        }
        known = [number for number in numbers if apart[number]]
        found = line_in_blocks({float(number): apart[number] for number in known})
        pairs = [(ours[number], theirs[number]) for number in known]
        pairs += [(side[one], side[other]) for side in (ours, theirs) for one, other in pairwise(known)]
        drawn = all(self.drawn(*pair) for pair in pairs)
        return found if found is None or found.absent or drawn else found.without_intervals(NOT_DRAWN)

    def mean_effect(
        self,
        pairs: Sequence[tuple[Sequence[T], Sequence[T]]],
        value: Callable[[T], float | None],
        packets: float | None = None,
    ) -> Effect:
        """What ours and theirs of several ``pairs`` differ by on the average, on the logarithm: one value for each
        block that has all pairs, since what is of one block is not independent. Claims nothing where one pair was not
        drawn. ``packets`` as in effect().
        """
        step = None if packets is None else packets * math.sqrt(len(pairs))  # a mean moves in smaller steps
        return self._together(pairs, [ours for ours, _ in pairs], [theirs for _, theirs in pairs], value, step)

    def effects_apart(
        self, one: tuple[Sequence[T], Sequence[T]], other: tuple[Sequence[T], Sequence[T]],
        value: Callable[[T], float | None],
    ) -> Effect:  # fmt: skip
        """By what the effect of one pair differs from that of another: the ratio of their ratios, block by block."""
        effect = self._together([one, other], [one[0], other[1]], [one[1], other[0]], value, None)
        # _together() gives the mean of both logarithms, and this is their difference.
        return replace(
            effect,
            change=_squared(effect.change),
            ci_low=_squared(effect.ci_low),
            ci_high=_squared(effect.ci_high),
            ci90_low=_squared(effect.ci90_low),
            ci90_high=_squared(effect.ci90_high),
            mean_log=_twice(effect.mean_log),
            error_log=_twice(effect.error_log),
            sd_log=_twice(effect.sd_log),
        )

    def _together(
        self, pairs: Sequence[tuple[Sequence[T], Sequence[T]]], ours: Sequence[Sequence[T]],
        theirs: Sequence[Sequence[T]], value: Callable[[T], float | None], packets: float | None,
    ) -> Effect:  # fmt: skip
        """Of the blocks that all have: geometric mean of ours against that of theirs."""
        means = [[self.means(each, value) for each in side] for side in (ours, theirs)]
        shared = set.intersection(*({*each} for side in means for each in side))
        one, other = ({block: _geometric([each[block] for each in side]) for block in shared} for side in means)
        effect = paired_effect(one, other, packets=packets)
        drawn = all(self.drawn(ours, theirs) for ours, theirs in pairs)
        return effect if drawn or not shared else replace(effect, absent=NOT_DRAWN, **_NOTHING)

    def drawn(self, ours: Sequence[T], theirs: Sequence[T]) -> bool:
        """By when they were first begun, whatever the plan says and became of them: every second block has the order of
        the one before it reversed, and one block of four or more may have lost its turn. True of fewer than three
        blocks, of which nothing is claimed.
        """
        return taken_by_turns(self._begun(ours), self._begun(theirs))

    def placed(self, record: T) -> tuple[Block | None, Hashable, str]:
        """Of one of them: its block (None: its boot is not known), of which turns its own is one, and when that was
        first begun.
        """
        *turns, _ = place = self._place[id(record)]
        return self._of[id(record)], tuple(turns), self._first[place]

    def replicate(self, record: T) -> Hashable:
        """Of one of them whose guests are of no other trial: its block. Repetitions there share a boot of the unit
        under test and a moment, and say nothing of how far the next block may lie away.
        """
        block, turns, _ = self.placed(record)
        return turns if block is None else block

    def _begun(self, records: Iterable[T]) -> dict[Any, str]:
        found = {}
        for record in records:
            *block, _ = place = self._place[id(record)]
            found[tuple(block)] = self._first[place]
        return found


def taken_by_turns(first: Mapping[Any, str], second: Mapping[Any, str]) -> bool:
    """Whether two kinds of trials were taken in an order that was drawn; of each block when the first was begun."""
    before = [first[block] < second[block] for block in first if block in second]
    rarer = min(before.count(True), before.count(False))
    return len(before) < MINIMUM_BLOCKS or rarer * FEWER_ORDER_SHARE >= len(before)


def _are_of_few_kinds(one: Mapping[Block, float], other: Mapping[Block, float]) -> bool:
    """Whether values move from block to block and their ratio does not, in as few blocks as can be compared: noise of
    two values does so in 1 of 32 cases, and measured values never.
    """
    shared = [(one[block], other[block]) for block in one if block in other]
    if len(shared) != MINIMUM_BLOCKS or min(min(pair) for pair in shared) <= 0:
        return False
    ratios, ours, theirs = [a / b for a, b in shared], [a for a, _ in shared], [b for _, b in shared]
    spread, *moves = (max(each) / min(each) - 1 for each in (ratios, ours, theirs))
    return spread <= EXACT_RATIO < min(moves)


def _geometric(values: Sequence[float]) -> float:
    """The mean on the logarithm; 0 where one is."""
    if min(values) <= 0:
        return min(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _twice(log: float | None) -> float | None:
    return None if log is None else 2 * log


def _squared(change: float | None) -> float | None:
    """Twice the logarithm of a relative change."""
    return None if change is None else (1 + change) ** 2 - 1


def _by_boot(means: Mapping[Block, float]) -> list[float]:
    boots: dict[str, list[float]] = {}
    for block, mean in means.items():
        boots.setdefault(block.boot_id, []).append(mean)
    return list(set_up_means(boots).values())


def adjusted(p_values: Sequence[float | None], family: Sequence[float] = ()) -> list[float | None]:
    """By Holm over those that there are, or over the ``family`` that they belong to."""
    known = [p for p in p_values if p is not None]
    pool = [*family, *(p for p in known if p not in family)]
    of = dict(zip(pool, holm(pool), strict=True))
    return [None if p is None else of[p] for p in p_values]
