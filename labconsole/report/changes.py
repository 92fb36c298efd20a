"""Changes between two sets of runs: design points are matched by factors, each with its effect. Pure.

Points are matched by their requested factors. A factor with one value on one side and another value on the other, such
as the platform, is the compared factor; its points match all the same. Conditions (kernel, hypervisor, generator,
testbed) are pooled within a side and reported next to the result: usually they are the intended change.

The replicate is the highest level with enough members: blocks in which both sides were measured, occasions, boots of
the machine, or set-ups. With set-ups alone a difference may be one of the boots, or of the time between the sides. With
boots that are not mixed in time it may be one of the time. ``reach`` states this. One comparison is one family (S.
Holm, Scand. J. Statist. 6, 1979).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from labconsole.contracts.measured import MeasuredKind, MeasuredTrial
from labconsole.measure.admission import Admission
from labconsole.measure.comparison import Pair, different, setting_pair
from labconsole.measure.groups import CONDITIONS, ONE_SET_UP, Alike, conditions_of, design_of, occasion_of_block
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, censored_sd_ratio, paired_effect, widen_effect
from labconsole.measure.statistics.set_ups import mean_of, set_up_means
from labconsole.model.design_point import FrameSize
from labconsole.report.compared_effect import (
    LOSS_UNKNOWN,
    NOTHING_LOST,
    OFFERED_LESS,
    ONE_FULL,
    ComparedEffect,
    MeasuredPoint,
    Scope,
    ScopedEffect,
    SideSetUps,
    adjust_in_family,
    are_boots_mixed,
    build_points,
    build_scoped_effect,
    derive_unpaired_effect,
    differing_conditions,
)
from labconsole.report.comparisons import find_contiguous_blocks
from labconsole.report.digest import Digest
from labconsole.report.points import PointSummary, make_points
from labconsole.report.quantity_changes import MatchedQuantities, QuantityChange, match_quantities
from labconsole.report.sample import RunSample, SetUpOrders, collect_orders, find_order_objection

POOLED: Final = tuple(name for name in CONDITIONS if name not in ("duration", "method"))
COMPARED_FACTS: Final = ("labconsole_version", "observe", "sender", "witness", "flow control")
"""Facts compared over all runs of a side, in addition to their conditions and the facts of nodes and platforms."""

SOME_FULL: Final = "some trials lost nothing of what they were offered, and others did"
NO_SET_UPS: Final = "runs without blocks on one side: how far set-ups differ is not known"


class DesignKey(NamedTuple):
    """A design point as both sides request it. The compared factor is None. ``method``: version of the numbers."""

    platform: str | None
    frame: FrameSize | None
    sources: int | None
    target_bps: int | Literal["max"] | None
    background: str | None
    duration_s: float | None
    method: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Runs that are compared with others. ``words``: how they were selected. ``place``: the store they are in."""

    words: str
    place: str
    kept: RunSample
    admission: Admission
    digest: Digest
    planned_set_ups: int = 0
    missing_set_ups: int = 0
    """Missing set-ups of its plans, regardless of a filter; plans without blocks count none."""

    trials: tuple[MeasuredTrial, ...] = ()
    """Trials of kinds other than runs; the newest of those with the same meaning."""

    @property
    def points(self) -> list[PointSummary]:
        """Every design point of the runs that enter."""
        return make_points(self.kept.entered, POOLED, self.admission.stretches)

    @property
    def quantities(self) -> list[MeasuredPoint]:
        """Quantities that its other trials measured, point by point."""
        return build_points(self.trials)

    @property
    def pooled(self) -> list[str]:
        """Conditions that differ among the runs of one design point, with their values there."""
        averaged: dict[Alike | None, list[RunRow]] = {}
        for run in self.kept.entered:
            averaged.setdefault(design_of(run, POOLED), []).append(run)
        found = []
        for name in POOLED:
            differing = {
                each for runs in averaged.values() if len(values := _values(name, runs)) > 1 for each in values
            }
            if differing:
                found.append(f"{name} {', '.join(sorted(differing))}")
        return found

    def conditions(self, name: str) -> list[str]:
        """The values of a condition among all runs that enter."""
        return sorted(_values(name, self.kept.entered))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(ComparedEffect):
    """One design point on both sides. ``effect``: of the forwarding rate."""

    key: DesignKey
    before: PointSummary
    after: PointSummary

    @property
    def sides(self) -> tuple[SideSetUps, SideSetUps]:
        """Possible replicates of the effect, before and after."""
        return collect_set_ups(self.before), collect_set_ups(self.after)

    @property
    def bound_reason(self) -> str:
        """Why the difference is only a ``bound``."""
        return ONE_FULL if self.before.carries_all or self.after.carries_all else SOME_FULL

    @property
    def change_ratio(self) -> float | None:
        """Change of the replicates, or of the plain means if no effect may be reported."""
        if self.effect is not None and self.effect.change is not None:
            return self.effect.change
        return self.after.rate_bps.mean / self.before.rate_bps.mean - 1 if self.before.rate_bps.mean > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All differences between two sides. ``factors``: those that are compared. ``only_before``, ``only_after``: points
    that the other side lacks. ``quantities``: the same for trials that are not runs. ``differences``: other
    differences, in testbeds, nodes, platforms and versions.
    """

    before: Side
    after: Side
    factors: tuple[str, ...]
    changes: tuple[Change, ...]
    only_before: tuple[PointSummary, ...]
    only_after: tuple[PointSummary, ...]
    quantities: MatchedQuantities
    differences: tuple[Pair, ...]
    margin_ratio: float | None
    size: int

    @property
    def scopes(self) -> frozenset[Scope]:
        """Replicates that the effects are over."""
        return frozenset(each.scope for each in self.every if each.scope is not None)

    @property
    def every(self) -> tuple[Change | QuantityChange, ...]:
        """All comparisons that form one family."""
        return *self.changes, *self.quantities.changes


def find_changes(
    before: Side,
    after: Side,
    margin_ratio: float | None,
    kinds: Sequence[MeasuredKind] = (),
    *,
    across_factors: bool = True,
) -> Changes:
    """Compare two sides that share no run and no trial. ``margin_ratio``: None for the margin that all their plans
    declare.

    ``kinds``: of the trials that are not runs. ``across_factors``: whether points match that differ in a factor with
    one value on either side.
    """
    if margin_ratio is None:
        margin_ratio = declared_margin([before, after])
    points = before.points, after.points
    factors = _compared_factors(*points) if across_factors else ()
    ours, theirs = (_group_by_key(points_of_key, factors) for points_of_key in (points[1], points[0]))
    changes = [
        _change(key, theirs[key][0], points_of_key[0], (before, after))
        for key, points_of_key in ours.items()
        if key in theirs and len(points_of_key) == len(theirs[key]) == 1
    ]
    matched = {id(point) for each in changes for point in (each.before, each.after)}
    quantities = match_quantities(
        before.quantities,
        after.quantities,
        {kind.kind.name: kind.compared if across_factors else () for kind in kinds},
        one_place=before.place == after.place,
    )
    family = adjust_in_family([*changes, *quantities.changes], margin_ratio)
    own, others = family[: len(changes)], family[len(changes) :]
    quantities = replace(
        quantities,
        changes=tuple(replace(each, **said._asdict()) for each, said in zip(quantities.changes, others, strict=True)),
    )
    return Changes(
        before=before,
        after=after,
        factors=factors,
        changes=tuple(replace(each, **said._asdict()) for each, said in zip(changes, own, strict=True)),
        only_before=tuple(point for point in points[0] if id(point) not in matched),
        only_after=tuple(point for point in points[1] if id(point) not in matched),
        quantities=quantities,
        differences=tuple(find_differences(before, after)),
        margin_ratio=margin_ratio,
        size=sum(each.effect is not None for each in (*changes, *quantities.changes)),
    )


def declared_margin(sides: Iterable[Side]) -> float | None:
    """The margin that all plans of these sides declare, or None if there is none or they differ."""
    declared: set[float | None] = set()
    for side in sides:
        declared |= {each.margin_ratio for each in side.digest.facts.values()}
        declared |= {trial.margin_ratio for trial in side.trials if trial.values and trial.planned}
    return declared.pop() if len(declared) == 1 else None


def _values(name: str, runs: Iterable[RunRow]) -> set[str]:
    """The values of a condition among runs, as text."""
    values = {getattr(conditions_of(run), name) for run in runs}
    return {"unknown" if value is None else str(value) for value in values}


def design_key(point: PointSummary) -> DesignKey:
    """Key that identifies the same point on another side."""
    conditions = point.design.conditions
    return DesignKey(
        point.design.platform,
        point.frame,
        point.sources,
        point.design.target_bps,
        point.background,
        conditions.duration,
        conditions.method,
    )


def _compared_factors(before: Sequence[PointSummary], after: Sequence[PointSummary]) -> tuple[str, ...]:
    """Factors with one value per side that differs between the sides."""
    found = []
    for name in DesignKey._fields[:-1]:
        sides = [{getattr(design_key(point), name) for point in points} for points in (before, after)]
        if all(len(side) == 1 for side in sides) and sides[0] != sides[1]:
            found.append(name)
    return tuple(found)


def _group_by_key(points: Sequence[PointSummary], factors: Sequence[str]) -> dict[DesignKey, list[PointSummary]]:
    found: dict[DesignKey, list[PointSummary]] = {}
    for point in points:
        found.setdefault(design_key(point)._replace(**dict.fromkeys(factors)), []).append(point)
    return found


def _change(key: DesignKey, before: PointSummary, after: PointSummary, sides: tuple[Side, Side]) -> Change:
    effect, scope, why = _derive_effect(before, after, sides)
    bound, why_not = _judge_bound(before, after)
    if why_not is not None and (why is None or why_not == NOTHING_LOST):
        effect, scope, why = None, None, why_not
    if effect is not None and bound:
        effect = widen_effect(effect, 1 / min(censored_sd_ratio(point.full_ratio) for point in (before, after)))
    return Change(
        key=key,
        before=before,
        after=after,
        effect=effect,
        scope=scope,
        why=why,
        bound=bound,
        has_mixed_boots=scope == "boots" and _are_boots_mixed(before, after, sides),
    )


def _are_boots_mixed(before: PointSummary, after: PointSummary, sides: tuple[Side, Side]) -> bool:
    set_ups = []
    for point, side in zip((before, after), sides, strict=True):
        begun, design = side.admission.begun, point.design
        times = {block: begun.get((block, design.platform, design.background), "") for block in point.values_bps}
        set_ups.append(collect_set_ups(point)._replace(begun=times))
    return are_boots_mixed(*set_ups)


def _judge_bound(before: PointSummary, after: PointSummary) -> tuple[bool, str | None]:
    """Return whether a difference is only a lower bound, and why there is none.

    A rate that equals the offered one says nothing. On the side with more, trials without loss have no upper limit; if
    only the side with less has them, they say nothing.
    """
    if None in (before.missing_ratio, after.missing_ratio):
        return False, LOSS_UNKNOWN
    if before.carries_all and after.carries_all:
        return False, NOTHING_LOST
    for one, other in ((before, after), (after, before)):
        if one.carries_all and one.rate_bps.mean < other.rate_bps.mean:
            return False, OFFERED_LESS
    more, less = (before, after) if before.rate_bps.mean >= after.rate_bps.mean else (after, before)
    if less.full_run_ids and mean_of(less.full_values_bps) < more.rate_bps.mean:
        return False, SOME_FULL
    return bool(more.full_run_ids), None if more.full_run_ids or not less.full_run_ids else SOME_FULL


def _derive_effect(before: PointSummary, after: PointSummary, sides: tuple[Side, Side]) -> ScopedEffect:
    """The effect over the highest level that both sides have enough of, or why there is none."""
    if ONE_SET_UP in before.values_bps or ONE_SET_UP in after.values_bps:
        return None, None, NO_SET_UPS
    counts = [point.packets for point in (before, after) if point.packets]
    packets = float(min(counts)) if len(counts) == 2 else None
    ours, theirs = set_up_means(after.values_bps), set_up_means(before.values_bps)
    # Blocks of two stores may share a name although they were not measured together.
    shared = find_contiguous_blocks(after, before) if sides[0].place == sides[1].place else []
    if len(shared) >= MINIMUM_BLOCKS:
        why = find_order_objection(after, before, shared, {**_read_order(sides[0]), **_read_order(sides[1])})
        if why is not None:
            return None, None, why
        one, other = ({block: means[block] for block in shared} for means in (ours, theirs))
        return build_scoped_effect(paired_effect(one, other, packets=packets), "blocks")
    return derive_unpaired_effect(collect_set_ups(after), collect_set_ups(before), lambda replicates: packets)


def collect_set_ups(point: PointSummary) -> SideSetUps:
    """The set-ups of a design point. Each occasion of a plan has its own hash."""
    means = set_up_means(point.values_bps)
    occasions = {block: occasion_of_block(block) for block in means}
    return SideSetUps(means, point.boots, occasions, known_ratio=1 / point.packets if point.packets else 0.0)


def _read_order(side: Side) -> SetUpOrders:
    return collect_orders(side.kept.entered, side.admission.begun, side.digest.facts)


def find_differences(before: Side, after: Side) -> list[Pair]:
    """Differences in the environment of the runs. Of values that vary among the runs of one side, uses the newest."""
    found = []
    ours, theirs = after.digest, before.digest
    for section, one, other in (("Node", theirs.nodes, ours.nodes), ("Platform", theirs.platforms, ours.platforms)):
        for name in [*one, *(each for each in other if each not in one)]:
            before_it, after_it = (None if name not in history else history[name].newest for history in (one, other))
            found += [pair for pair in different(f"{section} {name}", before_it, after_it) if not pair.expected]
    found += _settings(theirs, ours)
    reported = {(pair.label, pair.left, pair.right) for pair in found}
    labelled = [(name, ", ".join(before.conditions(name)), ", ".join(after.conditions(name))) for name in POOLED]
    labelled += [
        (name, ", ".join(sorted(theirs.said.get(name, {}))), ", ".join(sorted(ours.said.get(name, {}))))
        for name in COMPARED_FACTS
    ]
    found = [*differing_conditions(before.trials, after.trials, reported), *found]
    of_runs = [
        Pair("Runs", name, one_of or None, other_of or None)
        for name, one_of, other_of in labelled
        if one_of != other_of
        and (name, one_of, other_of) not in reported
        and before.kept.entered
        and after.kept.entered
    ]
    return [*of_runs, *found]


def _settings(before: Digest, after: Digest) -> Iterator[Pair]:
    """Settings that the newest records of both sides report for a node, if the sides did not have the same values."""
    for name in [each for each in before.settings if each in after.settings]:
        one, other = before.settings[name], after.settings[name]
        for setting in one.newest:
            if setting in one.told & other.told:
                yield from setting_pair(f"Node {name}", setting, one.values(setting), other.values(setting))
