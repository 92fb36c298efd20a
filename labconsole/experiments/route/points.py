"""Points of trials of routers, and changes between them by routes, filter rules and further routers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from labconsole.experiments.route.plan import format_target_pps
from labconsole.experiments.route.record import RouteRecord
from labconsole.measure.paired_blocks import Blocks, adjusted, build_point_key
from labconsole.measure.statistics.effects import Effect, Word, equivalence_p, word
from labconsole.report.formatting import format_effect, format_noun_count, format_number

# -- points ------------------------------------------------------------------------------------------------------------
# Points of trials of routers: everything that was requested, and the environment.


class RoutePointKey(NamedTuple):
    """Key of a point. ``target_pps``: None for as many as the source can send. ``kernel``: of the unit under test.
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
        """The request as text, without the platform."""
        text = f"{self.guests} router{'s' if self.guests > 1 else ''}, {self.load}"
        return f"{text}, {self.rate}"

    @property
    def load(self) -> str:
        """The routes and filter rules of each router, as text."""
        text = f"{self.routes} routes{self.destination_suffix}"
        return text + (f", {self.filters} filter rules" if self.filters else "")

    @property
    def destination_suffix(self) -> str:
        """``, 4096 destinations``, or empty if there is one."""
        return f", {self.destinations} destinations" if self.destinations > 1 else ""

    @property
    def rate(self) -> str:
        """The requested rate as text."""
        return "max" if self.target_pps is None else format_target_pps(self.target_pps)


Pair = tuple[RoutePointKey, RoutePointKey]
"""A point, and the one that it is compared with."""


def route_key(record: RouteRecord) -> RoutePointKey:
    """The point that a trial belongs to."""
    return build_point_key(RoutePointKey, record)


def sum_pps(record: RouteRecord) -> float | None:
    """The forwarding rate of all routers together."""
    return record.sum_pps


def lost_packets(record: RouteRecord) -> tuple[int, int] | None:
    """Packets lost, and packets sent to all routers; None if not known."""
    sent = [each.sent_packets for each in record.routers if each.sent_packets is not None]
    if len(sent) < len(record.routers) or not sum(sent):
        return None
    return sum(sent) - sum(each.packets for each in record.routers), sum(sent)


def lost_ratio(record: RouteRecord) -> float | None:
    """Share of the sent packets that were lost, or None if not known."""
    counts = lost_packets(record)
    return None if counts is None else counts[0] / counts[1]


def lost_inside_ratio(record: RouteRecord) -> float | None:
    """Share of the packets at the UUT's port that were lost before the other ends of its routers, or None if not known.
    A router's own interface need not count what it has no room for: a machine's counts what the machine takes.
    """
    left = [each.from_packets for each in record.routers if each.from_packets is not None]
    if len(left) < len(record.routers) or not record.in_packets:
        return None
    return 1 - sum(left) / record.in_packets


# -- route comparison --------------------------------------------------------------------------------------------------
# Changes by routes, filter rules and further routers, in pairs of blocks, and the findings on them.
#
# Only equivalence supports the claim that routes change nothing, within the margin that the plan declares. It also
# requires that a change could have been seen: the routers lost packets at both points, or filter rules lowered the rate
# there. All comparisons are one family (Holm).

FACTOR_NAMES = {"guests": "routers", "routes": "routes", "filters": "filter rules"}
CROSSED = {"routes": "filters", "filters": "routes"}
"""Varied factor to the factor that a plan may cross it with. The mean of a change over all values of that is reported
as well.
"""

SATURATED_LOSS_RATIO = 0.001
"""Loss ratio above which the routers of a point are saturated: the median of its trials, as a share of what went into
them. Below it they may forward all that arrives, and the rate is then the source's.
"""

OUTCOME_CODES = ("offered_short", "duration_cut", "rate_uncertain", "capture_incomplete")
"""Reasons that exclude a trial because of its outcome, so that the included ones are a selection."""

NO_MARGIN = "no margin is declared"
NOT_SATURATED = (
    "at one of the two points the routers lost no packets, and no other cost was found: the rate may be the source's "
    "or the link's"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteComparison:
    """Difference of the sum at one point (``key``) from another's (``than``), which differs only in ``what``.

    ``pairs``: that pair alone, or one for each value of the factor that was crossed with ``what``. Then the effect is
    the mean of theirs, and ``key`` and ``than`` are the pair of its least value. ``apart``: difference of the last
    pair's effect from that of the first. ``adjusted_p``: by Holm over all comparisons. ``equivalent_p``: of two
    one-sided tests, for changes of routes, by Holm over the tests for equivalence. ``untested``: why there is no such
    test. ``word``: the finding. ``margin_ratio``: None if none is declared. ``saturated``, ``than_saturated``: whether
    the routers lost packets at ``key``, at ``than``.
    """

    what: str
    key: RoutePointKey
    than: RoutePointKey
    pairs: tuple[Pair, ...]
    effect: Effect
    adjusted_p: float | None
    equivalent_p: float | None
    margin_ratio: float | None
    word: Word
    apart: Effect | None = None
    untested: str | None = None
    saturated: bool = False
    than_saturated: bool = False

    @property
    def points(self) -> list[RoutePointKey]:
        return [point for pair in self.pairs for point in pair]

    @property
    def crossed(self) -> str | None:
        """The values of the other factor over which this is the mean, such as ``0 and 20 filter rules``, or None."""
        if len(self.pairs) == 1:
            return None
        *others, last = (str(getattr(key, CROSSED[self.what])) for key, _ in self.pairs)
        return f"{', '.join(others)} and {last} {FACTOR_NAMES[CROSSED[self.what]]}"

    @property
    def loads(self) -> tuple[str, str]:
        """The loads of the routers on either side, without the factor that this is the mean over."""
        if len(self.pairs) == 1:
            return self.key.load, self.than.load
        both, word = (self.key, self.than), FACTOR_NAMES[self.what]
        one, other = (f"{getattr(each, self.what)} {word}{each.destination_suffix}" for each in both)
        return one, other


def format_word(claim: RouteComparison) -> str:
    """The finding. That of a mean is qualified, because the single changes may differ."""
    is_average = claim.crossed and claim.word not in ("inconclusive", "no claim")
    return f"{claim.word} on the average" if is_average else claim.word


def describe_outcome(claim: RouteComparison) -> str:
    """The outcome of a comparison, as text."""
    if claim.what != "routes":
        return format_word(claim)
    untested = f"; equivalence not tested: {claim.untested}" if claim.untested else ""
    margin = "" if claim.margin_ratio is None else f"margin {format_number(100 * claim.margin_ratio, 1)} %"
    within = f" ({margin}{untested if margin else untested.removeprefix('; ')})" if margin or untested else ""
    return format_word(claim) + within


def describe_difference(claim: RouteComparison) -> str:
    """The difference between the first and the last change that a mean is of, as text."""
    if claim.apart is None:
        return ""
    factor = CROSSED[claim.what]
    first, last = (getattr(key, factor) for key, _ in (claim.pairs[0], claim.pairs[-1]))
    return f", at {last} {FACTOR_NAMES[factor]} compared with {first}: {format_effect(claim.apart)}"


def compare_points(
    order: Sequence[RoutePointKey],
    by_point: Mapping[RoutePointKey, Sequence[RouteRecord]],
    entered: Mapping[RoutePointKey, Sequence[RouteRecord]],
    blocks: Blocks[RouteRecord],
    margin_ratio: float | None,
    family: Sequence[float],
) -> tuple[RouteComparison, ...]:
    """Compare each point with its counterpart of fewest routes, of fewest filters, and of fewest routers. Then compare
    routes over all filters that they were crossed with, and the reverse.
    """
    compared: list[tuple[str, tuple[Pair, ...]]] = [
        (what, ((key, than),))
        for what in FACTOR_NAMES
        for key in order
        if (than := _least(what, key, order)) is not None
    ]
    compared += [(what, pairs) for what in CROSSED for pairs in _crossed(what, compared)]
    trials = [[(entered[key], entered[than]) for key, than in pairs] for _, pairs in compared]
    effects = [_effect(blocks, pairs, each) for (_, pairs), each in zip(compared, trials, strict=True)]
    different = adjusted([effect.p for effect in effects], family)
    costs = [
        pairs[0][0]
        for (what, pairs), effect, p in zip(compared, effects, different, strict=True)
        if what == "filters"
        and len(pairs) == 1
        and word(p, None) == "different"
        and effect.change is not None
        and effect.change < -(margin_ratio or 0.0)
    ]
    untested = [
        None if what != "routes" else _untested(pairs, by_point, entered, margin_ratio, costs)
        for what, pairs in compared
    ]
    tested = [what == "routes" and why is None for (what, _), why in zip(compared, untested, strict=True)]
    equal = adjusted(
        [
            equivalence_p(effect, margin_ratio) if each and margin_ratio is not None else None
            for effect, each in zip(effects, tested, strict=True)
        ]
    )
    return tuple(
        RouteComparison(
            what=what,
            key=pairs[0][0],
            than=pairs[0][1],
            pairs=pairs,
            effect=effect,
            adjusted_p=p,
            equivalent_p=equivalent,
            margin_ratio=margin_ratio if what == "routes" else None,
            word=word(p, equivalent),
            untested=why,
            saturated=_saturated(entered[pairs[0][0]]),
            than_saturated=_saturated(entered[pairs[0][1]]),
            apart=blocks.effects_apart(each[-1], each[0], sum_pps) if len(each) > 1 else None,
        )
        for (what, pairs), each, effect, p, equivalent, why in zip(
            compared, trials, effects, different, equal, untested, strict=True
        )
    )


def _effect(
    blocks: Blocks[RouteRecord],
    pairs: Sequence[Pair],
    trials: Sequence[tuple[Sequence[RouteRecord], Sequence[RouteRecord]]],
) -> Effect:
    """The effect of one pair, or the mean of several. For a mean, it names a pair without a valid trial."""
    packets = min((_packets(each) for both in trials for side in both for each in side), default=0) or None
    if len(trials) == 1:
        return blocks.effect(*trials[0], sum_pps, packets=packets)
    effect = blocks.mean_effect(trials, sum_pps, packets)
    for (key, _), (ours, theirs) in zip(pairs, trials, strict=True):
        if not ours or not theirs:
            return replace(effect, absent=f"nothing valid with {key.load}")
    return effect


def _untested(
    pairs: Sequence[Pair],
    by_point: Mapping[RoutePointKey, Sequence[RouteRecord]],
    entered: Mapping[RoutePointKey, Sequence[RouteRecord]],
    margin_ratio: float | None,
    costs: Sequence[RoutePointKey],
) -> str | None:
    """Why equivalence is not tested, or None if it is. ``costs``: points whose filter rules lowered the rate."""
    if margin_ratio is None:
        return NO_MARGIN
    points = [point for pair in pairs for point in pair]
    out = Counter(
        each.code
        for point in points
        for record in by_point[point]
        if record.verdict.status != "valid"
        for each in record.verdict.reasons
        if each.code in OUTCOME_CODES
    )
    if out:
        return ", ".join(f"{format_noun_count(times, 'trial')} left out by {code}" for code, times in out.items())
    if all(_saturated(entered[point]) for point in points):
        return None
    known = {each._replace(routes=0, filters=0) for each in costs}
    return None if any(key._replace(routes=0, filters=0) in known for key, _ in pairs) else NOT_SATURATED


def _saturated(trials: Sequence[RouteRecord]) -> bool:
    """Loss behind the routers is their link's and does not count. The median ignores one trial with a hiccup."""
    lost = [each for record in trials if (each := lost_inside_ratio(record)) is not None]
    return bool(lost) and median(lost) > SATURATED_LOSS_RATIO


def _packets(record: RouteRecord) -> int:
    return sum(each.packets for each in record.routers)


def _crossed(what: str, compared: Sequence[tuple[str, tuple[Pair, ...]]]) -> list[tuple[Pair, ...]]:
    """The pairs compared in ``what`` that differ only in the factor it is crossed with, by group."""
    alike: dict[Pair, list[Pair]] = {}
    for _, (pair,) in (each for each in compared if each[0] == what):
        alike.setdefault((_drop_factor(pair[0], CROSSED[what]), _drop_factor(pair[1], CROSSED[what])), []).append(pair)
    return [tuple(pairs) for pairs in alike.values() if len(pairs) > 1]


def _drop_factor(key: RoutePointKey, factor: str) -> RoutePointKey:
    return key._replace(routes=0) if factor == "routes" else key._replace(filters=0)


def _least(what: str, key: RoutePointKey, order: Sequence[RoutePointKey]) -> RoutePointKey | None:
    """The point that has the least of this and is like it in all else, or None if that is this point."""
    place = key._fields.index(what)
    alike = [
        each for each in order if all(a == b for at, (a, b) in enumerate(zip(each, key, strict=True)) if at != place)
    ]
    least = min(alike, key=lambda each: getattr(each, what))
    return None if least == key else least
