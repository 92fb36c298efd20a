"""Cells and sentences for claims in tables, exact and as text. Pure.

Every row has its plain interval, its p value in the family of the whole report, and a word. If nothing may be
concluded, the reason replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from labconsole.contracts.report import Cell
from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.report.claims import NO_MARGIN, Claim, Family
from labconsole.report.comparisons import NOT_REACHED, Comparison
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_bounds,
    format_number,
    format_p_value,
    format_percent,
    size_cells,
)
from labconsole.report.points import MaximumReading

CLAIM_COLUMNS = (
    "change_ratio",
    "change_ci_low_ratio",
    "change_ci_high_ratio",
    "blocks",
    "p",
    "adjusted_p",
    "equivalence_p",
    "smallest_effect_ratio",
    "smallest_effect_of_family_ratio",
    "word",
    "why",
)
SETTING_COLUMNS = (*SIZE_COLUMNS, "platform", "sources")
CLAIM_HEADINGS = ("change, %", "95 % interval, %", "blocks", "p", "p, Holm", "would have shown, %", "finding")


def claim_cells(claim: Claim, plain_ratio: float | None) -> tuple[Cell, ...]:
    """A claim for the CSV. ``plain_ratio``: the change of the means if no blocks give one."""
    effect = claim.effect
    return (
        derive_change_ratio(claim, plain_ratio),
        *((None, None, None, None) if effect is None else (effect.ci_low, effect.ci_high, effect.blocks, effect.p)),
        claim.adjusted_p,
        claim.equivalence_p,
        claim.smallest_ratio,
        claim.smallest_of_family_ratio,
        claim.word,
        claim.why,
    )


def format_claim(claim: Claim, plain_ratio: float | None, family: Family) -> tuple[str, ...]:
    """A claim for printed tables. ``plain_ratio``: as in claim_cells()."""
    effect, change = claim.effect, derive_change_ratio(claim, plain_ratio)
    small, smaller = claim.smallest_ratio, claim.smallest_of_family_ratio
    return (
        UNKNOWN if change is None else format_number(100 * change),
        UNKNOWN if effect is None else format_bounds(effect.ci_low, effect.ci_high),
        UNKNOWN if effect is None else str(effect.blocks),
        format_p_value(claim.p),
        format_p_value(claim.adjusted_p),
        UNKNOWN if small is None or smaller is None else f"{_little(small)}; {_little(smaller)}",
        format_finding(claim, family),
    )


def _little(ratio: float) -> str:
    """A change in percent, never rounded to zero."""
    return format_number(100 * ratio, digits_to_tell(100 * ratio))


def derive_change_ratio(claim: Claim, plain_ratio: float | None) -> float | None:
    """Mean of the blocks' ratios, or of the plain means if there are none; None if a maximum was not reached."""
    if claim.effect is not None and claim.effect.change is not None:
        return claim.effect.change
    return plain_ratio if claim.effect is None and claim.why != NOT_REACHED else None


def format_finding(claim: Claim, family: Family) -> str:
    """Format ``different``, ``equivalent within ± 2 %``, ``inconclusive`` or ``no claim: one set-up``."""
    if claim.why is not None:
        return f"no claim: {claim.why}"
    if claim.word == "equivalent" and family.margin_ratio is not None:
        return f"equivalent within ± {100 * family.margin_ratio:g} %"
    return claim.word


def family_note(family: Family) -> str:
    """The note under every table with claims."""
    if not family.size:
        return "Nothing could be tested: no row of this report claims anything."
    sentences = [
        f"p, Holm: adjusted over all {family.size} claims of this report; different: at most 0.05. Would have shown: "
        "the smallest change found with 80 % power, at 0.05 and at 0.05 over the number of claims."
    ]
    if family.margin_ratio is None:
        none = NO_MARGIN["margin" in family.differ]
        sentences.append(f"{none[0].upper()}{none[1:]}, so that nothing is called equivalent.")
    else:
        afterwards = "" if family.declared == "plan" else ", chosen afterwards"
        sentences.append(f"Margin of equivalence: ± {100 * family.margin_ratio:g} %{afterwards}.")
    return " ".join(sentences)


def format_maximum(reading: MaximumReading) -> str:
    """Mbit/s, with ``≥`` if the highest load was still carried."""
    mark = "≥ " if reading.at_least else ""
    return f"{mark}{format_number(reading.rate.mean / 1e6)}"


def setting_cells(reading: MaximumReading) -> tuple[Cell, ...]:
    """Cells in the order of ``SETTING_COLUMNS``."""
    return (*size_cells(reading.setting.frame), reading.setting.platform, reading.setting.sources)


def format_claim_effect(claim: Claim) -> str:
    """Format ``−0.4 % (95 % interval −1.0 to −0.02 %)``, with enough digits to tell the side of 0."""
    effect = claim.effect
    if effect is None:
        return ""
    return f"{format_percent(effect.change or 0.0)} (95 % interval {format_bounds(effect.ci_low, effect.ci_high)} %)"


def group_comparisons(found: Iterable[Comparison], key: Callable[[Comparison], object]) -> list[list[Comparison]]:
    """Group the comparisons that share a sentence, in the order of the first of each."""
    groups: dict[object, list[Comparison]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return list(groups.values())


def collect_run_ids(found: Iterable[Comparison]) -> tuple[str, ...]:
    """The runs behind their claims, each once."""
    return tuple(dict.fromkeys(run_id for each in found for run_id in each.claim.run_ids))
