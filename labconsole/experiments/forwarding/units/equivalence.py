"""Comparisons that are equivalent within the margin, where one was declared."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.report.claim_columns import collect_run_ids, format_claim_effect, group_comparisons
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import describe_baseline, format_setting
from labconsole.report.material import Material


def make(material: Material) -> Findings:
    """Return findings on pairs of platforms, and on backgrounds that change nothing."""
    found = tuple(_sentences(material.evaluation))
    return Findings(kind="equivalent", heading="Equivalent within the margin", claims=True, found=found)


def _sentences(made: Evaluation) -> Iterator[Finding]:
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


UNITS = (ReportUnit(name="equivalent", place=30, make=make),)
