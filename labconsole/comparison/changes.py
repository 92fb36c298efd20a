"""Changes between two sides of measurements: design points are matched by factors, each with its effect. Pure.

Points are matched by their requested factors. A factor with one value on one side and another value on the other, such
as the platform, is the compared factor; its points match all the same. Conditions (kernel, hypervisor, generator,
testbed) are pooled within a side and reported next to the result: usually they are the intended change.

The replicate is the highest level with enough members: blocks in which both sides were measured, occasions, boots of
the machine, or set-ups. With set-ups alone a difference may be one of the boots, or of the time between the sides. With
boots that are not mixed in time it may be one of the time. ``reach`` states this. One comparison is one family (S.
Holm, Scand. J. Statist. 6, 1979).

Nothing is claimed of trials other than runs if they are of several testbeds or had different work, if a value is only a
bound on the unit under test, or if it is that of a link or a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

from labconsole.comparison.effects import (
    LOSS_UNKNOWN,
    NOTHING_LOST,
    OFFERED_LESS,
    SOME_CARRIED_ALL,
    SOME_FULL,
    SOME_LINK_LIMITED,
    Change,
    Scope,
    ScopedEffect,
    adjust_in_family,
    are_boots_mixed,
    build_scoped_effect,
    count_steps,
    derive_unpaired_effect,
)
from labconsole.comparison.points import (
    COMPARED_OF_RUNS,
    RUN,
    ComparedPoint,
    QuantityKey,
    RunPoint,
    TrialPoint,
    build_points,
    differing_conditions,
)
from labconsole.contracts.measured import FROM_MEMORY, HELD, Bound, MeasuredKind, MeasuredTrial
from labconsole.measure.admission import Admission
from labconsole.measure.comparison import Pair, different, setting_pair
from labconsole.measure.groups import CONDITIONS, ONE_SET_UP, Alike, conditions_of, design_of
from labconsole.measure.paired_blocks import NOT_RANDOMIZED, is_alternating
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.effects import (
    MINIMUM_BLOCKS,
    NOTHING_VARIED,
    censored_sd_ratio,
    paired_effect,
    widen_effect,
)
from labconsole.report.digest import Digest
from labconsole.report.points import PointSummary, make_points
from labconsole.report.sample import RunSample, collect_orders, find_order_objection

POOLED: Final = tuple(name for name in CONDITIONS if name not in ("duration", "method"))
COMPARED_FACTS: Final = ("labconsole_version", "observe", "sender", "witness", "flow control")
"""Facts compared over all runs of a side, in addition to their conditions and the facts of nodes and platforms."""

NO_RUNS: Final = RunSample((), (), {})
NONE_ADMITTED: Final = Admission((), {})

NO_SET_UPS: Final = "runs without blocks on one side: how far set-ups differ is not known"
UNKNOWN_SET_UPS: Final = "the set-ups of the trials are not known"
SEVERAL_TESTBEDS: Final = "the trials are of several testbeds"
DIFFERENT_PROGRAMS: Final = "the programs in the guests are not the same"
NONE_REACHED: Final = "the goal was not met even at the lowest load"
SOME_CACHED: Final = f"{FROM_MEMORY} in some trials, and not in others"
LINK_LIMITED_SLOWER: Final = f"{HELD} on the side that was slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Measurements that are compared with others. ``words``: how they were selected. ``place``: the store they are in.
    ``kept``, ``admission``: its runs.
    """

    words: str
    place: str
    kept: RunSample = NO_RUNS
    admission: Admission = NONE_ADMITTED
    digest: Digest
    planned_set_ups: int = 0
    missing_set_ups: int = 0
    """Missing set-ups of its plans, regardless of a filter; plans without blocks count none."""

    trials: tuple[MeasuredTrial, ...] = ()
    """Trials of kinds other than runs; the newest of those with the same meaning."""

    @property
    def points(self) -> list[ComparedPoint]:
        """Every design point that enters: those of runs, then each quantity of those of other trials."""
        orders = collect_orders(self.kept.entered, self.admission.begun, self.digest.facts)
        names: dict[Hashable, str] = {key: facts.name for (key, _), facts in self.digest.planned.items()}
        of_runs = make_points(self.kept.entered, POOLED, self.admission.stretches)
        return [
            *(RunPoint(summary=of, begun=self._find_starts(of), orders=orders, plan_names=names) for of in of_runs),
            *build_points(self.trials),
        ]

    def _find_starts(self, of: PointSummary) -> dict[Hashable, str]:
        begun, design = self.admission.begun, of.design
        return {block: begun.get((block, design.platform, design.background), "") for block in of.values_bps}

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
class MatchedPoints:
    """``factors``: compared ones, by kind. ``only_before``, ``only_after``: points that the other side lacks."""

    changes: tuple[Change, ...]
    factors: Mapping[str, tuple[str, ...]]
    only_before: tuple[ComparedPoint, ...]
    only_after: tuple[ComparedPoint, ...]

    def select(self, *, of_runs: bool) -> MatchedPoints:
        """Those of runs alone, or those of all other kinds."""
        return MatchedPoints(
            changes=tuple(each for each in self.changes if (each.key.kind == RUN) is of_runs),
            factors={kind: names for kind, names in self.factors.items() if (kind == RUN) is of_runs},
            only_before=tuple(each for each in self.only_before if (each.key.kind == RUN) is of_runs),
            only_after=tuple(each for each in self.only_after if (each.key.kind == RUN) is of_runs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All differences between two sides. ``matched``: their points; its changes form one family. ``differences``:
    other differences, in testbeds, nodes, platforms and versions.
    """

    before: Side
    after: Side
    matched: MatchedPoints
    differences: tuple[Pair, ...]
    margin_ratio: float | None

    @property
    def runs(self) -> MatchedPoints:
        """The forwarding rates of runs."""
        return self.matched.select(of_runs=True)

    @property
    def quantities(self) -> MatchedPoints:
        """The quantities of trials that are not runs."""
        return self.matched.select(of_runs=False)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those of runs."""
        return self.runs.changes

    @property
    def factors(self) -> tuple[str, ...]:
        """The compared factors of runs."""
        return self.runs.factors.get(RUN, ())

    @property
    def only_before(self) -> tuple[ComparedPoint, ...]:
        """Points of runs that the later side lacks."""
        return self.runs.only_before

    @property
    def only_after(self) -> tuple[ComparedPoint, ...]:
        """Points of runs that the earlier side lacks."""
        return self.runs.only_after

    @property
    def size(self) -> int:
        """The number of claims."""
        return sum(each.effect is not None for each in self.matched.changes)

    @property
    def scopes(self) -> frozenset[Scope]:
        """Replicates that the effects are over."""
        return frozenset(each.scope for each in self.matched.changes if each.scope is not None)


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
    compared = {RUN: COMPARED_OF_RUNS, **{kind.kind.name: kind.compared for kind in kinds}}
    matched = match_points(
        before.points, after.points, compared if across_factors else {}, one_place=before.place == after.place
    )
    family = adjust_in_family(matched.changes, margin_ratio)
    changes = (replace(each, **said._asdict()) for each, said in zip(matched.changes, family, strict=True))
    return Changes(
        before=before,
        after=after,
        matched=replace(matched, changes=tuple(changes)),
        differences=tuple(find_differences(before, after)),
        margin_ratio=margin_ratio,
    )


def declared_margin(sides: Iterable[Side]) -> float | None:
    """The margin that all plans of these sides declare, or None if there is none or they differ."""
    declared: set[float | None] = set()
    for side in sides:
        declared |= {each.margin_ratio for each in side.digest.facts.values()}
        declared |= {trial.margin_ratio for trial in side.trials if trial.values and trial.planned}
    return declared.pop() if len(declared) == 1 else None


def match_points(
    before: Sequence[ComparedPoint],
    after: Sequence[ComparedPoint],
    compared: Mapping[str, Sequence[str]],
    *,
    one_place: bool,
) -> MatchedPoints:
    """Match the points of two sides. ``compared``: by kind, the factors that sides may be compared by, if each has one
    value and they differ.

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
    return MatchedPoints(
        changes=changes,
        factors=factors,
        only_before=tuple(point for point in before if id(point) not in matched),
        only_after=tuple(point for point in after if id(point) not in matched),
    )


def _compared(
    kind: str, before: Sequence[ComparedPoint], after: Sequence[ComparedPoint], names: Sequence[str]
) -> tuple[str, ...]:
    sides = [[dict(point.key.factors) for point in points if point.key.kind == kind] for points in (before, after)]
    found = []
    for name in names:
        values = [{each.get(name) for each in side} for side in sides]
        if all(len(each) == 1 for each in values) and values[0] != values[1]:
            found.append(name)
    return tuple(found)


def _group_by_key(
    points: Sequence[ComparedPoint], factors: Mapping[str, tuple[str, ...]]
) -> dict[QuantityKey, list[ComparedPoint]]:
    found: dict[QuantityKey, list[ComparedPoint]] = {}
    for point in points:
        found.setdefault(point.key.without(factors.get(point.key.kind, ())), []).append(point)
    return found


def _change(key: QuantityKey, before: ComparedPoint, after: ComparedPoint, one_place: bool) -> Change:
    """Of several reasons for no effect, names the limit of the values first; for runs only if neither side lost any."""
    bound, limit = _judge_bound(before, after)
    effect, scope, why = _derive_effect(before, after, one_place)
    if limit is not None and (why is None or limit == NOTHING_LOST or key.kind != RUN):
        effect, scope, why = None, None, limit
    if effect is not None and bound:
        effect = widen_effect(effect, 1 / min(censored_sd_ratio(point.limited_ratio) for point in (before, after)))
    return Change(
        key=key,
        before=before,
        after=after,
        effect=effect,
        scope=scope,
        why=why,
        bound=bound,
        has_mixed_boots=scope == "boots" and are_boots_mixed(before.replicates, after.replicates),
    )


# -- bounds ------------------------------------------------------------------------------------------------------------


def _judge_bound(before: ComparedPoint, after: ComparedPoint) -> tuple[bool, str | None]:
    """Return whether a difference is only a lower bound, and why there is none."""
    both = before.bounds | after.bounds
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
    return _judge_full(before, after)


def _judge_full(before: ComparedPoint, after: ComparedPoint) -> tuple[bool, str | None]:
    """Judge rates of which some trials lost nothing.

    A rate that equals the offered one has no upper limit, so if the side with more has such trials, the difference is
    at least the one shown. If only the side with less has them, they say nothing about a difference.
    """
    assert before.mean is not None
    assert after.mean is not None
    more, less = (before, after) if before.mean.mean >= after.mean.mean else (after, before)
    assert more.mean is not None
    some = SOME_CARRIED_ALL if more.key.kind == RUN else SOME_FULL
    if less.full_mean is not None and less.full_mean < more.mean.mean:
        return False, OFFERED_LESS if less.bounds == {"at least"} else some
    return (True, None) if "at least" in more.bounds else (False, some)


def find_cache_objection(bounds: Collection[Bound], flags: Sequence[Collection[bool]]) -> str | None:
    """Why times may be those of a cache. ``flags``: for each side, whether its trials may have read from memory. Such a
    side is only comparable with its like; a side of which some trials read from memory is comparable with none.
    """
    if FROM_MEMORY in bounds:
        return FROM_MEMORY
    if any(len(each) > 1 for each in flags):
        return SOME_CACHED
    return FROM_MEMORY if len(set(chain(*flags))) > 1 else None


def _judge_link_limited(before: ComparedPoint, after: ComparedPoint) -> tuple[bool, str | None]:
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


# -- effects -----------------------------------------------------------------------------------------------------------


def _derive_effect(before: ComparedPoint, after: ComparedPoint, one_place: bool) -> ScopedEffect:
    """The effect, or why there is none.

    Without any variation, values of trials other than runs are known to one packet of their counts: a fall of all of
    them is one.
    """
    if (why := _find_objection(before, after)) is not None:
        return None, None, why
    found = _derive_best_effect(before, after, one_place, partial(count_steps, before, after))
    known_ratio = max(before.known_ratio, after.known_ratio)
    if found[2] != NOTHING_VARIED or not known_ratio:
        return found
    return _derive_best_effect(before, after, one_place, lambda replicates: 1 / known_ratio)


def _find_objection(before: ComparedPoint, after: ComparedPoint) -> str | None:
    """What forbids a comparison, whatever the values are."""
    if len(before.fingerprints | after.fingerprints) > 1:
        return SEVERAL_TESTBEDS
    if len(before.work | after.work) > 1:
        return DIFFERENT_PROGRAMS
    set_ups = {*before.boots, *after.boots}
    return UNKNOWN_SET_UPS if None in set_ups else NO_SET_UPS if ONE_SET_UP in set_ups else None


def _derive_best_effect(
    before: ComparedPoint, after: ComparedPoint, one_place: bool, packets: Callable[[float], float | None]
) -> ScopedEffect:
    """Over blocks of both sides, or else over the highest level that there is enough of.

    ``one_place``: blocks of two stores may share a name although they were not measured together.
    """
    ours, theirs = after.block_means, before.block_means
    shared = [block for block in ours if block in theirs] if one_place else []
    if len(shared) < MINIMUM_BLOCKS:
        return derive_unpaired_effect(after.replicates, before.replicates, packets)
    if (why := _find_wrong_order(before, after, shared)) is not None:
        return None, None, why
    one, other = ({block: means[block] for block in shared} for means in (ours, theirs))
    return build_scoped_effect(paired_effect(one, other, packets=packets(len(shared))), "blocks")


def _find_wrong_order(before: ComparedPoint, after: ComparedPoint, shared: Sequence[Any]) -> str | None:
    """Why the order of the set-ups in these blocks forbids a comparison: plans of runs record which order they drew."""
    if isinstance(before, RunPoint) and isinstance(after, RunPoint):
        blocks = [block for block, *_ in shared]
        return find_order_objection(after.summary, before.summary, blocks, {**before.orders, **after.orders})
    assert isinstance(before, TrialPoint)
    assert isinstance(after, TrialPoint)
    return None if is_alternating(after.turns, before.turns) else NOT_RANDOMIZED


# -- differences -------------------------------------------------------------------------------------------------------


def _values(name: str, runs: Iterable[RunRow]) -> set[str]:
    """The values of a condition among runs, as text."""
    values = {getattr(conditions_of(run), name) for run in runs}
    return {"unknown" if value is None else str(value) for value in values}


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
