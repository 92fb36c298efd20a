"""Gate: compares a new measurement of a plan with its baseline, point by point, within a margin. Pure.

A point is *worse* if its forwarding rate is shown to have fallen by more than the margin (one-sided t at 5 %, with
Holm's adjustment over all points, so that a gate fails without a cause in at most 5 % of cases; more often by a single
later occasion, see docs/compare.md). It *passes* if it is shown not to have (at 5 % without adjustment: a pass of all
points claims each of them). Everything else is *undecided*, and is no pass. This includes set-ups or boots of one
occasion against those of another, which do not show how much occasions differ.

Quantities of searches and of guests are points of the same gate. If less is better, a lower value counts as higher: a
job that takes longer has fallen.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from labconsole.comparison.change_tables import format_compared_point, format_offered, list_varied_conditions
from labconsole.comparison.changes import Changes
from labconsole.comparison.effects import NOTHING_LOST, Change
from labconsole.comparison.judgements import (
    HEADROOM,
    NONE_ENTERS,
    NOT_IN_BASELINE,
    SOME_HEADROOM,
    UNMEASURED,
    Fall,
    JudgedPoint,
    Judgement,
    Outcome,
    describe_unfinished,
    judge_fall,
    judge_full_load,
)
from labconsole.comparison.outliers import describe_change_outlier
from labconsole.comparison.points import ComparedPoint, QuantityKey, RunPoint, sort_factors
from labconsole.contracts.measured import HELD, MeasuredTrial
from labconsole.errors import ConfigError
from labconsole.measure.statistics.effects import fall_p, holm
from labconsole.model.plan.plan import Plan
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.report.formatting import format_design_point
from labconsole.report.sample import FilePoint, RunCoverage, derive_coverage

BASELINE_ONLY: Final = "the baseline has it, and no trial here that enters a mean"
MORE_INVALID: Final = (
    "more trials are invalid than in the baseline, perhaps for what has changed: see why they are, or repeat them "
    "with replay"
)
NOT_COMPARED: Final = "nothing that its trials measured was compared"


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
    _refuse_alike(_list_once(points))
    number_of = {run.run_id: run.plan_point for run in changes.after.kept.entered}
    by_number = {number_of[_get_run_id(each.after)]: each for each in changes.runs.changes}
    alone = {number_of[_get_run_id(point)] for point in changes.runs.only_after}
    family = _build_family([*by_number.values(), *changes.quantities.changes], margin_ratio)
    judged = [
        *_judge_runs(changes, points, by_number, alone, family),
        *(each for point in planned_trials for each in _judge_planned_trials(changes, point, family)),
    ]
    return Gate(judged=tuple(judged), margin_ratio=margin_ratio, changes=changes)


def build_unmeasured_gate(
    points: Sequence[FilePoint],
    margin_ratio: float,
    planned_trials: Sequence[PlannedPointTrials] = (),
    why: str = UNMEASURED,
) -> Gate:
    """The gate of a plan of which nothing has been measured, or not as the plan is now: ``why``."""
    names = [*map(format_design_point, _list_once(points)), *(each.words for each in planned_trials)]
    judged = [JudgedPoint(point=name, judgement=Judgement("not measured", why)) for name in names]
    return Gate(judged=tuple(judged), margin_ratio=margin_ratio, changes=None)


# -- family ------------------------------------------------------------------------------------------------------------
# All points are judged in one family, whatever they measure.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """``falls``: of each change that can be tested. ``worse_p``: their first values, adjusted."""

    margin_ratio: float
    falls: Mapping[QuantityKey, Fall]
    worse_p: Mapping[QuantityKey, float]

    def judge(self, change: Change, *, entered: int, missing: int) -> Judgement:
        """Judge a change. ``entered``, ``missing``: the trials behind its later side, and those that enter no mean."""
        before, after = change.before, change.after
        if change.why == NOTHING_LOST and before.mean is not None and after.mean is not None:
            as_much = after.mean.mean >= before.mean.mean / (1 + self.margin_ratio)
            return judge_full_load(entered, missing, as_much=as_much)
        if (failure := after.describe_failure(before)) is not None:
            return Judgement("worse", failure)
        found = judge_fall(
            change,
            self.falls.get(change.key),
            self.worse_p.get(change.key),
            self.margin_ratio,
            more_to_give=_describe_headroom(change),
            missing=missing,
        )
        if HELD in before.bounds | after.bounds and found.outcome != "worse":
            return Judgement("undecided", found.detail if HELD in found.detail else f"{found.detail}: {HELD}")
        return found


def _build_family(changes: Iterable[Change], margin_ratio: float) -> _Family:
    falls = {change.key: p for change in changes if (p := _derive_fall_p_values(change, margin_ratio)) is not None}
    adjusted = holm([p for p, _ in falls.values()])
    return _Family(margin_ratio=margin_ratio, falls=falls, worse_p=dict(zip(falls, adjusted, strict=True)))


def _derive_fall_p_values(change: Change, margin_ratio: float) -> Fall | None:
    """The p of the claim that it is worse by more than the margin, and that of the claim that it is not."""
    effect = change.effect
    if effect is None:
        return None
    if change.key.quantity.better == "lower" and effect.mean_log is not None:
        effect = replace(effect, mean_log=-effect.mean_log)
    return fall_p(effect, margin_ratio)


def _describe_headroom(change: Change) -> str | None:
    """Describe the headroom of a baseline with trials that lost nothing, or None if next to nothing is lost now."""
    before, after = change.before.bounds, change.after.bounds
    if "at least" not in before or after == {"at least"}:
        return None
    return SOME_HEADROOM if len(before) > 1 else HEADROOM


# -- points of runs ----------------------------------------------------------------------------------------------------


def _judge_runs(
    changes: Changes,
    points: Sequence[FilePoint],
    by_number: Mapping[int | None, Change],
    alone: Collection[int | None],
    family: _Family,
) -> Iterator[JudgedPoint]:
    """Judge every point. ``alone``: the numbers of those that the baseline lacks."""
    taken: dict[int, list[RunCoverage]] = {}
    for each in derive_coverage(changes.after.kept, changes.after.digest.planned, points):
        taken.setdefault(each.point, []).append(each)
    varied = list_varied_conditions(changes)
    for point in _list_once(points):
        number, of_point = point.plan_point, taken.get(point.plan_point, [])
        change = by_number.get(number)
        name = format_design_point(point) if change is None else format_compared_point(change, varied)
        if (lacking := _describe_missing_runs(of_point)) is not None:
            yield JudgedPoint(point=name, judgement=Judgement("not measured", lacking))
        elif change is None:
            why = Judgement("undecided", NOT_IN_BASELINE) if number in alone else Judgement("not measured", NONE_ENTERS)
            yield JudgedPoint(point=name, judgement=why)
        else:
            entered, missing = sum(each.entered for each in of_point), sum(each.missing or 0 for each in of_point)
            found = family.judge(change, entered=entered, missing=missing)
            found = found._replace(detail=found.detail + format_offered(change))
            yield JudgedPoint(point=name, judgement=found, outlier=describe_change_outlier(change))


def _get_run_id(point: ComparedPoint) -> str:
    assert isinstance(point, RunPoint)
    return point.summary.run_ids[0]


def _list_once(points: Sequence[FilePoint]) -> list[FilePoint]:
    """The points of the first occasion: each has a plan with its own hash, and the same points."""
    return [point for point in points if point.plan_hash == points[0].plan_hash]


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


def _describe_missing_runs(taken: Sequence[RunCoverage]) -> str | None:
    """What the first incomplete occasion lacks: trials, or any that enters a mean. None if nothing is missing."""
    if not taken:
        return UNMEASURED
    for each in taken:
        of = f"{each.plan}: " if len(taken) > 1 else ""
        places = each.taken - each.retaken
        if not each.taken:
            return of + UNMEASURED
        if each.planned is not None and places < each.planned:
            return of + describe_unfinished(places, each.planned)
        if not each.entered:
            return of + NONE_ENTERS
    return None


# -- points of other trials --------------------------------------------------------------------------------------------


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


def _judge_planned_trials(changes: Changes, point: PlannedPointTrials, family: _Family) -> list[JudgedPoint]:
    """Judge every quantity of a point."""
    own = [trial for trial in changes.after.trials if trial.kind == point.kind and trial.hash in point.hashes]
    lacking = _describe_missing_trials(own, point)
    found = [] if lacking is not None else list(_judge_quantities(changes, point.kind, family, own))
    judgement = Judgement("not measured", lacking or NOT_COMPARED)
    return found or [JudgedPoint(point=point.words, judgement=judgement)]


def _judge_quantities(
    changes: Changes, kind: str, family: _Family, own: Sequence[MeasuredTrial]
) -> Iterator[JudgedPoint]:
    """Every quantity of one point, also those of the baseline alone, by the factors of trials that have values."""
    factors = {sort_factors(trial) for trial in own if trial.values}
    of = changes.quantities

    def is_here(key: QuantityKey) -> bool:
        return key.kind == kind and key.factors in factors

    for change in of.changes:
        if is_here(change.key):
            missing = sum(change.key.quantity not in trial.values for trial in own)
            found = family.judge(change, entered=change.after.trial_count, missing=missing)
            earlier = [t for t in changes.before.trials if t.kind == kind and sort_factors(t) == change.key.factors]
            found = _downgrade_if_invalid(found, _invalid_ratio(own), _invalid_ratio(earlier))
            outlier = describe_change_outlier(change)
            yield JudgedPoint(point=change.after.title, judgement=found, outlier=outlier)
    for alone in of.only_after:
        if is_here(alone.key):
            yield JudgedPoint(point=alone.title, judgement=Judgement("undecided", NOT_IN_BASELINE))
    for gone in of.only_before:
        if is_here(gone.key):
            yield JudgedPoint(point=gone.title, judgement=Judgement("not measured", BASELINE_ONLY))


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


def _describe_missing_trials(own: Sequence[MeasuredTrial], point: PlannedPointTrials) -> str | None:
    if not own:
        return UNMEASURED
    if len(own) < len(point.hashes):
        return describe_unfinished(len(own), len(point.hashes))
    return None if any(trial.values for trial in own) else NONE_ENTERS
