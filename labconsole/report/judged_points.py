"""What a gate says of one design point, and the words that it has for every kind. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from labconsole.measure.statistics.effects import SIGNIFICANCE
from labconsole.report.compared_effect import NOTHING_LOST, ComparedEffect
from labconsole.report.words import count, percent

Outcome = Literal["passed", "worse", "undecided", "not measured"]

UNMEASURED: Final = "it has not been measured"
NOT_IN_BASELINE: Final = "the baseline has no such design point"
NONE_ENTERS: Final = "none of its trials enters a mean"

LESS_NOW: Final = "and that is less than before by more than the margin: what is merely offered shows no change"
ONE_TIME: Final = (
    "how far occasions differ is not known: set the baseline from three of them or more (of a boot each, unless all is "
    "of one boot), or measure three boots a side"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPoint:
    """One design point of the plan. ``detail``: the figures, or why there are none."""

    point: str
    outcome: Outcome
    detail: str
    change: ComparedEffect | None = None


def judged_by_fall(
    change: ComparedEffect,
    fall: tuple[float, float] | None,
    worse_p: float | None,
    margin_ratio: float,
    *,
    baseline_full: bool,
    missing: int,
) -> tuple[Outcome, str]:
    """By the p values that it is worse by more than the margin (adjusted: ``worse_p``), and that it is not.

    ``baseline_full``: the baseline lost nothing of all that was offered. ``missing``: trials that enter no mean.
    """
    if change.why is not None or worse_p is None or fall is None:
        return "undecided", change.why or "nothing can be tested"
    figures = _figures(change, margin_ratio) + (f"; {missing_words(missing)}" if missing else "")
    if change.scope == "set-ups":
        return "undecided", f"{figures}; {ONE_TIME}"
    if worse_p <= SIGNIFICANCE:
        return "worse", figures
    if change.bound and baseline_full:
        return "undecided", f"{figures}: the baseline lost nothing here, and may have had more to give"
    if change.bound and missing:
        return "undecided", figures
    return ("passed" if fall[1] <= SIGNIFICANCE else "undecided"), figures


def judged_full(entered: int, missing: int, *, as_much: bool) -> tuple[Outcome, str]:
    """Both forwarded all that they were offered: as good, where that was as much within the margin, and where every
    trial shows it: the others may have lost packets just where they could not be counted.
    """
    if missing:
        return "undecided", f"{NOTHING_LOST} in {count(entered, 'trial')}; {missing_words(missing)}"
    return ("passed", NOTHING_LOST) if as_much else ("undecided", f"{NOTHING_LOST}, {LESS_NOW}")


def missing_words(missing: int) -> str:
    """Of trials that are there and were not judged by."""
    return f"{count(missing, 'trial')} {'enters' if missing == 1 else 'enter'} no mean"


def unfinished_words(taken: int, planned: int) -> str:
    """Of a point that is not done."""
    return f"{taken} of {planned} trials have been taken: replay goes on where it ended"


def _figures(change: ComparedEffect, margin_ratio: float) -> str:
    effect = change.effect
    assert effect is not None
    assert effect.change is not None
    interval = ""
    if effect.ci90_low is not None and effect.ci90_high is not None:
        interval = f" (90 % interval {percent(effect.ci90_low, 2)} to {percent(effect.ci90_high, 2)})"
    more = "" if not change.bound else f", where {change.bound_words}"
    return f"{percent(effect.change, 2)}{interval}, margin {percent(margin_ratio, 2)}, over {change.scope}{more}"
