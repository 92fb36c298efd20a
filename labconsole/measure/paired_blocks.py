"""Trials of guests in blocks: which enter a summary, under which hypervisors, and which may be compared. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from labconsole.measure.statistics.effects import (
    MINIMUM_BLOCKS,
    Effect,
    find_few_kinds,
    holm,
    paired_effect,
    unpaired_effect,
)
from labconsole.measure.statistics.regression import LineInBlocks, line_in_blocks
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.model.record.kind import GuestTrialRecord
from labconsole.model.record.run import format_hypervisor, read_conditions

# -- paired blocks -----------------------------------------------------------------------------------------------------
# The common part of summarizing job trials and boot trials: which enter, and which may be compared.

NOT_RANDOMIZED: Final = "too many blocks took them in the same order"
FEWER_ORDER_SHARE: Final = 4
"""At least one block of this many has the other order, or none was drawn: that halves them, and one may err."""

_NOTHING: dict[str, Any] = dict.fromkeys(
    ("ci_low", "ci_high", "ci90_low", "ci90_high", "p", "mean_log", "error_log", "sd_log", "degrees")
)


def sort_key(key: object) -> tuple[object, ...]:
    """A sort key for points in which something may be None, which sorts first."""
    if key is None:
        return (0,)
    return (1, *map(sort_key, key)) if isinstance(key, tuple) else (1, key)


def find_exclusion_code(codes: Collection[str], trials: Iterable[GuestTrialRecord]) -> str | None:
    """The first of these codes among the reasons of these trials, which do not enter, or None."""
    seen = {each.code for trial in trials for each in trial.verdict.reasons}
    return next((code for code in codes if code in seen), None)


class PointOfGuests(Protocol):
    """A point of a summary, a named tuple: a kind's factors, on a platform of one testbed, kernel and hypervisor."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def hypervisor(self) -> str: ...


class Repeatable(Protocol):
    """A trial that is repeated if it failed."""

    @property
    def started_at(self) -> str: ...
    @property
    def status(self) -> str: ...


S = TypeVar("S", bound=Repeatable)
T = TypeVar("T", bound=GuestTrialRecord)
K = TypeVar("K", bound=PointOfGuests)


def newest_trials(every: Iterable[T]) -> list[T]:
    """For each hash of a plan the last trial that is done, or else the last."""
    return select_newest_per_place(every, lambda record: (record.testbed_fingerprint, record.plan.hash))


def select_newest_per_place(every: Iterable[S], place: Callable[[S], Hashable]) -> list[S]:
    """For each ``place`` the last record that is done, or else the last."""
    found: dict[Hashable, S] = {}
    for record in sorted(every, key=lambda each: each.started_at):
        key = place(record)
        if key not in found or record.status == "done" or found[key].status != "done":
            found[key] = record
    return list(found.values())


def uut_facts(record: GuestTrialRecord) -> Mapping[str, Any]:
    """The unit under test's facts about itself.

    They are from the node that the record names as such, or else from the node that is not the timekeeper.
    """
    nodes, uut = record.environment.get("nodes", {}), record.environment.get("uut")
    if isinstance(nodes, dict) and isinstance(uut, str):
        nodes = {uut: nodes.get(uut)}
    for name, node in nodes.items() if isinstance(nodes, dict) else ():
        facts = node.get("facts") if isinstance(node, dict) else None
        if name != record.timekeeper_node and isinstance(facts, dict):
            return facts
    return {}


def uut_kernel(record: GuestTrialRecord) -> str:
    """The kernel of the unit under test, or "" if unknown."""
    return str(uut_facts(record).get("kernel", ""))


def build_point_key(kind: Callable[..., K], record: GuestTrialRecord, **own: Any) -> K:
    """The point that a trial belongs to: what its request has of the ``kind``'s fields, its testbed, kernel and
    hypervisor, and the kind's ``own`` fields.
    """
    names: Sequence[str] = cast("Any", kind)._fields
    asked = {name: getattr(record.requested, name) for name in names if hasattr(record.requested, name)}
    environment = {"kernel": uut_kernel(record), "hypervisor": hypervisor(record)}
    return kind(**{**asked, "testbed_fingerprint": record.testbed_fingerprint, **environment, **own})


def assign_points(
    records: Iterable[T], key_of: Callable[[T], K], seen_late: Sequence[str] = ("hypervisor",)
) -> Iterator[tuple[K, T]]:
    """Yield each trial with its point.

    ``seen_late``: fields of a key that are empty if a trial ended before its guests were inspected. A trial that is not
    done then belongs to the point that has the other fields and these, too, if there is one.
    """
    keyed = [(key_of(record), record) for record in records]
    known: dict[K, set[K]] = {}
    for key, _ in keyed:
        known.setdefault(_clear_late_fields(key, seen_late), set()).add(key)
    for key, record in keyed:
        more = (
            []
            if record.status == "done"
            else [each for each in known[_clear_late_fields(key, seen_late)] if _tells_more(each, key, seen_late)]
        )
        most = [each for each in more if not any(_tells_more(other, each, seen_late) for other in more)]
        yield most[0] if len(most) == 1 else key, record


def _clear_late_fields(key: K, seen_late: Sequence[str]) -> K:
    return cast("K", cast("Any", key)._replace(**dict.fromkeys(seen_late, "")))


def _tells_more(key: K, other: K, seen_late: Sequence[str]) -> bool:
    """Whether it has all fields of the other, and more."""
    return key != other and all(getattr(other, name) in ("", getattr(key, name)) for name in seen_late)


class Block(NamedTuple):
    """The common facts that trials need before they may be paired.

    They are the block of one plan on one testbed, one boot of the unit under test, and one stretch, in which no trial
    of another block of the plan was measured.
    """

    testbed_fingerprint: str
    plan: str
    plan_hash: str | None
    number: int
    boot_id: str
    stretch: int
    part: str = ""


class Blocks(Generic[T]):
    """The blocks of everything stored: records that enter nothing also separate blocks."""

    def __init__(self, every: Iterable[T]) -> None:
        self._of: dict[int, Block | None] = {}
        self._kept: list[T] = []  # records identified by id() must stay alive
        self._place: dict[int, tuple[object, ...]] = {}
        self._first: dict[tuple[object, ...], str] = {}
        latest: dict[tuple[str, str, str | None], tuple[int, int]] = {}
        for record in sorted(every, key=lambda each: each.started_at):
            plan = record.testbed_fingerprint, record.plan.name, record.plan.plan_hash
            number, stretch = latest.get(plan, (0, 0))
            if record.plan.block != number:
                stretch += 1
                latest[plan] = record.plan.block, stretch
            # A trial of a plan file may be repeated in a later stretch, but was randomized for its first one.
            place = *plan, record.plan.block, 0 if record.plan.plan_hash else stretch, record.requested
            self._place[id(record)] = place
            self._first.setdefault(place, record.started_at)
            boot_id = uut_facts(record).get("boot_id")
            self._kept.append(record)
            self._of[id(record)] = Block(*plan, record.plan.block, str(boot_id), stretch) if boot_id else None

    def means(
        self, records: Iterable[T], value: Callable[[T], float | None], within: Callable[[T], str] | None = None
    ) -> dict[Block, float]:
        """The mean of ``value`` over these trials in each block, without trials whose boot is unknown.

        ``within``: also averages within each part of a block, by the name that this returns.
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
        """The difference of ``ours`` from ``theirs``: paired by block, or by part of it (see means()).

        If they share no boot at all, it is over three boots per side (Welch). There is no claim if too many blocks have
        the same order, which no randomized order has: a drift within blocks would look like a difference. ``packets``:
        the fewest of a trial, if values are counts of packets.
        """
        one, other = self.means(ours, value, within), self.means(theirs, value_of_theirs or value, within)
        if one.keys() & other.keys():
            effect = paired_effect(one, other, packets=packets)
            absent = find_few_kinds(one, other) if self.drawn(ours, theirs) else NOT_RANDOMIZED
            return effect if absent is None else replace(effect, absent=absent, **_NOTHING)
        if within is not None:
            return paired_effect({}, {})
        boots = [{block.boot_id for block in side} for side in (one, other)]
        if one and other and not boots[0] & boots[1]:
            return unpaired_effect(*(_average_by_boot(side) for side in (one, other)), packets=packets)
        return paired_effect({}, {})

    def line(self, of: Mapping[int, Sequence[T]], value: Callable[[T], float | None]) -> LineInBlocks | None:
        """A line of ``value`` over a number, such as of guests, with the trials at each: from the slopes within blocks.

        It has no intervals if too many blocks have neighbouring numbers in the same order.
        """
        means = {number: self.means(records, value) for number, records in sorted(of.items())}
        known = [number for number, each in means.items() if each]
        found = line_in_blocks({float(number): means[number] for number in known})
        drawn = all(self.drawn(of[one], of[other]) for one, other in pairwise(known))
        return found if found is None or found.absent or drawn else found.drop_intervals(NOT_RANDOMIZED)

    def line_apart(
        self, ours: Mapping[int, Sequence[T]], theirs: Mapping[int, Sequence[T]], value: Callable[[T], float | None]
    ) -> LineInBlocks | None:
        """The line of the differences between ours and theirs within each block, over the numbers that both have.

        Its slope is the difference of their slopes.
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
        return found if found is None or found.absent or drawn else found.drop_intervals(NOT_RANDOMIZED)

    def mean_effect(
        self,
        pairs: Sequence[tuple[Sequence[T], Sequence[T]]],
        value: Callable[[T], float | None],
        packets: float | None = None,
    ) -> Effect:
        """The average difference of ours from theirs over several ``pairs``, on the logarithm.

        There is one value for each block that has all pairs, since values of one block are not independent. There is no
        claim if one pair was not randomized. ``packets``: as in effect().
        """
        step = None if packets is None else packets * math.sqrt(len(pairs))  # a mean moves in smaller steps
        return self._together(pairs, [ours for ours, _ in pairs], [theirs for _, theirs in pairs], value, step)

    def effects_apart(
        self,
        one: tuple[Sequence[T], Sequence[T]],
        other: tuple[Sequence[T], Sequence[T]],
        value: Callable[[T], float | None],
    ) -> Effect:
        """The difference between the effects of two pairs: the ratio of their ratios, block by block."""
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
        self,
        pairs: Sequence[tuple[Sequence[T], Sequence[T]]],
        ours: Sequence[Sequence[T]],
        theirs: Sequence[Sequence[T]],
        value: Callable[[T], float | None],
        packets: float | None,
    ) -> Effect:
        """Geometric mean of ours against that of theirs, over the blocks that all have."""
        means = [[self.means(each, value) for each in side] for side in (ours, theirs)]
        shared = set.intersection(*({*each} for side in means for each in side))
        one, other = ({block: _geometric([each[block] for each in side]) for block in shared} for side in means)
        effect = paired_effect(one, other, packets=packets)
        drawn = all(self.drawn(ours, theirs) for ours, theirs in pairs)
        return effect if drawn or not shared else replace(effect, absent=NOT_RANDOMIZED, **_NOTHING)

    def drawn(self, ours: Sequence[T], theirs: Sequence[T]) -> bool:
        """Whether the order was randomized, by first start, whatever the plan states and the trials' results.

        Every second block has the reversed order of the previous one, and one block of four or more may deviate. True
        for fewer than three blocks, for which there are no claims.
        """
        return is_alternating(self._begun(ours), self._begun(theirs))

    def placed(self, record: T) -> tuple[Block | None, Hashable, str]:
        """A record's block (None if its boot is unknown), its group of turns, and when its own turn was first begun."""
        *turns, _ = place = self._place[id(record)]
        return self._of[id(record)], tuple(turns), self._first[place]

    def replicate(self, record: T) -> Hashable:
        """The replicate of a record whose guests belong to no other trial: its block.

        Repetitions in a block share a boot of the unit under test and a moment, and do not show how far the next block
        may differ.
        """
        block, turns, _ = self.placed(record)
        return turns if block is None else block

    def _begun(self, records: Iterable[T]) -> dict[Any, str]:
        found = {}
        for record in records:
            *block, _ = place = self._place[id(record)]
            found[tuple(block)] = self._first[place]
        return found


def is_alternating(first: Mapping[Any, str], second: Mapping[Any, str]) -> bool:
    """Whether two kinds of trials have a randomized order, by the first start in each block."""
    before = [first[block] < second[block] for block in first if block in second]
    rarer = min(before.count(True), before.count(False))
    return len(before) < MINIMUM_BLOCKS or rarer * FEWER_ORDER_SHARE >= len(before)


def _geometric(values: Sequence[float]) -> float:
    """The mean on the logarithm, or 0 if one value is 0."""
    if min(values) <= 0:
        return min(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _twice(log: float | None) -> float | None:
    return None if log is None else 2 * log


def _squared(change: float | None) -> float | None:
    """The change with twice the logarithm."""
    return None if change is None else (1 + change) ** 2 - 1


def _average_by_boot(means: Mapping[Block, float]) -> list[float]:
    boots: dict[str, list[float]] = {}
    for block, mean in means.items():
        boots.setdefault(block.boot_id, []).append(mean)
    return list(set_up_means(boots).values())


def adjusted(p_values: Sequence[float | None], family: Sequence[float] = ()) -> list[float | None]:
    """The p-values adjusted by Holm's method over the given ones, or over the ``family`` that they belong to."""
    known = [p for p in p_values if p is not None]
    pool = [*family, *(p for p in known if p not in family)]
    of = dict(zip(pool, holm(pool), strict=True))
    return [None if p is None else of[p] for p in p_values]


# -- hypervisors -------------------------------------------------------------------------------------------------------
# The hypervisors of guests, and those below them, which determine the trials that are compared.

BARE_HOST: Final = "raw"
"""The driver of a platform whose guests are processes of the bare host, whatever the platform's name in hosts.yaml."""

XEN: Final = "xen"
"""The only hypervisor that Linux names when running under it (/sys/hypervisor/type)."""

UNDER_XEN: Final = f" under {XEN}"
MAYBE_UNDER_XEN: Final = f"{UNDER_XEN} or beside"
"""For guests of the operator's own tools, which may be Xen's."""


def hypervisor(record: GuestTrialRecord) -> str:
    """The driver, with the versions of what runs the guests and of their images, or "" if it is not known.

    For guests in the UUT's own kernel, also the hypervisor below that kernel.
    """
    described = format_hypervisor(read_conditions({"platform": record.attestation}, None)) or ""
    return described + _outer_hypervisor(record)


def _outer_hypervisor(record: GuestTrialRecord) -> str:
    """Description of the hypervisor below the kernel that contains or starts the guests, or "".

    It is "" if there is none, or if the guests are that hypervisor's own guests.
    """
    attestation = record.attestation
    driver, versions = attestation.get("driver"), attestation.get("versions")
    if driver is None or uut_facts(record).get("hypervisor_type") != XEN:
        return ""
    connected = versions.get("hypervisor") if isinstance(versions, Mapping) else None  # for example libvirt
    if driver == "xl" or str(connected).lower().startswith(XEN):
        return ""
    return MAYBE_UNDER_XEN if driver == "command" else UNDER_XEN


def find_outer_hypervisor(key: PointOfGuests) -> str:
    """The hypervisor below the kernel from which a point was measured, or "" if it reports none.

    As Xen's first domain a host is bare for guests in its own kernel, but not for Xen's guests.
    """
    return next((each.strip() for each in (MAYBE_UNDER_XEN, UNDER_XEN) if key.hypervisor.endswith(each)), "")


def disambiguate_hypervisor(key: K, keys: Iterable[K]) -> list[str]:
    """Texts that distinguish a platform from the same one with another hypervisor among ``keys``, or on bare
    hardware.
    """
    if len({each.hypervisor for each in keys if each.platform == key.platform}) > 1:
        return [key.hypervisor or "hypervisor not known"]
    return [under] if (under := find_outer_hypervisor(key)) else []


def find_varying_fields(keys: Iterable[K], templates: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The fields, with their templates, in which the points differ."""
    every = set(keys)
    return [(name, template) for name, template in templates if len({getattr(key, name) for key in every}) > 1]


def name_platforms(
    keys: Iterable[K], testbeds: Mapping[str, str], details: Callable[[K], Iterable[str]]
) -> dict[K, tuple[str, ...]]:
    """Each point's platform followed by what distinguishes it from the others, as parts of a name.

    ``testbeds``: fingerprint to name. ``details``: the kind's own parts.
    """
    every = list(dict.fromkeys(keys))
    kernels, fingerprints = {key.kernel for key in every}, {key.testbed_fingerprint for key in every}
    by_platform: dict[str, list[K]] = {}
    hypervisors: dict[str, set[str]] = {}
    for key in every:
        same = hypervisors.setdefault(key.platform, set())
        if key.hypervisor not in same:
            same.add(key.hypervisor)
            by_platform.setdefault(key.platform, []).append(key)
    return {
        key: (
            key.platform,
            *details(key),
            *([f"Linux {key.kernel or 'not known'}"] if len(kernels) > 1 else []),
            *disambiguate_hypervisor(key, by_platform[key.platform]),
            *([f"on {testbeds[key.testbed_fingerprint]}"] if len(fingerprints) > 1 else []),
        )
        for key in every
    }


def describe_outer_hypervisors(keys: Iterable[PointOfGuests]) -> str:
    """A sentence on trials that are compared only with each other, or "" if there are none."""
    platforms = list(dict.fromkeys(key.platform for key in keys if find_outer_hypervisor(key)))
    if not platforms:
        return ""
    return (
        f" The kernel of the unit under test itself ran under Xen in trials of {', '.join(sorted(platforms))}: these "
        "are compared with each other only, and are not the bare host of other guests."
    )
