"""What changed between two sets of runs: their design points matched by factors, each with its effect. Pure.

Points are matched by what was asked for. A factor that has one value on each side and another on the other, such as
the platform, is what is compared, and matches all the same. Conditions (kernel, hypervisor, generator, testbed) are
pooled within a side and told beside the result: they are what usually is meant to have changed.

The replicate is the highest level that both sides have enough of: blocks that both were taken in, boots of the machine,
or set-ups. With set-ups of few boots a difference may be one of the boots, or of the time that lies between the sides:
``scope`` says so. One comparison is one family (S. Holm, Scand. J. Statist. 6, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from labconsole.measure.admission import Admission
from labconsole.measure.comparison import Pair, different
from labconsole.measure.groups import CONDITIONS, ONE_SET_UP, conditions_of
from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.measure.statistics.effects import (
    MINIMUM_BLOCKS,
    Effect,
    Word,
    equivalence_p,
    holm,
    paired_effect,
    smallest_effect_of,
    unpaired_effect,
    word,
)
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.model.design_point import FrameSize
from labconsole.report.comparisons import UNKNOWN_BOOTS, blocks_in_one_go, means_of_boots
from labconsole.report.digest import Digest
from labconsole.report.drawn_order import Drawn, drawn, why_not_drawn
from labconsole.report.points import PointSummary, make_points
from labconsole.report.sample import KeptRuns

Scope = Literal["blocks", "boots", "set-ups"]

POOLED: Final = tuple(name for name in CONDITIONS if name not in ("duration", "method"))
SAID: Final = ("labconsole_version", "observe", "sender", "witness", "flow control")
"""Of all runs of a side, beside their conditions and what nodes and platforms are."""

NO_SET_UPS: Final = "runs without blocks on one side: how far set-ups differ is not known"
FEW_SET_UPS: Final = "fewer than 3 set-ups a side"
SHARED_BOOTS: Final = "some boots of the machine are on both sides, and the others may differ"
NOTHING_LOST: Final = "both sides forwarded all that they were offered"
LOSS_UNKNOWN: Final = "what the unit under test lost is not known"
OFFERED_LESS: Final = "one side forwarded all that it was offered, which is less than the other one forwarded"


class DesignKey(NamedTuple):
    """A design point, as both sides ask for it. None: the factor that is compared. ``method``: of the numbers."""

    platform: str | None
    frame: FrameSize | None
    sources: int | None
    target_bps: int | Literal["max"] | None
    background: str | None
    duration_s: float | None
    method: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Runs that are compared with others. ``words``: what they were asked for by; ``place``: the store they are in."""

    words: str
    place: str
    kept: KeptRuns
    admission: Admission
    digest: Digest
    planned_set_ups: int = 0
    missing_set_ups: int = 0
    """Of its plans, whatever a filter leaves of them; of plans without blocks none is known."""

    @property
    def points(self) -> list[PointSummary]:
        """Every design point of the runs that enter."""
        return make_points(self.kept.entered, POOLED, self.admission.stretches)

    @property
    def pooled(self) -> list[str]:
        """Conditions that differ among its runs, with their values."""
        return [f"{name} {', '.join(held)}" for name in POOLED if len(held := self.conditions(name)) > 1]

    def conditions(self, name: str) -> list[str]:
        """Of all runs that enter."""
        values = {getattr(conditions_of(run), name) for run in self.kept.entered}
        return sorted("unknown" if value is None else str(value) for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One design point on both sides. ``effect``: after / before - 1 of the forwarding rate, ``why`` there is none.

    ``bound``: one side forwarded all that it was offered, so that the difference is at least this. ``adjusted_p``,
    ``equivalence_adjusted_p``: in the family of all points that are compared. ``smallest_ratio``: the smallest change
    that this row would have shown with 80 % power at 0.05.
    """

    key: DesignKey
    before: PointSummary
    after: PointSummary
    effect: Effect | None
    scope: Scope | None
    why: str | None
    bound: bool = False
    adjusted_p: float | None = None
    equivalence_adjusted_p: float | None = None
    smallest_ratio: float | None = None

    @property
    def word(self) -> Word:
        """What may be said of it."""
        return word(self.adjusted_p, self.equivalence_adjusted_p)

    @property
    def change_ratio(self) -> float | None:
        """Of the replicates, or of the plain means where no effect may be told."""
        if self.effect is not None and self.effect.change is not None:
            return self.effect.change
        return self.after.rate_bps.mean / self.before.rate_bps.mean - 1 if self.before.rate_bps.mean > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All that two sides show. ``factors``: those that are compared. ``only_before``, ``only_after``: points that the
    other side lacks. ``differences``: what else is not alike: testbeds, nodes, platforms, versions.
    """

    before: Side
    after: Side
    factors: tuple[str, ...]
    changes: tuple[Change, ...]
    only_before: tuple[PointSummary, ...]
    only_after: tuple[PointSummary, ...]
    differences: tuple[Pair, ...]
    margin_ratio: float | None
    size: int

    @property
    def scopes(self) -> frozenset[Scope]:
        """What the effects are over."""
        return frozenset(each.scope for each in self.changes if each.scope is not None)


def find_changes(before: Side, after: Side, margin_ratio: float | None, *, across_factors: bool = True) -> Changes:
    """``before`` and ``after`` share no run. ``margin_ratio``: None, what all their plans declare.

    ``across_factors``: whether points match that differ in a factor with one value on either side.
    """
    if margin_ratio is None:
        declared = {each.margin_ratio for side in (before, after) for each in side.digest.facts.values()}
        margin_ratio = declared.pop() if len(declared) == 1 else None
    points = before.points, after.points
    factors = _compared_factors(*points) if across_factors else ()
    ours, theirs = (_by_key(held, factors) for held in (points[1], points[0]))
    changes = [
        _change(key, theirs[key][0], held[0], (before, after))
        for key, held in ours.items()
        if key in theirs and len(held) == len(theirs[key]) == 1
    ]
    matched = {id(point) for each in changes for point in (each.before, each.after)}
    return Changes(
        before=before, after=after, factors=factors, changes=_family(changes, margin_ratio),
        only_before=tuple(point for point in points[0] if id(point) not in matched),
        only_after=tuple(point for point in points[1] if id(point) not in matched),
        differences=tuple(differences(before, after)),
        margin_ratio=margin_ratio, size=sum(each.effect is not None for each in changes),
    )  # fmt: skip


def design_key(point: PointSummary) -> DesignKey:
    """What the same point on another side is found by."""
    held = point.design.conditions
    return DesignKey(
        point.design.platform, point.frame, point.sources, point.design.target_bps, point.background,
        held.duration, held.method,
    )  # fmt: skip


def _compared_factors(before: Sequence[PointSummary], after: Sequence[PointSummary]) -> tuple[str, ...]:
    """Factors with one value a side, and not the same."""
    found = []
    for name in DesignKey._fields[:-1]:
        sides = [{getattr(design_key(point), name) for point in points} for points in (before, after)]
        if all(len(side) == 1 for side in sides) and sides[0] != sides[1]:
            found.append(name)
    return tuple(found)


def _by_key(points: Sequence[PointSummary], factors: Sequence[str]) -> dict[DesignKey, list[PointSummary]]:
    found: dict[DesignKey, list[PointSummary]] = {}
    for point in points:
        found.setdefault(design_key(point)._replace(**dict.fromkeys(factors)), []).append(point)
    return found


def _change(key: DesignKey, before: PointSummary, after: PointSummary, sides: tuple[Side, Side]) -> Change:
    effect, scope, why = _effect(before, after, sides)
    bound, why_not = _bound(before, after)
    if why_not is not None and (why is None or why_not == NOTHING_LOST):
        effect, scope, why = None, None, why_not
    return Change(key=key, before=before, after=after, effect=effect, scope=scope, why=why, bound=bound)


def _bound(before: PointSummary, after: PointSummary) -> tuple[bool, str | None]:
    """Whether a difference is only a lower bound, and why there is none: a rate that was offered says nothing."""
    missing = [point.missing_ratio for point in (before, after)]
    if None in missing:
        return False, LOSS_UNKNOWN
    carried = [ratio is not None and ratio < REACHED_LOSS_RATIO for ratio in missing]
    if all(carried):
        return False, NOTHING_LOST
    if not any(carried):
        return False, None
    (more, less) = (before, after) if carried[0] else (after, before)
    return True, OFFERED_LESS if more.rate_bps.mean < less.rate_bps.mean else None


def _effect(
    before: PointSummary, after: PointSummary, sides: tuple[Side, Side]
) -> tuple[Effect | None, Scope | None, str | None]:
    """Over the highest level that both have enough of; or why over none."""
    if ONE_SET_UP in before.values_bps or ONE_SET_UP in after.values_bps:
        return None, None, NO_SET_UPS
    counts = [point.packets for point in (before, after) if point.packets]
    packets = float(min(counts)) if len(counts) == 2 else None
    ours, theirs = set_up_means(after.values_bps), set_up_means(before.values_bps)
    # Blocks of two stores may have one name, and were not taken together.
    shared = blocks_in_one_go(after, before) if sides[0].place == sides[1].place else []
    if len(shared) >= MINIMUM_BLOCKS:
        why = why_not_drawn(after, before, shared, {**_drawn(sides[0]), **_drawn(sides[1])})
        if why is not None:
            return None, None, why
        one, other = ({block: means[block] for block in shared} for means in (ours, theirs))
        return _told(paired_effect(one, other, packets=packets), "blocks")
    boots = [means_of_boots(ours, after.boots), means_of_boots(theirs, before.boots)]
    if min(map(len, boots)) >= MINIMUM_BLOCKS:
        if boots[0].keys() & boots[1].keys():
            return None, None, SHARED_BOOTS
        return _told(unpaired_effect(list(boots[0].values()), list(boots[1].values()), packets=packets), "boots")
    if min(len(ours), len(theirs)) < MINIMUM_BLOCKS:
        return None, None, FEW_SET_UPS
    if None in (*after.boots.values(), *before.boots.values()):
        return None, None, UNKNOWN_BOOTS
    return _told(unpaired_effect(list(ours.values()), list(theirs.values()), packets=packets), "set-ups")


def _drawn(side: Side) -> Drawn:
    return drawn(side.kept.entered, side.admission.begun, side.digest.facts)


def _told(effect: Effect, scope: Scope) -> tuple[Effect | None, Scope | None, str | None]:
    return (effect, scope, None) if effect.absent is None else (None, None, effect.absent)


def _family(changes: Sequence[Change], margin_ratio: float | None) -> tuple[Change, ...]:
    """With their p values adjusted. Equivalence is tested where both rates are the unit under test's own."""
    effects = {place: each.effect for place, each in enumerate(changes) if each.effect is not None}
    p_values = {place: effect.p for place, effect in effects.items() if effect.p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    alike: dict[int, float] = {}
    for place in adjusted:
        p = None if margin_ratio is None or changes[place].bound else equivalence_p(effects[place], margin_ratio)
        if p is not None:
            alike[place] = p
    alike = dict(zip(alike, holm(list(alike.values())), strict=True))
    return tuple(
        replace(
            each, adjusted_p=adjusted.get(place), equivalence_adjusted_p=alike.get(place),
            smallest_ratio=smallest_effect_of(effects[place]) if place in adjusted else None,
        )
        for place, each in enumerate(changes)
    )  # fmt: skip


def differences(before: Side, after: Side) -> list[Pair]:
    """What is not alike around the runs. Of what differs from run to run on one side, the newest."""
    found = []
    ours, theirs = after.digest, before.digest
    for section, one, other in (("Node", theirs.nodes, ours.nodes), ("Platform", theirs.platforms, ours.platforms)):
        for name in [*one, *(each for each in other if each not in one)]:
            before_it, after_it = (None if name not in held else held[name].newest for held in (one, other))
            found += [pair for pair in different(f"{section} {name}", before_it, after_it) if not pair.expected]
    told = {(pair.label, pair.left, pair.right) for pair in found}
    words = [(name, ", ".join(before.conditions(name)), ", ".join(after.conditions(name))) for name in POOLED]
    words += [
        (name, ", ".join(sorted(theirs.said.get(name, {}))), ", ".join(sorted(ours.said.get(name, {}))))
        for name in SAID
    ]
    of_runs = [
        Pair("Runs", name, one_of or None, other_of or None) for name, one_of, other_of in words
        if one_of != other_of and (name, one_of, other_of) not in told
    ]  # fmt: skip
    return [*of_runs, *found]


def _said(digest: Digest, name: str) -> str:
    return ", ".join(sorted(digest.said.get(name, {})))
