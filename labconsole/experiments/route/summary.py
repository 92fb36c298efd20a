"""What trials of routers come to: rates and loss of each point, with intervals over set-ups; what routes, filters and
further routers change, in pairs of blocks.

Only valid trials enter, of each the newest. Trials of one crew are one set-up (docs/statistics.md). That nothing
changes is claimed by equivalence alone, within the plan's margin, or 2 % where it has none; all that is compared is of
one family (Holm). Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labconsole.experiments.route.ledger import hops_of
from labconsole.measure.statistics.effects import Effect, Word, equivalence_p, word
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.measure.trials_of_guests import (
    Blocks,
    adjusted,
    hypervisor,
    in_order,
    newest_trials,
    uut_kernel,
    with_points,
)
from labconsole.model.plan.routes import target_words
from labconsole.model.record.route import RouteRecord
from labconsole.report.effect_words import effect_words
from labconsole.report.words import number

USUAL_MARGIN_RATIO = 0.02

FACTOR_WORDS = {"guests": "routers", "routes": "routes", "filters": "filter rules"}
CROSSED = {"routes": "filters", "filters": "routes"}
"""What is varied, to what a plan may cross it with: the mean of a change over all values of that is told as well."""

TOLD_APART = (("cpu", "CPU {}"), ("frame_bytes", "{} B"), ("duration_s", "for {:g} s"))
"""Of a point, what is part of its name where points differ in it."""


class RoutePointKey(NamedTuple):
    """What a point is. ``target_pps`` None: as many as the source can. ``kernel``: of the unit under test;
    ``hypervisor``: with its version and the image's.
    """

    testbed_fingerprint: str
    platform: str
    guests: int
    cpu: str
    routes: int
    destinations: int
    filters: int
    target_pps: int | None
    frame_bytes: int
    duration_s: float
    memory_mib: int | None = None
    kernel: str = ""
    hypervisor: str = ""

    @property
    def words(self) -> str:
        """What is asked of the routers, without their platform."""
        words = f"{self.guests} router{'s' if self.guests > 1 else ''}, {self.load}"
        return f"{words}, {self.rate}"

    @property
    def load(self) -> str:
        """What each of them has."""
        words = f"{self.routes} routes{self.sent_to}"
        return words + (f", {self.filters} filter rules" if self.filters else "")

    @property
    def sent_to(self) -> str:
        """``, 4096 destinations``, or nothing where there is one."""
        return f", {self.destinations} destinations" if self.destinations > 1 else ""

    @property
    def rate(self) -> str:
        """What is sent to them."""
        return "max" if self.target_pps is None else target_words(self.target_pps)


Pair = tuple[RoutePointKey, RoutePointKey]
"""A point, and the one that it is held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterFound:
    """One router at a point: what it forwarded while all did, and what was lost in it of what came into it."""

    guest: str
    forwarded_pps: SetUpMean | None
    lost_ratio: SetUpMean | None
    inside_ratio: SetUpMean | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePointFound:
    """A point. ``sent_pps``: offered to all routers; ``lost_ratio``: of what was sent. ``left_out``: trials that do not
    enter, by the code that keeps them out; ``route_ids``: of those that enter.
    """

    key: RoutePointKey
    sum_pps: SetUpMean | None
    sent_pps: SetUpMean | None
    lost_ratio: SetUpMean | None
    jain: SetUpMean | None
    busy_ratio: SetUpMean | None
    switches_per_s: SetUpMean | None
    load_s: SetUpMean | None
    routers: tuple[RouterFound, ...]
    left_out: Mapping[str, int]
    route_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutesCompared:
    """By what the sum at one point (``key``) differs from another's (``than``), which is as it is but for ``what``.

    ``pairs``: that pair alone, or one for each value of the factor that was crossed with ``what``: the effect is the
    mean of theirs then, and ``key`` and ``than`` are the pair of its least. ``adjusted_p``: by Holm over all that is
    compared; ``equivalent_p``: the same of two one-sided tests; ``word``: what that says.
    """

    what: str
    key: RoutePointKey
    than: RoutePointKey
    pairs: tuple[Pair, ...]
    effect: Effect
    adjusted_p: float | None
    equivalent_p: float | None
    margin_ratio: float
    word: Word

    @property
    def points(self) -> list[RoutePointKey]:
        return [point for pair in self.pairs for point in pair]

    @property
    def crossed(self) -> str | None:
        """Over which values of the other factor this is the mean: ``0 and 20 filter rules``."""
        if len(self.pairs) == 1:
            return None
        *others, last = (str(getattr(key, CROSSED[self.what])) for key, _ in self.pairs)
        return f"{', '.join(others)} and {last} {FACTOR_WORDS[CROSSED[self.what]]}"

    @property
    def loads(self) -> tuple[str, str]:
        """What the routers of either side have, without what it is the mean over."""
        if len(self.pairs) == 1:
            return self.key.load, self.than.load
        both, word = (self.key, self.than), FACTOR_WORDS[self.what]
        one, other = (f"{getattr(each, self.what)} {word}{each.sent_to}" for each in both)
        return one, other


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutesSummary:
    """Everything that follows from these trials. ``testbeds``: fingerprint to name. ``superseded``: trials of which a
    newer one is stored.
    """

    points: tuple[RoutePointFound, ...]
    compared: tuple[RoutesCompared, ...]
    testbeds: Mapping[str, str]
    superseded: int

    def name_of(self, key: RoutePointKey) -> str:
        """The platform, and what tells it from others of this name."""
        keys = {each.key for each in self.points}
        words = [key.platform]
        words += [f"{key.memory_mib} MiB"] if key.memory_mib is not None else []
        for name, said in TOLD_APART:
            if len({getattr(each, name) for each in keys}) > 1:
                words.append(said.format(getattr(key, name)))
        words += [f"Linux {key.kernel or 'not known'}"] if len({each.kernel for each in keys}) > 1 else []
        if len({each.hypervisor for each in keys if each.platform == key.platform}) > 1:
            words.append(key.hypervisor or "hypervisor not known")
        if len({each.testbed_fingerprint for each in keys}) > 1:
            words.append(f"on {self.testbeds[key.testbed_fingerprint]}")
        return ", ".join(words)

    def words_of(self, claim: RoutesCompared) -> str:
        """One comparison in a line."""
        one, other = claim.key, claim.than
        if claim.what == "guests":
            pair = f"{one.guests} routers against {other.guests}, {one.load}, {one.rate}"
        else:
            routers = f"{one.guests} router{'s' if one.guests > 1 else ''}"
            pair = f"{routers}, {' against '.join(claim.loads)}, {one.rate}"
            pair += f", mean over {claim.crossed}" if claim.crossed else ""
        return f"{self.name_of(one)}: {pair}: {effect_words(claim.effect)}, {claim.effect.blocks} blocks: {said(claim)}"


def said(claim: RoutesCompared) -> str:
    """What a comparison comes to."""
    return f"{claim.word} (margin {number(100 * claim.margin_ratio, 1)} %)"


def route_key(record: RouteRecord) -> RoutePointKey:
    """Which point a trial belongs to."""
    asked = record.requested
    return RoutePointKey(
        record.testbed_fingerprint, asked.platform, asked.guests, asked.cpu, asked.routes, asked.destinations,
        asked.filters, asked.target_pps, asked.frame_bytes, asked.duration_s, asked.memory_mib, uut_kernel(record),
        hypervisor(record),
    )  # fmt: skip


def summarize_routes(records: Iterable[RouteRecord], family: Sequence[float] = ()) -> RoutesSummary:
    """By point. ``family``: p values of all that is claimed where these are shown; else these are one of their own."""
    every = sorted(records, key=lambda each: (each.started_at, each.route_id))
    newest = newest_trials(every)
    by_point: dict[RoutePointKey, list[RouteRecord]] = {}
    for key, record in with_points(newest, route_key):
        by_point.setdefault(key, []).append(record)
    entered = {key: [each for each in group if each.verdict.status == "valid"] for key, group in by_point.items()}
    order = sorted(by_point, key=in_order)
    margins = {each.plan.margin_ratio for each in newest} - {None}
    margin_ratio = next((each for each in margins if each is not None), None) if len(margins) == 1 else None
    return RoutesSummary(
        points=tuple(_point(key, by_point[key], entered[key]) for key in order),
        compared=_compared(order, entered, Blocks(every), margin_ratio or USUAL_MARGIN_RATIO, family),
        testbeds={each.testbed_fingerprint: each.testbed for each in newest},
        superseded=len(every) - len(newest),
    )


def _compared(
    order: Sequence[RoutePointKey],
    entered: Mapping[RoutePointKey, Sequence[RouteRecord]],
    blocks: Blocks[RouteRecord],
    margin_ratio: float,
    family: Sequence[float],
) -> tuple[RoutesCompared, ...]:
    """Each point with its like of least routes, without filters, and of least routers; then routes over all filters
    they were crossed with, and the reverse.
    """
    compared: list[tuple[str, tuple[Pair, ...]]] = [
        (what, ((key, than),))
        for what in FACTOR_WORDS
        for key in order
        if (than := _least(what, key, order)) is not None
    ]
    compared += [(what, pairs) for what in CROSSED for pairs in _crossed(what, compared)]
    effects = [
        blocks.effect(*each[0], _sum) if len(each) == 1 else blocks.mean_effect(each, _sum)
        for each in ([(entered[key], entered[than]) for key, than in pairs] for _, pairs in compared)
    ]
    different = adjusted([effect.p for effect in effects], family)
    equal = adjusted([equivalence_p(effect, margin_ratio) for effect in effects])
    return tuple(
        RoutesCompared(
            what=what, key=pairs[0][0], than=pairs[0][1], pairs=pairs, effect=effect, adjusted_p=p,
            equivalent_p=equivalent, margin_ratio=margin_ratio, word=word(p, equivalent),
        )
        for (what, pairs), effect, p, equivalent in zip(compared, effects, different, equal, strict=True)
    )  # fmt: skip


def _crossed(what: str, compared: Sequence[tuple[str, tuple[Pair, ...]]]) -> list[tuple[Pair, ...]]:
    """Of what is compared in ``what``, the pairs that differ in nothing but the factor it is crossed with."""
    alike: dict[Pair, list[Pair]] = {}
    for _, (pair,) in (each for each in compared if each[0] == what):
        alike.setdefault((_without(pair[0], CROSSED[what]), _without(pair[1], CROSSED[what])), []).append(pair)
    return [tuple(pairs) for pairs in alike.values() if len(pairs) > 1]


def _without(key: RoutePointKey, factor: str) -> RoutePointKey:
    return key._replace(routes=0) if factor == "routes" else key._replace(filters=0)


def _least(what: str, key: RoutePointKey, order: Sequence[RoutePointKey]) -> RoutePointKey | None:
    """The point that has least of this, and is like it in all else; None: it is this one, or there is no other."""
    place = key._fields.index(what)
    alike = [
        each for each in order if all(a == b for at, (a, b) in enumerate(zip(each, key, strict=True)) if at != place)
    ]
    least = min(alike, key=lambda each: getattr(each, what))
    return None if least == key else least


def _sum(record: RouteRecord) -> float | None:
    return record.sum_pps


def _sent(record: RouteRecord) -> float | None:
    rates = [each.sent_pps for each in record.routers if each.sent_pps is not None]
    return sum(rates) if rates and len(rates) == len(record.routers) else None


def _lost(record: RouteRecord) -> float | None:
    sent = [each.sent_packets for each in record.routers if each.sent_packets is not None]
    if len(sent) < len(record.routers) or not sum(sent):
        return None
    return 1 - sum(each.packets for each in record.routers) / sum(sent)


def _loading(record: RouteRecord) -> float | None:
    times = [each.load_s for each in record.routers if each.load_s is not None]
    return max(times) if times else None


def _point(key: RoutePointKey, every: Sequence[RouteRecord], entered: Sequence[RouteRecord]) -> RoutePointFound:
    def mean(take: Callable[[RouteRecord], float | None]) -> SetUpMean | None:
        values: dict[str, list[float]] = {}
        for each in entered:
            if (value := take(each)) is not None:
                values.setdefault(each.set_up.id, []).append(value)
        return mean_over_set_ups(values) if values else None

    left_out = Counter(
        each.verdict.reasons[0].code for each in every if each.verdict.status != "valid" and each.verdict.reasons
    )
    names = [each.guest for each in entered[0].routers] if entered else []
    return RoutePointFound(
        key=key,
        sum_pps=mean(_sum),
        sent_pps=mean(_sent),
        lost_ratio=mean(_lost),
        jain=mean(lambda record: record.jain),
        busy_ratio=mean(lambda record: record.busy_ratio),
        switches_per_s=mean(lambda record: record.switches_per_s),
        load_s=mean(_loading),
        routers=tuple(_router(place, name, mean) for place, name in enumerate(names)),
        left_out=dict(left_out),
        route_ids=tuple(each.route_id for each in entered),
    )


def _router(
    place: int, name: str, mean: Callable[[Callable[[RouteRecord], float | None]], SetUpMean | None]
) -> RouterFound:
    return RouterFound(
        guest=name,
        forwarded_pps=mean(lambda record: record.routers[place].forwarded_pps),
        lost_ratio=mean(lambda record: hops_of(record.routers[place]).lost_ratio),
        inside_ratio=mean(lambda record: hops_of(record.routers[place]).inside_ratio),
    )
