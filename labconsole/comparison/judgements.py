"""The judgement of a gate on one design point, and its wording for every kind. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from labconsole.comparison.effects import NOTHING_LOST, ONE_WITH_FEW, Change, count_replicates
from labconsole.comparison.outliers import OutlierDescription
from labconsole.measure.statistics.effects import SIGNIFICANCE
from labconsole.measure.statistics.gate_power import (
    MOST_OCCASIONS,
    OccasionCounts,
    deciding_counts,
    passing_margin_ratio,
)
from labconsole.report.formatting import format_noun_count, format_percent

Outcome = Literal["passed", "worse", "undecided", "not measured"]
Fall = tuple[float, float]
"""p of the claims that a point is worse by more than the margin, and that it is not."""

UNMEASURED: Final = "it has not been measured: replay measures it"
NOT_IN_BASELINE: Final = "the baseline has no such design point"
NONE_ENTERS: Final = "none of its trials enters a mean"

LESS_NOW: Final = (
    "and that is less than before by more than the margin: what is merely offered shows no change; offer more than is "
    "forwarded"
)
ONE_TIME: Final = (
    "how far occasions differ is not known: set the baseline from three of them or more (of a boot each, unless all is "
    "of one boot)"
)
HEADROOM: Final = "the baseline lost nothing here, and may have had more to give; offer both more"
SOME_HEADROOM: Final = "the baseline lost nothing in some trials, and may have had more to give; offer both more"


class GateRequirement(NamedTuple):
    """Conditions under which a point passes with 80 % power if nothing has changed: see gate_power.py.

    ``margin_ratio``: with these occasions. ``counts``: occasions needed at the gate's margin, ``asked_ratio``, or None
    if no usable number is enough.
    """

    margin_ratio: float | None
    counts: OccasionCounts | None
    asked_ratio: float

    @property
    def advice(self) -> str:
        """Suffix to the figures of the point, with possible remedies."""
        if self.margin_ratio is None:
            return "" if self.counts is None else f"; what has not changed passes 8 times in 10 with {self._occasions}"
        margin = format_percent(self.margin_ratio, 2)
        margin_text = f"; with this spread what has not changed passes 8 times in 10 within a margin of {margin}"
        if self.margin_ratio <= self.asked_ratio:
            return (
                f"{margin_text} already: this is a change of about the margin, or one of the other 2 in 10; judge by "
                "another occasion alone"
            )
        if self.counts is None:
            return f"{margin_text}, or at this margin with more than {MOST_OCCASIONS} occasions of a side"
        return f"{margin_text}, or at this margin with {self._occasions}"

    @property
    def _occasions(self) -> str:
        assert self.counts is not None
        return f"{format_noun_count(self.counts.baseline, 'occasion')} of the baseline and {self.counts.later} later"


class Judgement(NamedTuple):
    """``detail``: the figures, or why there are none. ``needed``: set if nothing is shown because of the spread."""

    outcome: Outcome
    detail: str
    needed: GateRequirement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPoint:
    """One design point of the plan. ``outlier``: a set-up that is apart from the others of its occasion, or an occasion
    of the baseline that is apart from its others.
    """

    point: str
    judgement: Judgement
    outlier: OutlierDescription | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome in one word."""
        return self.judgement.outcome

    @property
    def needed(self) -> GateRequirement | None:
        """The margin or occasions that its spread requires, or None if one set-up or occasion makes the spread."""
        return None if self.outlier is not None else self.judgement.needed

    @property
    def detail(self) -> str:
        """The whole description."""
        if self.outlier is not None:
            remedy = f": {self.outlier.remedy}" if self.outcome == "undecided" else ""
            return f"{self.judgement.detail}; {self.outlier.words}{remedy}"
        return self.judgement.detail + ("" if self.needed is None else self.needed.advice)


def judge_fall(
    change: Change,
    fall: Fall | None,
    worse_p: float | None,
    margin_ratio: float,
    *,
    more_to_give: str | None,
    missing: int,
) -> Judgement:
    """Judge by the p values that it is worse by more than the margin (adjusted: ``worse_p``), and that it is not.

    ``more_to_give``: that the baseline lost nothing of the offered packets; None if it did, or if nothing is lost now
    at all. ``missing``: trials that enter no mean.

    Boots or set-ups of two occasions do not show how much occasions differ, and few occasions do not show which kinds
    of occasions exist: a single one is compared with many.
    """
    if change.why is not None or worse_p is None or fall is None:
        return Judgement("undecided", change.why or "nothing can be tested")
    figures = _figures(change, margin_ratio) + (f"; {describe_excluded(missing)}" if missing else "")
    if change.scope != "occasions":
        return Judgement("undecided", f"{figures}; {ONE_TIME}")
    occasions = OccasionCounts(*count_replicates("occasions", change.sides))
    if worse_p <= SIGNIFICANCE and occasions.are_enough:
        return Judgement("worse", figures)
    if change.bound and more_to_give is not None:
        return Judgement("undecided", f"{figures}: {more_to_give}")
    if not occasions.are_enough:
        needed = None if change.bound else derive_requirement(change, margin_ratio, occasions)
        return Judgement("undecided", f"{figures}; {ONE_WITH_FEW}: judge by several", needed)
    if not (change.bound and missing) and fall[1] <= SIGNIFICANCE:
        return Judgement("passed", figures)
    if change.bound:
        return Judgement("undecided", figures)
    return Judgement("undecided", figures, derive_requirement(change, margin_ratio, occasions))


def derive_requirement(change: Change, margin_ratio: float, counts: OccasionCounts) -> GateRequirement:
    """Derived from the spread over occasions. A single later one is judged by the spread of its baseline."""
    effect = change.effect
    assert effect is not None
    assert effect.sd_log is not None
    margin = passing_margin_ratio(effect, counts)
    if margin is not None and margin <= margin_ratio:  # more occasions would not have helped
        return GateRequirement(margin, None, margin_ratio)
    found = deciding_counts(effect.sd_log, margin_ratio, counts, least_error_log=change.least_error_log)
    return GateRequirement(margin, found, margin_ratio)


def judge_full_load(entered: int, missing: int, *, as_much: bool) -> Judgement:
    """Both sides forwarded all that they were offered. They are equal if the offered loads agree within the margin and
    every trial shows it: the others may have lost packets just where these could not be counted.
    """
    if missing:
        return Judgement(
            "undecided", f"{NOTHING_LOST} in {format_noun_count(entered, 'trial')}; {describe_excluded(missing)}"
        )
    return Judgement("passed", NOTHING_LOST) if as_much else Judgement("undecided", f"{NOTHING_LOST}, {LESS_NOW}")


def describe_excluded(missing: int) -> str:
    """Stored trials that the judgement does not use."""
    return f"{format_noun_count(missing, 'trial')} {'enters' if missing == 1 else 'enter'} no mean"


def describe_unfinished(taken: int, planned: int) -> str:
    """Describe a point that is not finished."""
    return f"{taken} of {planned} trials have been measured: replay resumes where it ended"


def _figures(change: Change, margin_ratio: float) -> str:
    effect = change.effect
    assert effect is not None
    assert effect.change is not None
    interval = ""
    if effect.ci90_low is not None and effect.ci90_high is not None:
        interval = f" (90 % interval {format_percent(effect.ci90_low, 2)} to {format_percent(effect.ci90_high, 2)})"
    more = "" if not change.bound else f", where {change.bound_reason}"
    margin = format_percent(margin_ratio, 2)
    return f"{format_percent(effect.change, 2)}{interval}, margin {margin}, over {change.scope}{more}"
