"""Sentences at the head of a report on what may and may not be concluded from it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labconsole.measure.paired_blocks import newest_trials
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS
from labconsole.model.plan.file import CLAIMS
from labconsole.model.record.kind import GuestTrialRecord
from labconsole.report.claims import NO_MARGIN, Family
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import format_noun_count, format_number
from labconsole.report.planned_trials import is_included
from labconsole.report.request import Selection
from labconsole.report.sample import Coverage, describe_missing

ONE_SET_UP = (
    "One set-up: every platform was set up once, and its trials say nothing about how much another set-up would "
    "differ. Intervals hold for this set-up only, and nothing is claimed about platforms or background loads."
)


def draw_conclusions(
    made: Evaluation,
    found: Sequence[Coverage],
    selection: Selection,
    *,
    unreadable: Sequence[str] = (),
    trials: Sequence[GuestTrialRecord] | None = None,
    judged: Sequence[str] = (),
) -> list[str]:
    """Sentences, most important first. ``unreadable``: runs of which only the store's columns are readable. ``trials``:
    the subject of a report without runs. ``judged``: the tolerances used, in sentences.
    """
    sentences = [*selection.warnings, *judged]
    if trials is not None:
        return sentences + _describe_guest_trials(trials, made.claims) + _family(made.claims, 0) + _missing(found)
    if unreadable:
        sentences.append(
            f"The {'record' if len(unreadable) == 1 else 'records'} of {', '.join(unreadable[:5])}"
            f"{' and others' if len(unreadable) > 5 else ''} ({format_noun_count(len(unreadable), 'run')}) could not "
            f"be read. If the store's columns say that such a run enters, it is part of the means, but this report "
            f"cannot vouch for it: run `labconsole verify`."
        )
    sentences += _set_ups(made)
    sentences += _methods(made)
    sentences += _family(made.claims, _usual_blocks(made))
    if made.claims.size and selection.narrows:
        sentences.append(
            "Runs that were not selected were not tested: the family of claims is smaller than that of all runs, so "
            "a row may be different here that is inconclusive there. Selecting after having looked at the results "
            "amounts to looking more than once."
        )
    sentences += _unclaimed(made)
    return sentences + _missing(found)


def _describe_guest_trials(trials: Sequence[GuestTrialRecord], family: Family) -> list[str]:
    entered = [trial for trial in newest_trials(trials) if is_included(trial)]
    if not entered:
        return ["No trial enters a mean."] if trials else []
    plans = [(each.testbed_fingerprint, each.plan.name, each.plan.plan_hash, each.plan.block) for each in entered]
    verb = "enters" if len(entered) == 1 else "enter"
    sentences = [
        f"{format_noun_count(len(entered), 'trial')} of {len(trials)} {verb}, "
        f"of {format_noun_count(len(set(plans)), 'block')}."
    ]
    if not family.size:
        sentences.append(
            "No comparison was tested, so nothing is claimed, and a difference between means may be chance. A test "
            f"needs both points in the same {MINIMUM_BLOCKS} blocks, in an order that was drawn, or each in "
            f"{MINIMUM_BLOCKS} boots of its own."
        )
    return sentences


def _missing(found: Sequence[Coverage]) -> list[str]:
    missing = describe_missing(found)
    return [f"Missing of what was planned: {'; '.join(missing)}."] if missing else []


def _set_ups(made: Evaluation) -> list[str]:
    counts = sorted({point.set_ups for point in made.points})
    if not counts:
        return ["No run enters a mean."]
    if counts == [1]:
        return [ONE_SET_UP]
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    interval = (
        "its interval that of set-ups" if counts[-1] >= MINIMUM_BLOCKS else "without an interval (three give one)"
    )
    sentences = [
        f"{number} set-ups of each platform and background. A mean is that of the set-ups' means, {interval}; "
        "comparisons are paired by block, which removes what a whole block has in common."
    ]
    few = sum(point.set_ups < MINIMUM_BLOCKS for point in made.points)
    if few:
        sentences.append(
            f"{format_noun_count(few, 'point')} of {len(made.points)} with fewer than {MINIMUM_BLOCKS} set-ups: "
            f"nothing is claimed about them."
        )
    return sentences


def _methods(made: Evaluation) -> list[str]:
    methods = {point.design.conditions.method for point in made.points}
    if methods & {1, None}:
        return [
            "Runs of method 1 have no forwarding rate: packets that arrived after the last one was sent are counted "
            "as if they had arrived in time, which flatters a platform with a long queue in a short trial. Nor do "
            "these runs show on which side packets were lost."
        ]
    return []


def _usual_blocks(made: Evaluation) -> int:
    blocks = Counter(
        claim.effect.blocks for claim in made.claims.claims if claim.effect is not None and claim.adjusted_p is not None
    )
    return blocks.most_common(1)[0][0] if blocks else 0


def _family(family: Family, blocks: int) -> list[str]:
    if not family.size:
        return []
    equal = sum(claim.word == "equivalent" for claim in family.claims)
    sentences = [
        f"{format_noun_count(family.size, 'claim')} {'was' if family.size == 1 else 'were'} tested as one family "
        "(Holm 1979): without any effect, at most one report in twenty calls anything different. "
        f"{family.different} came out different"
        + (
            "."
            if family.size == family.beside
            else f", {equal} equivalent within ± {100 * family.margin_ratio:g} %."
            if family.margin_ratio is not None
            else f"; {NO_MARGIN['margin' in family.differ]}, so that nothing is called equivalent."
        )
    ]
    if family.size == family.beside:
        return sentences
    if "claims" in family.differ:
        sentences.append("The runs' plans differ in which tables may make claims, so all tables do.")
    if family.margin_ratio is not None and family.declared == "option":
        sentences.append("The margin was chosen afterwards, by the author of this report (--margin).")
    if family.tables is not None:
        named = "; ".join(f"{name} ({CLAIMS[name]})" if name in CLAIMS else name for name in family.tables)
        sentences.append(f"According to the plan, only these tables make claims: {named}.")
    price = family.price(blocks)
    if price is not None:
        sentences.append(
            f"The price of {format_noun_count(family.size, 'claim')}: with {blocks} blocks the smallest p has to come "
            f"from |t| > {format_number(price[0])}, an effect of {format_number(price[1])} standard deviations between "
            "blocks. Fewer claims (claims: in the plan) or more set-ups lower it, fixed before the next plan is "
            "measured: added to this plan after a look at its results, they make false findings more frequent."
        )
    sentences.append(
        "Blocks are assumed to be independent. Noise that lasts longer than a block, or a drift that varies within a "
        "block, is not completely removed by pairing (docs/statistics.md says how much remains)."
    )
    return sentences


def _unclaimed(made: Evaluation) -> list[str]:
    """Reasons for which rows claim nothing, counted."""
    why = Counter(claim.why for claim in made.claims.claims if claim.why is not None)
    if not why:
        return []
    counts = "; ".join(
        f"{reason} ({times})" for reason, times in sorted(why.items(), key=lambda item: (-item[1], item[0]))
    )
    return [f"Rows without a claim, and why: {counts}."]
