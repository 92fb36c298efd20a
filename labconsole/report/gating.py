"""Whether a plan measured again stands beside its baseline: point by point, within a margin. Pure.

A point is *worse* where its forwarding rate is shown to have fallen by more than the margin (one-sided t at 5 %, with
Holm's adjustment over all points, so that a gate fails without a cause in at most 5 % of cases), and *passes* where it
is shown not to have (at 5 % without adjustment: that all points pass claims each of them). What is shown neither way is
*undecided*, and is no pass.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from labconsole.errors import ConfigError
from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.measure.statistics.effects import SIGNIFICANCE, fall_p, holm
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.report.change_tables import design_words
from labconsole.report.changes import Change, Changes
from labconsole.report.compared_effect import NOTHING_LOST, OFFERED_LESS
from labconsole.report.points import PointSummary
from labconsole.report.sample import Coverage, FilePoint, coverage
from labconsole.report.words import asked_words, count, percent

Outcome = Literal["passed", "worse", "undecided", "not measured"]

UNMEASURED: Final = "it has not been measured"
NOT_IN_BASELINE: Final = "the baseline has no such design point"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPoint:
    """One design point of the plan. ``detail``: the figures, or why there are none."""

    point: str
    outcome: Outcome
    detail: str
    change: Change | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """All points of a plan against its baseline, and the comparison that they were judged by; None: no run is there."""

    judged: tuple[JudgedPoint, ...]
    margin_ratio: float
    changes: Changes | None

    @property
    def outcome(self) -> Outcome:
        """The worst of all points."""
        order: tuple[Outcome, ...] = ("worse", "not measured", "undecided", "passed")
        return min((each.outcome for each in self.judged), key=order.index)


def judge(changes: Changes, asked: Sequence[FilePoint], margin_ratio: float) -> Gate:
    """``asked``: the points of the plan, each of which has to pass."""
    _refuse_alike(asked)
    point_of = {run.run_id: run.plan_point for run in changes.after.kept.entered}
    by_point = {point_of[each.after.run_ids[0]]: each for each in changes.changes}
    alone = {point_of[point.run_ids[0]] for point in changes.only_after}
    found = {each.point: each for each in coverage(changes.after.kept, changes.after.digest.planned, asked)}
    falls = {number: p for number, each in by_point.items() if (p := _fall(each, margin_ratio)) is not None}
    adjusted = dict(zip(falls, holm([p[0] for p in falls.values()]), strict=True))
    judged = []
    for point in asked:
        number = point.plan_point
        change = by_point.get(number)
        words = asked_words(point) if change is None else design_words(change)
        outcome, detail = _judge(
            change, found.get(number), adjusted.get(number), falls, number, margin_ratio, alone=number in alone
        )
        judged.append(JudgedPoint(point=words, outcome=outcome, detail=detail, change=change))
    return Gate(judged=tuple(judged), margin_ratio=margin_ratio, changes=changes)


def unmeasured(asked: Sequence[FilePoint], margin_ratio: float) -> Gate:
    """Where no run of the plan is there at all."""
    judged = [JudgedPoint(point=asked_words(each), outcome="not measured", detail=UNMEASURED) for each in asked]
    return Gate(judged=tuple(judged), margin_ratio=margin_ratio, changes=None)


def _fall(change: Change, margin_ratio: float) -> tuple[float, float] | None:
    return None if change.effect is None else fall_p(change.effect, margin_ratio)


def _judge(
    change: Change | None,
    taken: Coverage | None,
    worse_p: float | None,
    falls: Mapping[int | None, tuple[float, float]],
    number: int,
    margin_ratio: float,
    *,
    alone: bool,
) -> tuple[Outcome, str]:
    lacking = _lacking(taken)
    if lacking is not None:
        return "not measured", lacking
    if change is None:
        return ("undecided", NOT_IN_BASELINE) if alone else ("not measured", "none of its trials enters a mean")
    if change.why == NOTHING_LOST:
        return _carried(change, margin_ratio)
    dead = sum(not mean for mean in set_up_means(change.after.values_bps).values())
    if dead and all(set_up_means(change.before.values_bps).values()):
        return "worse", f"nothing was forwarded in {dead} of {count(change.after.set_ups, 'set-up')}"
    if change.why is not None or worse_p is None:
        return "undecided", change.why or "nothing can be tested"
    figures = _figures(change, margin_ratio)
    if worse_p <= SIGNIFICANCE:
        return "worse", figures
    if change.bound and _carries_all(change.before):
        return "undecided", f"{figures}: the baseline lost nothing here, and may have had more to give"
    if falls[number][1] <= SIGNIFICANCE:
        return "passed", figures
    return "undecided", figures


def _carries_all(point: PointSummary) -> bool:
    return point.missing_ratio is not None and point.missing_ratio < REACHED_LOSS_RATIO


def _refuse_alike(asked: Sequence[FilePoint]) -> None:
    """Points that differ in what runs are averaged over. Raises ConfigError."""
    seen: dict[Hashable, int] = {}
    for point in asked:
        key = (point.platform, point.frame, point.sources, point.target_bps, point.background, point.duration_s)
        if key in seen:
            raise ConfigError(
                f"points {seen[key]} and {point.plan_point} of the plan differ in generator or observe alone, which a "
                "gate does not tell apart"
            )
        seen[key] = point.plan_point


def _lacking(taken: Coverage | None) -> str | None:
    if taken is None or not taken.taken:
        return UNMEASURED
    places = taken.taken - taken.retaken
    if taken.planned is not None and places < taken.planned:
        return f"{places} of {taken.planned} trials have been taken: replay goes on where it ended"
    return None


def _carried(change: Change, margin_ratio: float) -> tuple[Outcome, str]:
    """Both forwarded all that they were offered: as good, where that was as much."""
    before, after = change.before.rate_bps.mean, change.after.rate_bps.mean
    if after >= before / (1 + margin_ratio):
        return "passed", NOTHING_LOST
    return "undecided", OFFERED_LESS


def _figures(change: Change, margin_ratio: float) -> str:
    effect = change.effect
    assert effect is not None and effect.change is not None
    interval = ""
    if effect.ci90_low is not None and effect.ci90_high is not None:
        interval = f" (90 % interval {percent(effect.ci90_low, 2)} to {percent(effect.ci90_high, 2)})"
    more = "" if not change.bound else ", where one side forwarded all that it was offered"
    return f"{percent(effect.change, 2)}{interval}, margin {percent(margin_ratio, 2)}, over {change.scope}{more}"
