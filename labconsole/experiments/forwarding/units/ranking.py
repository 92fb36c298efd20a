"""Pairs of platforms: which is faster, and which are equivalent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.contracts.report import Finding, Findings, ReportUnit, Table
from labconsole.report.claim_columns import (
    claim_columns,
    collect_run_ids,
    family_note,
    format_claim_effect,
    group_comparisons,
    maximum_column,
)
from labconsole.report.comparisons import Comparison
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import describe_baseline, format_setting, target_cell
from labconsole.report.material import Material
from labconsole.report.point_columns import size_columns
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column

# -- ranking -----------------------------------------------------------------------------------------------------------
# Every pair of platforms without a second guest, the faster one first.


def table(material: Material) -> Table:
    """Build the table of every pair with its claim."""
    family = material.evaluation.claims
    columns: list[TableColumn[Comparison]] = [
        size_columns(lambda pair: pair.subject.setting.frame),
        column("sources", "sources", lambda pair: pair.subject.setting.sources),
        column("platform", "platform", lambda pair: pair.subject.setting.platform),
        column("other_platform", "over", lambda pair: pair.baseline.setting.platform),
        maximum_column("maximum_bps", "Mbit/s", lambda pair: pair.subject),
        maximum_column("other_maximum_bps", "over, Mbit/s", lambda pair: pair.baseline),
        csv_column("at_least", lambda pair: pair.subject.at_least),
        csv_column("other_at_least", lambda pair: pair.baseline.at_least),
        csv_column("target_bps", lambda pair: target_cell(pair.subject.point)),
        csv_column("other_target_bps", lambda pair: target_cell(pair.baseline.point)),
        csv_column("set_ups", lambda pair: pair.subject.rate.set_ups),
        csv_column("other_set_ups", lambda pair: pair.baseline.rate.set_ups),
        csv_column("loads", lambda pair: pair.loads),
        csv_column("paired", lambda pair: None if pair.claim.effect is None else pair.claim.effect.paired),
        claim_columns(lambda pair: pair.claim, lambda pair: pair.change_ratio, family),
    ]
    return build_table(
        "ranking",
        "Every pair of platforms without a second guest",
        columns,
        material.evaluation.ranking,
        "By how much the first platform forwards more than the second, over the loads at which both were measured, "
        "block by block; platforms that need different boots of the machine by boots, unpaired. "
        f"{family_note(family)}",
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


# -- equivalence -------------------------------------------------------------------------------------------------------
# Comparisons that are equivalent within the margin, where one was declared.


def find_equivalences(material: Material) -> Findings:
    """Return findings on pairs of platforms, and on backgrounds that change nothing."""
    found = tuple(_describe_equivalences(material.evaluation))
    return Findings(kind="equivalent", heading="Equivalent within the margin", claims=True, found=found)


def _describe_equivalences(made: Evaluation) -> Iterator[Finding]:
    margin = made.claims.margin_ratio
    if margin is None:
        return
    pairs = [pair for pair in made.ranking if pair.claim.word == "equivalent"]
    backgrounds = [c for c in (*made.cpu_loads, *made.idle, *made.network_loads) if c.claim.word == "equivalent"]
    for group in group_comparisons(pairs, lambda pair: pair.subject.setting[1:4]):
        text = "; ".join(
            f"{pair.subject.setting.platform} and {pair.baseline.setting.platform} ({format_claim_effect(pair.claim)})"
            for pair in group
        )
        yield Finding(
            sentence=f"{format_setting(group[0].subject.setting)}: equivalent within ± {100 * margin:g} %: {text}.",
            run_ids=collect_run_ids(group),
        )
    for group in group_comparisons(
        backgrounds, lambda c: (c.subject.setting.background, c.baseline.setting.background)
    ):
        text = "; ".join(
            f"{c.subject.setting.platform}, {format_setting(c.subject.setting)}: {format_claim_effect(c.claim)}"
            for c in group
        )
        yield Finding(
            sentence=(
                f"Background {group[0].subject.setting.background} against "
                f"{describe_baseline(group[0].baseline.setting.background)}: equivalent within ± {100 * margin:g} %: "
                f"{text}."
            ),
            run_ids=collect_run_ids(group),
        )


UNITS = (
    ReportUnit(name="ranking", place=10, make=table),
    ReportUnit(name="platforms_differ", place=10, make=findings),
    ReportUnit(name="equivalent", place=30, make=find_equivalences),
)
