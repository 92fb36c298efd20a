"""An effect between two sides of a comparison, and the measured points of a side other than forwarding rates. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from labconsole.contracts.measured import Bound, MeasuredTrial, MeasuredValue, Quantity, TrialTurn
from labconsole.measure.comparison import Pair
from labconsole.measure.paired_blocks import select_newest_per_place
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
from labconsole.measure.statistics.set_ups import (
    SetUpMean,
    deviation,
    mean_of,
    mean_over_set_ups,
    pooled_deviation,
    set_up_means,
)
from labconsole.report.comparisons import UNKNOWN_BOOTS, average_by_boot
from labconsole.report.formatting import UNKNOWN

# -- compared effect ---------------------------------------------------------------------------------------------------
# An effect between two sides of a comparison: its replicates, and what may be concluded from it.
#
# The replicate is the highest level with enough members: blocks in which both sides were measured, occasions of a plan,
# boots of the machine, or set-ups. One comparison is one family (S. Holm, Scand. J. Statist. 6, 1979).

Scope = Literal["blocks", "occasions", "boots", "set-ups"]
ScopedEffect = tuple[Effect | None, Scope | None, str | None]
"""The effect and its replicates, or why there is none."""

FEW_SET_UPS: Final = "fewer than 3 set-ups a side"
SHARED_BOOTS: Final = "some boots of the machine are on both sides, and the others may differ"
NOTHING_LOST: Final = "both sides forwarded all that they were offered"
ONE_FULL: Final = "one side forwarded all that it was offered"
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


class SideSetUps(NamedTuple):
    """The set-ups of one point on one side. For each: its mean; the boot of the unit under test, or None if unknown;
    its occasion; and its start time if known (RFC 3339, UTC). ``known_ratio``: resolution of a single value, as a
    deviation of its logarithm.
    """

    means: Mapping[Hashable, float]
    boots: Mapping[Hashable, str | None]
    occasions: Mapping[Hashable, Hashable]
    begun: Mapping[Hashable, str] = MappingProxyType({})
    known_ratio: float = 0.0

    @property
    def boot_count(self) -> int:
        """The number of known boots."""
        return len(set(self.boots.values()) - {None})

    @property
    def set_ups_by_occasion(self) -> list[list[Hashable]]:
        """The set-ups of each occasion."""
        found: dict[Hashable, list[Hashable]] = {}
        for set_up in self.means:
            found.setdefault(self.occasions[set_up], []).append(set_up)
        return list(found.values())

    @property
    def boots_begun(self) -> list[str]:
        """When the first set-up of each known boot began; empty if a time is unknown."""
        found: dict[str, str] = {}
        for set_up, boot in self.boots.items():
            if boot is not None:
                begun = self.begun.get(set_up, "")
                found[boot] = min(begun, found.get(boot, begun))
        return [] if "" in found.values() else list(found.values())


def are_boots_mixed(*sides: SideSetUps) -> bool:
    """Whether the boots of two sides were mixed in time, so that nothing that drifts with time separates them."""
    ours, theirs = (side.boots_begun for side in sides)
    first = [(one < other) + (one == other) / 2 for one in ours for other in theirs]
    return bool(first) and MIXED_SHARE <= mean_of(first) <= 1 - MIXED_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEffect:
    """``effect``: after / before - 1, or None; ``why`` has the reason. ``bound``: one side forwarded all that it was
    offered, so that the difference is at least this. ``has_mixed_boots``: the boots of both sides were mixed in time.
    ``adjusted_p``, ``equivalence_adjusted_p``: in the family of all comparisons. ``smallest_ratio``: the smallest
    change that this row would have shown with 80 % power at 0.05.
    """

    effect: Effect | None
    scope: Scope | None
    why: str | None
    bound: bool = False
    has_mixed_boots: bool = False
    adjusted_p: float | None = None
    equivalence_adjusted_p: float | None = None
    smallest_ratio: float | None = None

    @property
    def no_claim_reason(self) -> str | None:
        """Why nothing is claimed: there is no effect, or an occasion is compared with too few others."""
        others = None if self.effect is None else self.effect.others_of_single
        return ONE_WITH_FEW if self.why is None and others is not None and others < FEWEST_OTHERS else self.why

    @property
    def bound_reason(self) -> str:
        """Why the difference is only a ``bound``."""
        return ONE_FULL

    @property
    def least_error_log(self) -> float:
        """The part of the standard error that more replicates do not reduce."""
        return 0.0

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


def format_replicates(change: ComparedEffect, sides: tuple[SideSetUps, SideSetUps]) -> str:
    """The replicates of the effect and their number on each side, before and after."""
    if change.effect is None or change.scope is None:
        return UNKNOWN
    if change.scope == "blocks":
        return f"{change.effect.blocks} {SCOPE_NAMES['blocks']}"
    many = count_replicates(change.scope, sides)
    return f"{many[0]} and {many[1]} {SCOPE_NAMES[change.scope]}"


def count_replicates(scope: Scope, sides: tuple[SideSetUps, SideSetUps]) -> tuple[int, int]:
    """The number of replicates on each side, for levels other than shared blocks."""
    if scope == "occasions":
        before, after = (len(_moments(side, _collect_boots(*sides))) for side in sides)
    else:
        before, after = (side.boot_count if scope == "boots" else len(side.means) for side in sides)
    return before, after


class InFamily(NamedTuple):
    """An effect as a member of its family; the fields are those of ComparedEffect."""

    adjusted_p: float | None
    equivalence_adjusted_p: float | None
    smallest_ratio: float | None


def adjust_in_family(changes: Sequence[ComparedEffect], margin_ratio: float | None) -> list[InFamily]:
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


# -- measured points ---------------------------------------------------------------------------------------------------
# Quantities other than forwarding rates of one side of a comparison, design point by design point.

UNIFORM: Final = math.sqrt(12.0)
"""The width of a uniform distribution in standard deviations: the position of a bound within its step is unknown."""


class QuantityKey(NamedTuple):
    """Key that identifies the same quantity of the same point on another side."""

    kind: str
    quantity: Quantity
    factors: tuple[tuple[str, Hashable], ...]

    def without(self, names: Iterable[str]) -> QuantityKey:
        """The key with these factors left open, to compare sides by them."""
        left_open = frozenset(names)
        return self._replace(factors=tuple(each for each in self.factors if each[0] not in left_open))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """One quantity at one design point, from trials that enter and have it."""

    key: QuantityKey
    trials: tuple[MeasuredTrial, ...]

    @property
    def quantity(self) -> Quantity:
        return self.key.quantity

    @property
    def words(self) -> str:
        """Human-readable name of the point."""
        return self.trials[0].words

    @property
    def values(self) -> list[MeasuredValue]:
        """The value of each trial."""
        return [trial.values[self.quantity] for trial in self.trials]

    @property
    def bounds(self) -> set[Bound]:
        """The kinds of bound that its values are, with respect to the unit under test."""
        return {value.bound for value in self.values}

    @property
    def from_memory(self) -> set[bool]:
        """Whether its trials may have read from memory; both values if trials differ."""
        return {trial.from_memory for trial in self.trials}

    @property
    def mean(self) -> SetUpMean | None:
        """Mean over set-ups, or None if no value is known."""
        values = self._by(lambda trial: trial.set_up)
        return mean_over_set_ups(values) if values else None

    @property
    def set_up_means(self) -> dict[Hashable, float]:
        """Mean of each set-up. An unknown set-up (None) permits no statement over set-ups."""
        return set_up_means(self._by(lambda trial: trial.set_up))

    @property
    def block_means(self) -> dict[Hashable, float]:
        """Mean of each block in which it was measured."""
        by_block = self._by(lambda trial: trial.block)
        return set_up_means({block: values for block, values in by_block.items() if block is not None})

    @property
    def boots(self) -> dict[Hashable, str | None]:
        """The unit under test's boot for each set-up."""
        return {trial.set_up: trial.boot_id for trial in self.trials}

    @property
    def replicates(self) -> SideSetUps:
        """The set-ups, each with its boot, its occasion (from the plan's name) and its first start."""
        newest_first = sorted(self.trials, key=lambda trial: trial.started_at, reverse=True)
        return SideSetUps(
            self.set_up_means,
            self.boots,
            {trial.set_up: trial.plan_name for trial in self.trials},
            {trial.set_up: trial.started_at for trial in newest_first},
            self.known_ratio,
        )

    @property
    def known_ratio(self) -> float:
        """Resolution of a single value, as a deviation of its logarithm: within its step, or one packet."""
        known = [(each.value, each.width_ratio or 0.0, each.resolution or 0.0) for each in self.values]
        return max((max(width / UNIFORM, to / value) for value, width, to in known if value), default=0.0)

    @property
    def turns(self) -> dict[Hashable, str]:
        """When it first began in each block."""
        turns: list[TrialTurn] = [trial.turn for trial in self.trials if trial.turn is not None]
        return {turn.of: turn.begun for turn in turns}

    def seen(self, of: Callable[[MeasuredTrial], str | None]) -> set[str | None]:
        """The values of ``of`` among its trials."""
        return {of(trial) for trial in self.trials}

    def _by(self, of: Callable[[MeasuredTrial], Hashable]) -> dict[Hashable, list[float]]:
        found: dict[Hashable, list[float]] = {}
        for trial, (value, *_) in zip(self.trials, self.values, strict=True):
            if value is not None:
                found.setdefault(of(trial), []).append(value)
        return found


def select_newest(trials: Iterable[MeasuredTrial]) -> list[MeasuredTrial]:
    """Of trials with the same meaning on one testbed, the newest acceptable one, else the newest."""
    return select_newest_per_place(trials, lambda trial: (trial.kind, trial.testbed_fingerprint, trial.hash))


def sort_factors(trial: MeasuredTrial) -> tuple[tuple[str, Hashable], ...]:
    """The factors of its point, by name."""
    return tuple(sorted(trial.factors.items(), key=lambda factor: factor[0]))


def build_points(trials: Sequence[MeasuredTrial]) -> list[MeasuredPoint]:
    """Every quantity of every point, in the order in which it was first measured."""
    found: dict[QuantityKey, list[MeasuredTrial]] = {}
    for trial in sorted(trials, key=lambda each: (each.started_at, each.id)):
        for quantity in trial.values:
            found.setdefault(QuantityKey(trial.kind, quantity, sort_factors(trial)), []).append(trial)
    return [MeasuredPoint(key=key, trials=tuple(of_key)) for key, of_key in found.items()]


def find_pooled_conditions(trials: Sequence[MeasuredTrial]) -> Mapping[str, list[str]]:
    """By kind, the conditions that differ among the trials of one point, with their values there."""
    differing: dict[str, dict[str, set[str]]] = {}
    for point in build_points(trials):
        for name, values in _conditions(point.key.kind, point.trials).items():
            if len(values) > 1:
                differing.setdefault(point.key.kind, {}).setdefault(name, set()).update(values)
    return {
        kind: [f"{name} {', '.join(sorted(values))}" for name, values in differing[kind].items()]
        for kind in sorted(differing)
    }


def differing_conditions(
    before: Sequence[MeasuredTrial], after: Sequence[MeasuredTrial], reported: Collection[tuple[str, object, object]]
) -> list[Pair]:
    """Conditions of trials that enter, if they differ between the sides; without those ``reported`` already."""
    found = []
    for kind in sorted({trial.kind for trial in before} & {trial.kind for trial in after}):
        sides = [_conditions(kind, trials) for trials in (before, after)]
        for name in dict.fromkeys(name for side in sides for name in side):
            one, other = (", ".join(sorted(side.get(name, ()))) or None for side in sides)
            if one != other and (name, one, other) not in reported:
                found.append(Pair(f"Trials of kind {kind}", name, one, other))
    return found


def _conditions(kind: str, trials: Sequence[MeasuredTrial]) -> dict[str, set[str]]:
    """All values of each condition."""
    found: dict[str, set[str]] = {}
    for trial in trials:
        if trial.kind == kind and trial.values:
            own = {"testbed": trial.testbed, "fingerprint": trial.testbed_fingerprint, **trial.conditions}
            for name, value in own.items():
                found.setdefault(name, set()).add(value or "unknown")
    return found
