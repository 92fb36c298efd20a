"""What may be concluded from a report and what not, in sentences at its head. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labconsole.measure.statistics.effects import MINIMUM_BLOCKS
from labconsole.model.plan.claims import CLAIMS
from labconsole.report.claims import NO_MARGIN, Family
from labconsole.report.evaluation import Evaluation
from labconsole.report.sample import Coverage, missing_words
from labconsole.report.selection import Selection
from labconsole.report.words import count, number

ONE_SET_UP = (
    "One set-up: every platform was set up once, and its trials say nothing of how far another set-up would lie away. "
    "Intervals are about this set-up only, and nothing is claimed about platforms or background loads."
)


def conclusions(
    made: Evaluation, found: Sequence[Coverage], selection: Selection, *, unreadable: Sequence[str] = ()
) -> list[str]:
    """Sentences, most important first. ``unreadable``: runs of which only the columns of the store can be read."""
    words = [*selection.warnings]
    if unreadable:
        words.append(
            f"The {'record' if len(unreadable) == 1 else 'records'} of {', '.join(unreadable[:5])}"
            f"{' and others' if len(unreadable) > 5 else ''} ({count(len(unreadable), 'run')}) could not be read. "
            "Where the store's columns say that such a run enters, it is in the means, and nothing here vouches for "
            "it: run labconsole verify."
        )
    words += _set_ups(made)
    words += _methods(made)
    words += _family(made.claims, _usual_blocks(made))
    if made.claims.size and selection.narrows:
        words.append(
            "What was not chosen was not tested: the family is smaller than that of all runs, and a row may be "
            "different here that is inconclusive there. Whoever chooses after having looked looks more than once."
        )
    words += _unclaimed(made)
    missing = missing_words(found)
    if missing:
        words.append(f"Missing of what was planned: {'; '.join(missing)}.")
    return words


def _set_ups(made: Evaluation) -> list[str]:
    counts = sorted({point.set_ups for point in made.points})
    if not counts:
        return ["No run enters a mean."]
    if counts == [1]:
        return [ONE_SET_UP]
    told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    interval = (
        "its interval that of set-ups" if counts[-1] >= MINIMUM_BLOCKS else "without an interval (three give one)"
    )
    words = [
        f"{told} set-ups of each platform and background. A mean is that of the set-ups' means, {interval}; "
        "comparisons are paired by block, so that what a whole block has in common falls out."
    ]
    few = sum(point.set_ups < MINIMUM_BLOCKS for point in made.points)
    if few:
        words.append(
            f"{count(few, 'point')} of {len(made.points)} with fewer than {MINIMUM_BLOCKS} set-ups: nothing is claimed "
            "of them."
        )
    return words


def _methods(made: Evaluation) -> list[str]:
    methods = {point.design.conditions.method for point in made.points}
    if methods & {1, None}:
        return [
            "Runs of method 1 cannot carry a forwarding rate: what arrived after the last packet was sent is counted "
            "as if it had arrived in time, which flatters a platform with a long queue in a short trial; nor do they "
            "tell on which side packets were lost."
        ]
    return []


def _usual_blocks(made: Evaluation) -> int:
    blocks = Counter(
        claim.effect.blocks for claim in made.claims.claims
        if claim.effect is not None and claim.adjusted_p is not None
    )  # fmt: skip
    return blocks.most_common(1)[0][0] if blocks else 0


def _family(family: Family, blocks: int) -> list[str]:
    if not family.size:
        return []
    different = sum(claim.different for claim in family.claims)
    equal = sum(claim.word == "equivalent" for claim in family.claims)
    words = [
        f"{count(family.size, 'claim')} {'was' if family.size == 1 else 'were'} tested as one family (Holm 1979): "
        f"without any effect, at most one report in twenty says different at all. {different} came out different"
        + (
            f", {equal} equivalent within ± {100 * family.margin_ratio:g} %." if family.margin_ratio is not None
            else f"; {NO_MARGIN['margin' in family.differ]}, so that nothing is called equivalent."
        )
    ]  # fmt: skip
    if "claims" in family.differ:
        words.append("Which tables may claim differs between the runs' plans, so that all of them do.")
    if family.margin_ratio is not None and family.declared == "option":
        words.append("The margin was chosen afterwards, by whoever made this report (--margin).")
    if family.tables is not None:
        named = "; ".join(f"{name} ({CLAIMS[name]})" if name in CLAIMS else name for name in family.tables)
        words.append(f"By its plan only these tables claim anything: {named}.")
    price = family.price(blocks)
    if price is not None:
        words.append(
            f"The price of {count(family.size, 'claim')}: with {blocks} blocks the smallest p has to come from |t| > "
            f"{number(price[0])}, an effect of {number(price[1])} standard deviations between blocks. Fewer claims "
            "(claims: in the plan) or more set-ups lower it, fixed before the next plan is measured: added to this one "
            "after a look at it they make false findings more frequent."
        )
    words.append(
        "Blocks are taken for independent. Noise that lasts longer than a block, or a drift that is not the same over "
        "a block, is not wholly taken out by pairing (docs/statistics.md says how much remains)."
    )
    return words


def _unclaimed(made: Evaluation) -> list[str]:
    """Why rows claim nothing, counted."""
    why = Counter(claim.why for claim in made.claims.claims if claim.why is not None)
    if not why:
        return []
    told = "; ".join(
        f"{reason} ({times})" for reason, times in sorted(why.items(), key=lambda item: (-item[1], item[0]))
    )
    return [f"Rows without a claim, and why: {told}."]
