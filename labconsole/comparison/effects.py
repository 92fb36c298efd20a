"""An effect between two sides of a comparison: its replicates, and what may be concluded from it. Pure.

The replicate is the highest level with enough members: blocks in which both sides were measured, occasions of a plan,
boots of the machine, or set-ups. One comparison is one family (S. Holm, Scand. J. Statist. 6, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import Final, Literal, NamedTuple

from labconsole.comparison.points import RUN, UNIFORM, ComparedPoint, QuantityKey, SideSetUps
from labconsole.contracts.measured import HELD
from labconsole.measure.statistics.effects import (
    FEWEST_OTHERS,
    MINIMUM_BLOCKS,
    Effect,
    Word,
    equivalence_p,
    find_detectable_effect,
    holm,
    one_spread_effect,
    unpaired_effect,
    widen_effect,
    word,
)
from labconsole.measure.statistics.set_ups import deviation, mean_of, pooled_deviation
from labconsole.report.comparisons import UNKNOWN_BOOTS, average_by_boot
from labconsole.report.formatting import UNKNOWN

Scope = Literal["blocks", "occasions", "boots", "set-ups"]
ScopedEffect = tuple[Effect | None, Scope | None, str | None]
"""The effect and its replicates, or why there is none."""

FEW_SET_UPS: Final = "fewer than 3 set-ups a side"
SHARED_BOOTS: Final = "some boots of the machine are on both sides, and the others may differ"
NOTHING_LOST: Final = "both sides forwarded all that they were offered"
ONE_FULL: Final = "one side forwarded all that it was offered"
SOME_CARRIED_ALL: Final = "some trials lost nothing of what they were offered, and others did"
SOME_FULL: Final = "some trials lost nothing of all that could be offered, and others did"
ONE_LINK_LIMITED: Final = f"one side is {HELD}"
SOME_LINK_LIMITED: Final = f"{HELD} in some trials, and not in others"
LOSS_UNKNOWN: Final = "what the unit under test lost is not known"
ONE_WITH_FEW: Final = (
    f"one occasion compared with fewer than {FEWEST_OTHERS} cannot distinguish a change from an unusual occasion"
)
OFFERED_LESS: Final = "one side forwarded all that it was offered, which is less than the other one forwarded"

OF_SET_UPS: Final = "between these set-ups"
"""Scope of a finding over set-ups: differences between their boots and times are not separated from the change."""

OF_BOOTS: Final = "between these boots"
"""Scope of a finding over boots: differences between the times of the two sides are not separated from the change."""

MIXED_SHARE: Final = 0.25
"""Share of all pairs of boots, one of each side, in which each side has to be first; else each side has its own time.
"""

SCOPE_NAMES: Final[dict[Scope, str]] = {
    "blocks": "blocks of both",
    "occasions": "occasions",
    "boots": "boots",
    "set-ups": "set-ups",
}


def are_boots_mixed(*sides: SideSetUps) -> bool:
    """Whether the boots of two sides were mixed in time, so that nothing that drifts with time separates them."""
    ours, theirs = (side.boots_begun for side in sides)
    first = [(one < other) + (one == other) / 2 for one in ours for other in theirs]
    return bool(first) and MIXED_SHARE <= mean_of(first) <= 1 - MIXED_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One quantity of one design point on both sides. ``key``: without the compared factors.

    ``effect``: after / before - 1, or None; ``why`` has the reason. ``bound``: one side forwarded all that it was
    offered, so that the difference is at least this. ``has_mixed_boots``: the boots of both sides were mixed in time.
    ``adjusted_p``, ``equivalence_adjusted_p``: in the family of all comparisons. ``smallest_ratio``: the smallest
    change that this row would have shown with 80 % power at 0.05.
    """

    key: QuantityKey
    before: ComparedPoint
    after: ComparedPoint
    effect: Effect | None
    scope: Scope | None
    why: str | None
    bound: bool = False
    has_mixed_boots: bool = False
    adjusted_p: float | None = None
    equivalence_adjusted_p: float | None = None
    smallest_ratio: float | None = None

    @property
    def sides(self) -> tuple[SideSetUps, SideSetUps]:
        """Possible replicates of the effect, before and after."""
        return self.before.replicates, self.after.replicates

    @property
    def change_ratio(self) -> float | None:
        """Change of the replicates, or of the plain means if no effect may be reported."""
        if self.effect is not None and self.effect.change is not None:
            return self.effect.change
        before, after = self.before.mean, self.after.mean
        return None if before is None or after is None or before.mean <= 0 else after.mean / before.mean - 1

    @property
    def better(self) -> bool | None:
        """Whether it changed for the better, or None if unknown."""
        ratio = self.change_ratio
        return None if not ratio else (ratio > 0) is (self.key.quantity.better == "higher")

    @property
    def no_claim_reason(self) -> str | None:
        """Why nothing is claimed: there is no effect, or an occasion is compared with too few others."""
        others = None if self.effect is None else self.effect.others_of_single
        return ONE_WITH_FEW if self.why is None and others is not None and others < FEWEST_OTHERS else self.why

    @property
    def bound_reason(self) -> str:
        """Why the difference is only a ``bound``: for a time, because of the link."""
        limited = [point.bounds for point in (self.before, self.after) if point.bounds & {"at least", HELD}]
        if self.key.kind == RUN:
            return ONE_FULL if {"at least"} in limited else SOME_CARRIED_ALL
        some = any(len(bounds) > 1 for bounds in limited)
        if any(HELD in bounds for bounds in limited):
            return SOME_LINK_LIMITED if some else ONE_LINK_LIMITED
        return SOME_FULL if some else ONE_FULL

    @property
    def least_error_log(self) -> float:
        """The part of the standard error that more replicates do not reduce, as all of them may hit the same steps."""
        widths = [point.width_ratio for point in (self.before, self.after) if point.width_ratio]
        return math.sqrt(2.0) / (UNIFORM / max(widths)) if widths else 0.0

    @property
    def reach(self) -> str:
        """The scope of a finding, as a suffix."""
        if self.word in ("inconclusive", "no claim"):
            return ""
        if self.scope == "boots" and not self.has_mixed_boots:
            return f" {OF_BOOTS}"
        return f" {OF_SET_UPS}" if self.scope == "set-ups" else ""

    @property
    def word(self) -> Word:
        """The finding in one word."""
        return word(self.adjusted_p, self.equivalence_adjusted_p)


def format_replicates(change: Change) -> str:
    """The replicates of the effect and their number on each side, before and after."""
    if change.effect is None or change.scope is None:
        return UNKNOWN
    if change.scope == "blocks":
        return f"{change.effect.blocks} {SCOPE_NAMES['blocks']}"
    many = count_replicates(change.scope, change.sides)
    return f"{many[0]} and {many[1]} {SCOPE_NAMES[change.scope]}"


def count_replicates(scope: Scope, sides: tuple[SideSetUps, SideSetUps]) -> tuple[int, int]:
    """The number of replicates on each side, for levels other than shared blocks."""
    if scope == "occasions":
        before, after = (len(_moments(side, _collect_boots(*sides))) for side in sides)
    else:
        before, after = (side.boot_count if scope == "boots" else len(side.means) for side in sides)
    return before, after


class InFamily(NamedTuple):
    """An effect as a member of its family; the fields are those of Change."""

    adjusted_p: float | None
    equivalence_adjusted_p: float | None
    smallest_ratio: float | None


def adjust_in_family(changes: Sequence[Change], margin_ratio: float | None) -> list[InFamily]:
    """Adjust each change, in the order given. Equivalence is tested if both values are the unit under test's own."""
    effects = {place: each.effect for place, each in enumerate(changes) if each.effect is not None}
    p_values = {place: effect.p for place, effect in effects.items() if effect.p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    alike: dict[int, float] = {}
    for place in adjusted:
        p = None if margin_ratio is None or changes[place].bound else equivalence_p(effects[place], margin_ratio)
        if p is not None:
            alike[place] = p
    alike = dict(zip(alike, holm(list(alike.values())), strict=True))
    return [
        InFamily(
            adjusted.get(place), alike.get(place), find_detectable_effect(effects[place]) if place in adjusted else None
        )
        for place in range(len(changes))
    ]


def count_steps(before: ComparedPoint, after: ComparedPoint, replicates: float) -> float | None:
    """Resolution of values, as the number of packets in an equivalent count, or None if no steps matter.

    Rates of runs are counts. A step that every search may repeat is not averaged away: the deviation between
    replicates is taken to be at least so large that their mean is no more certain than one value within its step.
    """
    points = (before, after)
    counts = [point.packets for point in points if point.packets]
    if len(counts) == len(points):
        return float(min(counts))
    widths = [point.width_ratio for point in points if point.width_ratio]
    return UNIFORM / (max(widths) * math.sqrt(replicates)) if widths else None


def derive_unpaired_effect(
    ours: SideSetUps, theirs: SideSetUps, packets: Callable[[float], float | None]
) -> ScopedEffect:
    """Effect over occasions if a side has three or more, else over boots if both have three, else over set-ups.

    Welch's t, or Student's where one side has fewer than three occasions: these vary by as much as the others do, and
    by no less than they and their set-ups show. ``packets`` as in unpaired_effect(), by how many replicates each side
    has, as their harmonic mean.
    """
    moments = [_moments(side, _collect_boots(ours, theirs)) for side in (ours, theirs)]
    if max(map(len, moments)) >= MINIMUM_BLOCKS:
        known = packets(_average_replicates(moments))
        if min(map(len, moments)) >= MINIMUM_BLOCKS:
            return build_scoped_effect(_as_one_spread(unpaired_effect(*moments, packets=known), moments), "occasions")
        few, many = (ours, theirs) if len(moments[0]) < MINIMUM_BLOCKS else (theirs, ours)
        own = max(_own_deviation(few), _log_deviation(min(moments, key=len)))
        effect = one_spread_effect(*moments, packets=known, least_sd_log=_least_deviation(few, many), own_sd_log=own)
        return build_scoped_effect(effect, "occasions")
    by_boot = [average_by_boot(side.means, side.boots) for side in (ours, theirs)]
    if min(map(len, by_boot)) >= MINIMUM_BLOCKS:
        if by_boot[0].keys() & by_boot[1].keys():
            return None, None, SHARED_BOOTS
        values = [list(each.values()) for each in by_boot]
        return build_scoped_effect(unpaired_effect(*values, packets=packets(_average_replicates(values))), "boots")
    if min(len(ours.means), len(theirs.means)) < MINIMUM_BLOCKS:
        return None, None, FEW_SET_UPS
    if None in (*ours.boots.values(), *theirs.boots.values()):
        return None, None, UNKNOWN_BOOTS
    values = [list(side.means.values()) for side in (ours, theirs)]
    return build_scoped_effect(unpaired_effect(*values, packets=packets(_average_replicates(values))), "set-ups")


def _as_one_spread(effect: Effect, moments: Sequence[Sequence[float]]) -> Effect:
    """With an error no smaller than that of one spread for both sides: the fewer occasions of a side are, the more
    often all of them are of what is frequent, and alike.
    """
    if effect.absent is not None or not effect.error_log:
        return effect
    logs = [[math.log(value) for value in side] for side in moments]
    error = (pooled_deviation(logs) or 0.0) * math.sqrt(math.fsum(1 / len(side) for side in moments))
    return widen_effect(effect, error / effect.error_log) if error > effect.error_log else effect


def _log_deviation(values: Sequence[float]) -> float:
    return (deviation([math.log(value) for value in values]) or 0.0) if values and min(values) > 0 else 0.0


def _average_replicates(values: Sequence[Sequence[float]]) -> float:
    return harmonic_mean([len(each) for each in values]) if all(values) else 1.0


def _collect_boots(*sides: SideSetUps) -> set[str | None]:
    return {boot for side in sides for boot in side.boots.values()}


def find_occasion_means(side: SideSetUps) -> list[float]:
    """Occasion means of one side by itself, in its unit; empty if a boot is unknown."""
    return _moments(side, _collect_boots(side))


def _moments(side: SideSetUps, of_both: Collection[str | None]) -> list[float]:
    """Means of occasions. Those that share a boot of the machine are one, unless there was only one boot on either
    side: occasions of one boot do not show how far boots differ. Empty if a boot is unknown.
    """
    if None in of_both:
        return []
    moments: list[tuple[set[str | None], list[float]]] = []
    for set_ups in side.set_ups_by_occasion:
        boots, means = {side.boots[each] for each in set_ups}, [mean_of([side.means[each] for each in set_ups])]
        alike = [each for each in moments if each[0] & boots] if len(of_both) > 1 else []
        for each in alike:
            moments.remove(each)
        moments.append((boots.union(*(each[0] for each in alike)), [*means, *(m for each in alike for m in each[1])]))
    return [mean_of(means) for _, means in moments]


def _least_deviation(few: SideSetUps, many: SideSetUps) -> float:
    """Least deviation of a single occasion, on the logarithm.

    This is the deviation of occasions averaged over a boot, combined with the extra deviation of having fewer set-ups
    than those of the other side.
    """
    if not few.means or min([*few.means.values(), *many.means.values()]) <= 0:
        return 0.0
    within = [
        [math.log(side.means[each]) for each in set_ups] for side in (few, many) for set_ups in side.set_ups_by_occasion
    ]
    between = [
        [mean_of([math.log(side.means[each]) for each in set_ups]) for set_ups in side.set_ups_by_occasion]
        for side in (few, many)
    ]
    thinner = 1 / min(map(len, few.set_ups_by_occasion)) - mean_of([1 / len(each) for each in many.set_ups_by_occasion])
    return math.hypot(
        pooled_deviation(between) or 0.0, (pooled_deviation(within) or 0.0) * math.sqrt(max(0.0, thinner))
    )


def _own_deviation(few: SideSetUps) -> float:
    """Deviation of an occasion's mean from the spread of its own set-ups, on the logarithm. One outlier of three
    set-ups moves it by a third, and is no fall. For several occasions the root mean square.
    """
    if not few.means or min(few.means.values()) <= 0:
        return 0.0
    logs = [[math.log(few.means[each]) for each in set_ups] for set_ups in few.set_ups_by_occasion]
    return math.sqrt(mean_of([(deviation(each) or 0.0) ** 2 / len(each) for each in logs]))


def build_scoped_effect(effect: Effect, scope: Scope) -> ScopedEffect:
    """The effect, or why it is absent."""
    return (effect, scope, None) if effect.absent is None else (None, None, effect.absent)
