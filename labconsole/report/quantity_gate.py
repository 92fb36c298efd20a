"""Gate for searches, jobs, starts, flows and routers of a plan: compares quantities with their baseline. Pure.

If less is better, a lower value counts as higher: a job that takes longer has fallen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from labconsole.contracts.measured import HELD, MeasuredTrial
from labconsole.measure.statistics.effects import fall_p
from labconsole.model.plan.plan import Plan
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.report.changes import Changes
from labconsole.report.compared_effect import NOTHING_LOST, count_replicates
from labconsole.report.measured_points import MeasuredPoint, QuantityKey, sort_factors
from labconsole.report.point_judgements import (
    HEADROOM,
    NONE_ENTERS,
    NOT_IN_BASELINE,
    SOME_HEADROOM,
    UNMEASURED,
    JudgedPoint,
    Judgement,
    describe_unfinished,
    judge_fall,
    judge_full_load,
)
from labconsole.report.quantity_changes import QuantityChange
from labconsole.report.set_up_outliers import describe_change_outlier, name_set_up

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
        lacking = _describe_missing(own, point)
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


def _describe_missing(own: Sequence[MeasuredTrial], point: PlannedPointTrials) -> str | None:
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
        more_to_give=_describe_headroom(before, after),
        missing=missing,
        counts=count_replicates("occasions", change.sides),
    )
    if HELD in before.bounds | after.bounds and found.outcome != "worse":
        return Judgement("undecided", found.detail if HELD in found.detail else f"{found.detail}: {HELD}")
    return found


def _describe_headroom(before: MeasuredPoint, after: MeasuredPoint) -> str | None:
    """Describe the headroom of a baseline with trials that lost nothing, or None if no trial loses anything now."""
    if "at least" not in before.bounds or after.bounds == {"at least"}:
        return None
    return SOME_HEADROOM if len(before.bounds) > 1 else HEADROOM
