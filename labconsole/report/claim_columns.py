"""Columns and sentences for claims in tables, exact and as text. Pure.

Every row has its plain interval, its p value in the family of the whole report, and a word. If nothing may be
concluded, the reason replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from labconsole.contracts.report import Cell
from labconsole.measure.statistics.effects import digits_to_tell
from labconsole.report.claims import NO_MARGIN, Claim, Family
from labconsole.report.comparisons import NOT_REACHED, Comparison
from labconsole.report.formatting import UNKNOWN, format_bounds, format_number, format_percent
from labconsole.report.points import MaximumReading
from labconsole.report.table_builder import (
    Item,
    TableColumn,
    column,
    csv_column,
    csv_columns,
    join_columns,
    p_value_column,
    percent_column,
    printed_column,
)


class ClaimRow(NamedTuple):
    """A claim of one row. ``plain_ratio``: the change of the means if no blocks give one."""

    claim: Claim
    plain_ratio: float | None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        effect = self.claim.effect
        return (None, None) if effect is None else (effect.ci_low, effect.ci_high)


def claim_columns(
    claim: Callable[[Item], Claim | None],
    plain_ratio: Callable[[Item], float | None],
    family: Family,
    heading: str = "change, %",
    *,
    with_smallest: bool = True,
) -> TableColumn[Item]:
    """The claim of each row. ``plain_ratio``: the change of the means, for rows whose blocks give none. ``heading``: of
    the change. ``with_smallest``: whether the smallest detectable changes are printed.
    """
    smallest: list[TableColumn[ClaimRow]] = [printed_column("would have shown, %", _format_smallest)]
    columns: list[TableColumn[ClaimRow]] = [
        percent_column("change_ratio", heading, lambda row: derive_change_ratio(*row)),
        csv_columns(("change_ci_low_ratio", "change_ci_high_ratio"), lambda row: row.bounds),
        printed_column("95 % interval, %", lambda row: format_bounds(*row.bounds)),
        column("blocks", "blocks", lambda row: None if row.claim.effect is None else row.claim.effect.blocks),
        p_value_column("p", "p", lambda row: row.claim.p),
        p_value_column("adjusted_p", "p, Holm", lambda row: row.claim.adjusted_p),
        csv_column("equivalence_p", lambda row: row.claim.equivalence_p),
        csv_column("smallest_effect_ratio", lambda row: row.claim.smallest_ratio),
        csv_column("smallest_effect_of_family_ratio", lambda row: row.claim.smallest_of_family_ratio),
        *(smallest if with_smallest else []),
        column("word", "finding", lambda row: row.claim.word, lambda row: format_finding(row.claim, family)),
        csv_column("why", lambda row: row.claim.why),
    ]
    joined = join_columns(columns)

    def values(item: Item) -> Sequence[Cell]:
        found = claim(item)
        return (None,) * len(joined.names) if found is None else joined.values(ClaimRow(found, plain_ratio(item)))

    def texts(item: Item) -> Sequence[str]:
        found = claim(item)
        return (UNKNOWN,) * len(joined.headings) if found is None else joined.texts(ClaimRow(found, plain_ratio(item)))

    return TableColumn(joined.names, values, joined.headings, texts)


def _format_smallest(row: ClaimRow) -> str:
    """The smallest change that the row alone would have shown, and as one of the family."""
    small, smaller = row.claim.smallest_ratio, row.claim.smallest_of_family_ratio
    return UNKNOWN if small is None or smaller is None else f"{_little(small)}; {_little(smaller)}"


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


def maximum_column(name: str, heading: str, reading: Callable[[Item], MaximumReading]) -> TableColumn[Item]:
    """The maximum of a setting, printed in Mbit/s, with ``≥`` if the highest load was still carried."""

    def show(item: Item) -> str:
        found = reading(item)
        return f"{'≥ ' if found.at_least else ''}{format_number(found.rate.mean / 1e6)}"

    return column(name, heading, lambda item: reading(item).rate.mean, show)


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
