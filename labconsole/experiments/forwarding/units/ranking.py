"""Every pair of platforms without a second guest, the faster one first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.contracts.report import Cell, Finding, Findings, ReportUnit, Table
from labconsole.report.claim_cells import (
    CLAIM_COLUMNS,
    CLAIM_HEADINGS,
    claim_cells,
    collect_run_ids,
    family_note,
    format_claim,
    format_claim_effect,
    format_maximum,
    group_comparisons,
)
from labconsole.report.comparisons import Comparison
from labconsole.report.formatting import SIZE_COLUMNS, format_setting, format_size_number, size_cells, target_cell
from labconsole.report.material import Material


def table(material: Material) -> Table:
    """Build the table of every pair with its claim."""
    family = material.evaluation.claims
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for pair in material.evaluation.ranking:
        s, b = pair.subject, pair.baseline
        rows.append(
            (
                *size_cells(s.setting.frame),
                s.setting.sources,
                s.setting.platform,
                b.setting.platform,
                s.rate.mean,
                b.rate.mean,
                s.at_least,
                b.at_least,
                target_cell(s.point),
                target_cell(b.point),
                s.rate.set_ups,
                b.rate.set_ups,
                pair.loads,
                None if pair.claim.effect is None else pair.claim.effect.paired,
                *claim_cells(pair.claim, pair.change_ratio),
            )
        )
        shown.append(
            (
                format_size_number(s.setting.frame),
                str(s.setting.sources),
                s.setting.platform,
                b.setting.platform,
                format_maximum(s),
                format_maximum(b),
                *format_claim(pair.claim, pair.change_ratio, family),
            )
        )
    return Table(
        name="ranking",
        title="Every pair of platforms without a second guest",
        columns=(
            *SIZE_COLUMNS,
            "sources",
            "platform",
            "other_platform",
            "maximum_bps",
            "other_maximum_bps",
            "at_least",
            "other_at_least",
            "target_bps",
            "other_target_bps",
            "set_ups",
            "other_set_ups",
            "loads",
            "paired",
            *CLAIM_COLUMNS,
        ),
        rows=tuple(rows),
        headings=("size, B", "sources", "platform", "over", "Mbit/s", "over, Mbit/s", *CLAIM_HEADINGS),
        shown=tuple(shown),
        note=(
            "By how much the first platform forwards more than the second, over the loads at which both were measured, "
            "block by block; platforms that need different boots of the machine by boots, unpaired. "
            f"{family_note(family)}"
        ),
    )


def findings(material: Material) -> Findings:
    """Return findings on pairs of platforms that differ, for each frame size and number of sources."""
    different = [pair for pair in material.evaluation.ranking if pair.claim.different]
    found = tuple(_sentences(different))
    return Findings(kind="platforms_differ", heading="Platforms that differ", claims=True, found=found)


def _sentences(different: Sequence[Comparison]) -> Iterator[Finding]:
    for group in group_comparisons(different, lambda pair: pair.subject.setting[1:4]):
        differences = "; ".join(
            f"{pair.subject.setting.platform} more than {pair.baseline.setting.platform} "
            f"by {format_claim_effect(pair.claim)}"
            for pair in group
        )
        yield Finding(
            sentence=f"{format_setting(group[0].subject.setting)}: forwards {differences}.",
            run_ids=collect_run_ids(group),
        )


UNITS = (
    ReportUnit(name="ranking", place=10, make=table),
    ReportUnit(name="platforms_differ", place=10, make=findings),
)
