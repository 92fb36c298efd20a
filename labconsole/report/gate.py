"""Gate: compares a new measurement of a plan with its baseline, in rates and other quantities. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from labconsole.contracts.measured import HELD, MeasuredTrial
from labconsole.errors import ConfigError
from labconsole.measure.statistics.effects import fall_p, holm
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.model.plan.plan import Plan
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.report.change_tables import format_compared_design, format_offered
from labconsole.report.changes import Change, Changes
from labconsole.report.compared_effect import NOTHING_LOST, MeasuredPoint, QuantityKey, count_replicates, sort_factors
from labconsole.report.formatting import format_design_point, format_noun_count
from labconsole.report.point_judgements import (
    HEADROOM,
    NONE_ENTERS,
    NOT_IN_BASELINE,
    SOME_HEADROOM,
    UNMEASURED,
    JudgedPoint,
    Judgement,
    Outcome,
    describe_unfinished,
    judge_fall,
    judge_full_load,
)
from labconsole.report.points import PointSummary
from labconsole.report.quantity_changes import QuantityChange
from labconsole.report.sample import Coverage, FilePoint, derive_coverage
from labconsole.report.set_up_outliers import describe_change_outlier, name_block, name_set_up

# -- quantity gate -----------------------------------------------------------------------------------------------------
# Gate for searches, jobs, starts, flows and routers of a plan: compares quantities with their baseline.
#
# If less is better, a lower value counts as higher: a job that takes longer has fallen.

BASELINE_ONLY: Final = "the baseline has it, and no trial here that enters a mean"
MORE_INVALID: Final = (
    "more trials are invalid than in the baseline, perhaps for what has changed: see why they are, or repeat them "
    "with replay"
)
NOT_COMPARED: Final = "nothing that its trials measured was compared"

Falls = Mapping[QuantityKey, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPointTrials:
    """A design point of a plan, with the hashes of its trials."""

    kind: str
    words: str
    hashes: tuple[str, ...]


def collect_planned_trials(plans: Sequence[Plan]) -> list[PlannedPointTrials]:
    """Trials that a plan requests besides forwarding trials, on all of these occasions.

    Of its searches, those for a load.
    """
    of_each = [_collect_plan_trials(plan) for plan in plans]
    return [
        replace(same[0], hashes=tuple(each for point in same for each in point.hashes))
        for same in zip(*of_each, strict=True)
    ]


def _collect_plan_trials(plan: Plan) -> list[PlannedPointTrials]:
    found = []
    if plan.guests is not None:
        at, noun = plan.guests.hashes_by_point, plan.guests.kind
        found += [
            PlannedPointTrials(kind=noun, words=point.words(), hashes=tuple(at[point.index]))
            for point in plan.guests.points
        ]
    if plan.search is not None and plan.search.load_goals:
        of: dict[int, list[str]] = {}
        names = {}
        for configuration, key in zip(plan.searches, plan.search_hashes, strict=True):
            of.setdefault(configuration.index, []).append(key)
            names[configuration.index] = configuration.request.format_without_load()
        found += [
            PlannedPointTrials(kind="search", words=names[index], hashes=tuple(keys)) for index, keys in of.items()
        ]
    return found


def derive_fall_p_values(changes: Changes, margin_ratio: float) -> dict[QuantityKey, tuple[float, float]]:
    """For each: p of the claim that it is worse by more than the margin, and p of the claim that it is not."""
    found = {}
    for change in changes.quantities.changes:
        effect = change.effect
        if effect is None:
            continue
        if change.key.quantity.better == "lower" and effect.mean_log is not None:
            effect = replace(effect, mean_log=-effect.mean_log)
        if (p := fall_p(effect, margin_ratio)) is not None:
            found[change.key] = p
    return found


def judge_quantities(
    changes: Changes,
    points: Sequence[PlannedPointTrials],
    falls: Falls,
    worse_p: Mapping[QuantityKey, float],
    margin_ratio: float,
) -> list[JudgedPoint]:
    """Every quantity of every requested point. ``worse_p``: the first values of ``falls``, adjusted."""
    judged: list[JudgedPoint] = []
    for point in points:
        hashes = frozenset(point.hashes)
        own = [trial for trial in changes.after.trials if trial.kind == point.kind and trial.hash in hashes]
        lacking = _describe_missing_quantities(own, point)
        if lacking is not None:
            judged.append(JudgedPoint(point=point.words, judgement=Judgement("not measured", lacking)))
            continue
        found = list(_judge_point(changes, point.kind, falls, worse_p, margin_ratio, own))
        judged += found or [JudgedPoint(point=point.words, judgement=Judgement("not measured", NOT_COMPARED))]
    return judged


def _judge_point(
    changes: Changes,
    kind: str,
    falls: Falls,
    worse_p: Mapping[QuantityKey, float],
    margin_ratio: float,
    own: Sequence[MeasuredTrial],
) -> Iterator[JudgedPoint]:
    """Every quantity of one point, also those of the baseline alone, by the factors of trials that have values."""
    factors = {sort_factors(trial) for trial in own if trial.values}

    def here(key: QuantityKey) -> bool:
        return key.kind == kind and key.factors in factors

    for change in changes.quantities.changes:
        if here(change.key):
            missing = sum(change.key.quantity not in trial.values for trial in own)
            found = _judgement(change, falls.get(change.key), worse_p.get(change.key), margin_ratio, missing)
            name = partial(name_set_up, points=(change.before, change.after))
            outlier = describe_change_outlier(change, change.sides, name, str)
            earlier = [t for t in changes.before.trials if t.kind == kind and sort_factors(t) == change.key.factors]
            found = _downgrade_if_invalid(found, _invalid_ratio(own), _invalid_ratio(earlier))
            yield JudgedPoint(point=_format_point(change.after), judgement=found, change=change, outlier=outlier)
    for alone in changes.quantities.only_after:
        if here(alone.key):
            yield JudgedPoint(point=_format_point(alone), judgement=Judgement("undecided", NOT_IN_BASELINE))
    for gone in changes.quantities.only_before:
        if here(gone.key):
            yield JudgedPoint(point=_format_point(gone), judgement=Judgement("not measured", BASELINE_ONLY))


def _invalid_ratio(trials: Sequence[MeasuredTrial]) -> float:
    """The share of trials that their verdict excludes for more than a doubt."""
    codes = [trial.left_out for trial in trials if trial.left_out is not None]
    return sum(WEIGHT.get(code) == "invalid" for code in codes) / len(trials) if trials else 0.0


def _downgrade_if_invalid(judgement: Judgement, now_ratio: float, before_ratio: float) -> Judgement:
    """Let nothing pass by its remaining trials if more are invalid than before.

    A guest that stops forwarding makes its trial invalid, so that the change itself would exclude it.
    """
    if judgement.outcome != "passed" or now_ratio <= before_ratio:
        return judgement
    return Judgement("undecided", f"{judgement.detail}; {MORE_INVALID}")


def _format_point(point: MeasuredPoint) -> str:
    return f"{point.words}: {point.quantity.name}"


def _describe_missing_quantities(own: Sequence[MeasuredTrial], point: PlannedPointTrials) -> str | None:
    if not own:
        return UNMEASURED
    if len(own) < len(point.hashes):
        return describe_unfinished(len(own), len(point.hashes))
    return None if any(trial.values for trial in own) else NONE_ENTERS


def _judgement(
    change: QuantityChange, fall: tuple[float, float] | None, worse_p: float | None, margin_ratio: float, missing: int
) -> Judgement:
    before, after = change.before, change.after
    if "none" in after.bounds and "none" not in before.bounds:
        dead = sum(value.bound == "none" for value in after.values)
        return Judgement(
            "worse", f"the goal was not met even at the lowest load in {dead} of {len(after.values)} searches"
        )
    if change.why == NOTHING_LOST and before.mean is not None and after.mean is not None:
        as_much = after.mean.mean >= before.mean.mean / (1 + margin_ratio)
        return judge_full_load(len(after.values), missing, as_much=as_much)
    found = judge_fall(
        change,
        fall,
        worse_p,
        margin_ratio,
        more_to_give=_describe_quantity_headroom(before, after),
        missing=missing,
        counts=count_replicates("occasions", change.sides),
    )
    if HELD in before.bounds | after.bounds and found.outcome != "worse":
        return Judgement("undecided", found.detail if HELD in found.detail else f"{found.detail}: {HELD}")
    return found


def _describe_quantity_headroom(before: MeasuredPoint, after: MeasuredPoint) -> str | None:
    """Describe the headroom of a baseline with trials that lost nothing, or None if no trial loses anything now."""
    if "at least" not in before.bounds or after.bounds == {"at least"}:
        return None
    return SOME_HEADROOM if len(before.bounds) > 1 else HEADROOM


# -- gate --------------------------------------------------------------------------------------------------------------
# Gate: compares a new measurement of a plan with its baseline, point by point, within a margin.
#
# A point is *worse* if its forwarding rate is shown to have fallen by more than the margin (one-sided t at 5 %, with
# Holm's adjustment over all points, so that a gate fails without a cause in at most 5 % of cases). It *passes* if it is
# shown not to have (at 5 % without adjustment: a pass of all points claims each of them). Everything else is
# *undecided*, and is no pass. This includes set-ups or boots of one occasion against those of another, which do not
# show how much occasions differ. Quantities of searches and of guests are points of the same gate
# (quantity gate, above).


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """All points of a plan against its baseline.

    ``changes``: the comparison that they were judged by, or None if nothing of the plan has been measured.
    """

    judged: tuple[JudgedPoint, ...]
    margin_ratio: float
    changes: Changes | None

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of all points."""
        order: tuple[Outcome, ...] = ("worse", "not measured", "undecided", "passed")
        return min((each.outcome for each in self.judged), key=order.index)


def judge_gate(
    changes: Changes,
    points: Sequence[FilePoint],
    margin_ratio: float,
    planned_trials: Sequence[PlannedPointTrials] = (),
) -> Gate:
    """Judge the points of the plan, ``points`` and ``planned_trials``. Each has to pass.

    For several occasions these are the points of each.
    """
    of_each = _group_by_occasion(points)
    _refuse_alike(next(iter(of_each.values()), []))
    point_of = {run.run_id: run.plan_point for run in changes.after.kept.entered}
    by_point = {point_of[each.after.run_ids[0]]: each for each in changes.changes}
    alone = {point_of[point.run_ids[0]] for point in changes.only_after}
    found: dict[int, list[Coverage]] = {}
    for each in derive_coverage(changes.after.kept, changes.after.digest.planned, points):
        found.setdefault(each.point, []).append(each)
    falls = {number: p for number, each in by_point.items() if (p := _fall(each, margin_ratio)) is not None}
    of_quantities = derive_fall_p_values(changes, margin_ratio)
    adjusted = holm([p[0] for p in (*falls.values(), *of_quantities.values())])
    worse_p = dict(zip(falls, adjusted, strict=False))
    plan_names: dict[Hashable, str] = {
        key: facts.name for side in (changes.before, changes.after) for (key, _), facts in side.digest.planned.items()
    }
    judged = []
    for point in next(iter(of_each.values()), []):
        number = point.plan_point
        change = by_point.get(number)
        name = format_design_point(point) if change is None else format_compared_design(change, changes)
        judgement = _judge(
            change, found.get(number, []), worse_p.get(number), falls.get(number), margin_ratio, alone=number in alone
        )
        outlier = None
        if change is not None and judgement.outcome != "not measured":
            judgement = judgement._replace(detail=judgement.detail + format_offered(change))
            outlier = describe_change_outlier(
                change,
                change.sides,
                partial(name_block, plan_names=plan_names),
                lambda occasion: plan_names.get(occasion, str(occasion)),
            )
        judged.append(JudgedPoint(point=name, judgement=judgement, change=change, outlier=outlier))
    quantity_p = dict(zip(of_quantities, adjusted[len(falls) :], strict=True))
    judged += judge_quantities(changes, planned_trials, of_quantities, quantity_p, margin_ratio)
    return Gate(judged=tuple(judged), margin_ratio=margin_ratio, changes=changes)


def _group_by_occasion(points: Sequence[FilePoint]) -> dict[str, list[FilePoint]]:
    """Group by the hash of the plan, which includes the occasion."""
    found: dict[str, list[FilePoint]] = {}
    for point in points:
        found.setdefault(point.plan_hash, []).append(point)
    return found


def build_unmeasured_gate(
    points: Sequence[FilePoint],
    margin_ratio: float,
    planned_trials: Sequence[PlannedPointTrials] = (),
    why: str = UNMEASURED,
) -> Gate:
    """The gate of a plan of which nothing has been measured, or not as the plan is now: ``why``."""
    once = next(iter(_group_by_occasion(points).values()), [])
    names = [*(format_design_point(each) for each in once), *(each.words for each in planned_trials)]
    judged = [JudgedPoint(point=name, judgement=Judgement("not measured", why)) for name in names]
    return Gate(judged=tuple(judged), margin_ratio=margin_ratio, changes=None)


def _fall(change: Change, margin_ratio: float) -> tuple[float, float] | None:
    return None if change.effect is None else fall_p(change.effect, margin_ratio)


def _judge(
    change: Change | None,
    taken: Sequence[Coverage],
    worse_p: float | None,
    fall: tuple[float, float] | None,
    margin_ratio: float,
    *,
    alone: bool,
) -> Judgement:
    lacking = _describe_missing(taken)
    if lacking is not None:
        return Judgement("not measured", lacking)
    missing = sum(each.missing or 0 for each in taken)
    if change is None:
        return Judgement("undecided", NOT_IN_BASELINE) if alone else Judgement("not measured", NONE_ENTERS)
    if change.why == NOTHING_LOST:
        before, after = change.before.rate_bps.mean, change.after.rate_bps.mean
        entered = sum(each.entered for each in taken)
        return judge_full_load(entered, missing, as_much=after >= before / (1 + margin_ratio))
    dead = sum(not mean for mean in set_up_means(change.after.values_bps).values())
    if dead and all(set_up_means(change.before.values_bps).values()):
        return Judgement(
            "worse", f"nothing was forwarded in {dead} of {format_noun_count(change.after.set_ups, 'set-up')}"
        )
    return judge_fall(
        change,
        fall,
        worse_p,
        margin_ratio,
        more_to_give=_describe_headroom(change.before, change.after),
        missing=missing,
        counts=count_replicates("occasions", change.sides),
    )


def _describe_headroom(before: PointSummary, after: PointSummary) -> str | None:
    """Describe the headroom of a baseline with trials that lost nothing, or None if next to nothing is lost now."""
    if not before.full_run_ids or after.carries_all:
        return None
    return HEADROOM if before.carries_all else SOME_HEADROOM


def _refuse_alike(points: Sequence[FilePoint]) -> None:
    """Refuse points that differ in something that runs are averaged over. Raises ConfigError."""
    seen: dict[Hashable, int] = {}
    for point in points:
        key = (point.platform, point.frame, point.sources, point.target_bps, point.background, point.duration_s)
        if key in seen:
            raise ConfigError(
                f"points {seen[key]} and {point.plan_point} of the plan differ in generator or observe alone, which a "
                "gate does not distinguish"
            )
        seen[key] = point.plan_point


def _describe_missing(taken: Sequence[Coverage]) -> str | None:
    """Missing trials of the first incomplete occasion, or None if nothing is missing."""
    if not taken:
        return UNMEASURED
    for each in taken:
        of = f"{each.plan}: " if len(taken) > 1 else ""
        places = each.taken - each.retaken
        if not each.taken:
            return of + UNMEASURED
        if each.planned is not None and places < each.planned:
            return of + describe_unfinished(places, each.planned)
    return None
