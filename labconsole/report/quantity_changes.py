"""Changes between two sides in quantities other than forwarding rates: searches, jobs, starts, flows, routers.

Uses the same statistics as for runs (changes.py). Nothing is claimed if trials are of several testbeds or had different
work, if a value is only a bound on the unit under test, or if it is that of a link or a cache. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from labconsole.contracts.measured import FROM_MEMORY, HELD, Bound, MeasuredTrial
from labconsole.measure.paired_blocks import NOT_RANDOMIZED, is_alternating
from labconsole.measure.statistics.effects import (
    MINIMUM_BLOCKS,
    NOTHING_VARIED,
    censored_sd_ratio,
    paired_effect,
    widen_effect,
)
from labconsole.measure.statistics.set_ups import mean_of
from labconsole.report.compared_effect import (
    LOSS_UNKNOWN,
    NOTHING_LOST,
    OFFERED_LESS,
    ONE_FULL,
    UNIFORM,
    ComparedEffect,
    MeasuredPoint,
    QuantityKey,
    ScopedEffect,
    SideSetUps,
    are_boots_mixed,
    build_scoped_effect,
    derive_unpaired_effect,
)

UNKNOWN_SET_UPS: Final = "the set-ups of the trials are not known"
SEVERAL_TESTBEDS: Final = "the trials are of several testbeds"
DIFFERENT_PROGRAMS: Final = "the programs in the guests are not the same"
NONE_REACHED: Final = "the goal was not met even at the lowest load"
SOME_FULL: Final = "some trials lost nothing of all that could be offered, and others did"
ONE_LINK_LIMITED: Final = f"one side is {HELD}"
SOME_LINK_LIMITED: Final = f"{HELD} in some trials, and not in others"
SOME_CACHED: Final = f"{FROM_MEMORY} in some trials, and not in others"
LINK_LIMITED_SLOWER: Final = f"{HELD} on the side that was slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityChange(ComparedEffect):
    """One quantity of one design point on both sides."""

    key: QuantityKey
    before: MeasuredPoint
    after: MeasuredPoint

    @property
    def change_ratio(self) -> float | None:
        """Change of the replicates, or of the plain means if no effect may be reported."""
        if self.effect is not None and self.effect.change is not None:
            return self.effect.change
        before, after = self.before.mean, self.after.mean
        return None if before is None or after is None or before.mean <= 0 else after.mean / before.mean - 1

    @property
    def sides(self) -> tuple[SideSetUps, SideSetUps]:
        """Possible replicates of the effect, before and after."""
        return self.before.replicates, self.after.replicates

    @property
    def bound_reason(self) -> str:
        """Why the difference is a bound: for a time, because of the link."""
        bounds_of_sides = [point.bounds for point in (self.before, self.after) if point.bounds & {"at least", HELD}]
        some = any(len(bounds) > 1 for bounds in bounds_of_sides)
        if any(HELD in bounds for bounds in bounds_of_sides):
            return SOME_LINK_LIMITED if some else ONE_LINK_LIMITED
        return SOME_FULL if some else ONE_FULL

    @property
    def least_error_log(self) -> float:
        """Least error of values that move in steps: all of them may hit the same steps."""
        step = _steps(self.before, self.after, 1.0)
        return 0.0 if step is None else math.sqrt(2.0) / step

    @property
    def better(self) -> bool | None:
        """Whether it changed for the better, or None if unknown."""
        ratio = self.change_ratio
        return None if not ratio else (ratio > 0) is (self.key.quantity.better == "higher")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedQuantities:
    """``factors``: compared ones, by kind. ``only_before``, ``only_after``: quantities the other side lacks."""

    changes: tuple[QuantityChange, ...] = ()
    factors: Mapping[str, tuple[str, ...]]
    only_before: tuple[MeasuredPoint, ...] = ()
    only_after: tuple[MeasuredPoint, ...] = ()


def match_quantities(
    before: Sequence[MeasuredPoint],
    after: Sequence[MeasuredPoint],
    compared: Mapping[str, Sequence[str]],
    *,
    one_place: bool,
) -> MatchedQuantities:
    """Match quantities. ``compared``: by kind, the factors that sides may be compared by, if each has one value and
    they differ.

    ``one_place``: both sides are of one store, so that blocks of one name are the same.
    """
    factors = {kind: found for kind, names in compared.items() if (found := _compared(kind, before, after, names))}
    theirs, ours = (_group_by_key(points, factors) for points in (before, after))
    changes = tuple(
        _change(key, theirs[key][0], points_of_key[0], one_place)
        for key, points_of_key in ours.items()
        if key in theirs and len(points_of_key) == len(theirs[key]) == 1
    )
    matched = {id(point) for each in changes for point in (each.before, each.after)}
    return MatchedQuantities(
        changes=changes,
        factors=factors,
        only_before=tuple(point for point in before if id(point) not in matched),
        only_after=tuple(point for point in after if id(point) not in matched),
    )


def _compared(
    kind: str, before: Sequence[MeasuredPoint], after: Sequence[MeasuredPoint], names: Sequence[str]
) -> tuple[str, ...]:
    sides = [[dict(point.key.factors) for point in points if point.key.kind == kind] for points in (before, after)]
    found = []
    for name in names:
        values = [{each.get(name) for each in side} for side in sides]
        if all(len(each) == 1 for each in values) and values[0] != values[1]:
            found.append(name)
    return tuple(found)


def _group_by_key(
    points: Sequence[MeasuredPoint], factors: Mapping[str, tuple[str, ...]]
) -> dict[QuantityKey, list[MeasuredPoint]]:
    found: dict[QuantityKey, list[MeasuredPoint]] = {}
    for point in points:
        found.setdefault(point.key.without(factors.get(point.key.kind, ())), []).append(point)
    return found


def _change(key: QuantityKey, before: MeasuredPoint, after: MeasuredPoint, one_place: bool) -> QuantityChange:
    bound, why = _judge_bound(before, after)
    why = why or _find_objection(before, after)
    found: ScopedEffect = (None, None, why) if why is not None else _derive_effect(before, after, one_place)
    effect, scope, why = found
    if effect is not None and bound:
        effect = widen_effect(effect, 1 / min(censored_sd_ratio(_full_share(point)) for point in (before, after)))
    return QuantityChange(
        key=key,
        before=before,
        after=after,
        effect=effect,
        scope=scope,
        why=why,
        bound=bound,
        has_mixed_boots=scope == "boots" and are_boots_mixed(before.replicates, after.replicates),
    )


def _full_share(point: MeasuredPoint) -> float:
    """The share of trials that lost nothing or that the link limited: beyond it they would scatter like others."""
    return sum(value.bound in ("at least", HELD) for value in point.values) / len(point.values)


def _find_objection(before: MeasuredPoint, after: MeasuredPoint) -> str | None:
    def seen(name: str) -> int:
        return len(before.seen(lambda trial: _text(trial, name)) | after.seen(lambda trial: _text(trial, name)))

    if seen("testbed_fingerprint") > 1:
        return SEVERAL_TESTBEDS
    if seen("work") > 1:
        return DIFFERENT_PROGRAMS
    return UNKNOWN_SET_UPS if None in before.boots or None in after.boots else None


def _text(trial: MeasuredTrial, name: str) -> str:
    return str(getattr(trial, name))


def _judge_bound(before: MeasuredPoint, after: MeasuredPoint) -> tuple[bool, str | None]:
    """Whether a difference is only a lower bound, and why there is none."""
    sides = [before.bounds, after.bounds]
    both = sides[0] | sides[1]
    if (why := find_cache_objection(both, [before.from_memory, after.from_memory])) is not None:
        return False, why
    if HELD in both:
        return _judge_link_limited(before, after)
    if "none" in both:
        return False, NONE_REACHED
    if "unknown" in both:
        return False, LOSS_UNKNOWN
    if "at least" not in both:
        return False, None
    if both == {"at least"}:
        return False, NOTHING_LOST
    return _lost_nothing(before, after)


def _lost_nothing(before: MeasuredPoint, after: MeasuredPoint) -> tuple[bool, str | None]:
    """Judge rates of which some trials lost nothing.

    On the side with more, such trials have no upper limit, so the difference is at least the one shown. If only the
    side with less has them, they say nothing about a difference.
    """
    assert before.mean is not None
    assert after.mean is not None
    more, less = (before, after) if before.mean.mean >= after.mean.mean else (after, before)
    assert more.mean is not None
    full = [value.value for value in less.values if value.bound == "at least" and value.value is not None]
    if full and mean_of(full) < more.mean.mean:
        return False, SOME_FULL if len(less.bounds) > 1 else OFFERED_LESS
    return (True, None) if "at least" in more.bounds else (False, SOME_FULL)


def find_cache_objection(bounds: Collection[Bound], flags: Sequence[Collection[bool]]) -> str | None:
    """Why times may be those of a cache. ``flags``: for each side, whether its trials may have read from memory. Such a
    side is only comparable with its like; a side of which some trials read from memory is comparable with none.
    """
    if FROM_MEMORY in bounds:
        return FROM_MEMORY
    if any(len(each) > 1 for each in flags):
        return SOME_CACHED
    return FROM_MEMORY if len(set(chain(*flags))) > 1 else None


def _judge_link_limited(before: MeasuredPoint, after: MeasuredPoint) -> tuple[bool, str | None]:
    """Judge times of trials that the link limited.

    If it limited one side alone, or some of its trials, and the other side was slower, that link cannot be the reason.
    """
    if HELD in before.bounds and HELD in after.bounds:
        return False, HELD
    limited, free = (before, after) if HELD in before.bounds else (after, before)
    assert limited.mean is not None
    assert free.mean is not None
    if free.mean.mean >= limited.mean.mean:
        return True, None
    return False, SOME_LINK_LIMITED if len(limited.bounds) > 1 else LINK_LIMITED_SLOWER


def _derive_effect(before: MeasuredPoint, after: MeasuredPoint, one_place: bool) -> ScopedEffect:
    """Without any variation, values are known to one packet of their counts: a fall of all of them is one."""
    found = _derive_best_effect(before, after, one_place, partial(_steps, before, after))
    known_ratio = max(before.known_ratio, after.known_ratio)
    if found[2] != NOTHING_VARIED or not known_ratio:
        return found
    return _derive_best_effect(before, after, one_place, lambda replicates: 1 / known_ratio)


def _derive_best_effect(
    before: MeasuredPoint, after: MeasuredPoint, one_place: bool, packets: Callable[[float], float | None]
) -> ScopedEffect:
    """Over blocks of both sides, or else over the highest level that there is enough of."""
    one, other = after.block_means, before.block_means
    shared = [block for block in one if block in other] if one_place else []
    if len(shared) >= MINIMUM_BLOCKS:
        if not is_alternating(after.turns, before.turns):
            return None, None, NOT_RANDOMIZED
        ours, theirs = ({block: means[block] for block in shared} for means in (one, other))
        return build_scoped_effect(paired_effect(ours, theirs, packets=packets(len(shared))), "blocks")
    return derive_unpaired_effect(after.replicates, before.replicates, packets)


def _steps(before: MeasuredPoint, after: MeasuredPoint, replicates: float) -> float | None:
    """Resolution of values, as the number of packets in an equivalent count, or None if no steps matter.

    A step that every search may repeat is not averaged away: the deviation between replicates is taken to be at least
    so large that their mean is no more certain than one value within its step.
    """
    widths = [value.width_ratio for point in (before, after) for value in point.values if value.width_ratio]
    return UNIFORM / (max(widths) * math.sqrt(replicates)) if widths else None
