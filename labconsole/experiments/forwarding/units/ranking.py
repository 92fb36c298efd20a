"""Every pair of platforms beside no second guest, the faster one first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.contracts.report import Cell, Finding, Findings, ReportUnit, Table
from labconsole.report.claim_cells import (
    CLAIM_COLUMNS,
    CLAIM_HEADINGS,
    claim_cells,
    claim_words,
    effect_words,
    family_note,
    grouped,
    maximum_words,
    run_ids_of,
)
from labconsole.report.comparisons import Comparison
from labconsole.report.material import Material
from labconsole.report.words import SIZE_COLUMNS, setting_words, size_cells, size_number, target_cell


def table(material: Material) -> Table:
    """Every pair with its claim."""
    family = material.evaluation.claims
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for pair in material.evaluation.ranking:
        s, b = pair.subject, pair.baseline
        rows.append(
            (
                *size_cells(s.setting.frame), s.setting.sources, s.setting.platform, b.setting.platform, s.rate.mean,
                b.rate.mean, s.at_least, b.at_least, target_cell(s.point), target_cell(b.point), s.rate.set_ups,
                b.rate.set_ups, pair.loads, None if pair.claim.effect is None else pair.claim.effect.paired,
                *claim_cells(pair.claim, pair.change_ratio),
            )
        )  # fmt: skip
        shown.append(
            (
                size_number(s.setting.frame), str(s.setting.sources), s.setting.platform, b.setting.platform,
                maximum_words(s), maximum_words(b), *claim_words(pair.claim, pair.change_ratio, family),
            )
        )  # fmt: skip
    return Table(
        name="ranking",
        title="Every pair of platforms without a second guest",
        columns=(
            *SIZE_COLUMNS, "sources", "platform", "other_platform", "maximum_bps", "other_maximum_bps", "at_least",
            "other_at_least", "target_bps", "other_target_bps", "set_ups", "other_set_ups", "loads", "paired",
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
    )  # fmt: skip


def findings(material: Material) -> Findings:
    """For each frame size and number of sources, the pairs of platforms that differ."""
    different = [pair for pair in material.evaluation.ranking if pair.claim.different]
    found = tuple(_sentences(different))
    return Findings(kind="platforms_differ", heading="Platforms that differ", claims=True, found=found)


def _sentences(different: Sequence[Comparison]) -> Iterator[Finding]:
    for held in grouped(different, lambda pair: pair.subject.setting[1:4]):
        words = "; ".join(
            f"{pair.subject.setting.platform} more than {pair.baseline.setting.platform} by {effect_words(pair.claim)}"
            for pair in held
        )
        yield Finding(
            sentence=f"{setting_words(held[0].subject.setting)}: forwards {words}.",
            run_ids=run_ids_of(held),
        )


UNITS = (
    ReportUnit(name="ranking", place=10, make=table),
    ReportUnit(name="platforms_differ", place=10, make=findings),
)
