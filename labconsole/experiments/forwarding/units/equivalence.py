"""What is equivalent within the margin, where one was declared."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.report.claim_cells import effect_words, grouped, run_ids_of
from labconsole.report.evaluation import Evaluation
from labconsole.report.material import Material
from labconsole.report.words import baseline_words, setting_words


def make(material: Material) -> Findings:
    """Pairs of platforms, and backgrounds that change nothing."""
    found = tuple(_sentences(material.evaluation))
    return Findings(kind="equivalent", heading="Equivalent within the margin", claims=True, found=found)


def _sentences(made: Evaluation) -> Iterator[Finding]:
    margin = made.claims.margin_ratio
    if margin is None:
        return
    pairs = [pair for pair in made.ranking if pair.claim.word == "equivalent"]
    beside = [c for c in (*made.cpu_loads, *made.idle, *made.network_loads) if c.claim.word == "equivalent"]
    for held in grouped(pairs, lambda pair: pair.subject.setting[1:4]):
        words = "; ".join(
            f"{pair.subject.setting.platform} and {pair.baseline.setting.platform} ({effect_words(pair.claim)})"
            for pair in held
        )
        yield Finding(
            sentence=f"{setting_words(held[0].subject.setting)}: equivalent within ± {100 * margin:g} %: {words}.",
            run_ids=run_ids_of(held),
        )
    for held in grouped(beside, lambda c: (c.subject.setting.background, c.baseline.setting.background)):
        words = "; ".join(
            f"{c.subject.setting.platform}, {setting_words(c.subject.setting)}: {effect_words(c.claim)}" for c in held
        )
        yield Finding(
            sentence=(
                f"Background {held[0].subject.setting.background} against "
                f"{baseline_words(held[0].baseline.setting.background)}: equivalent within ± {100 * margin:g} %: "
                f"{words}."
            ),
            run_ids=run_ids_of(held),
        )


UNITS = (ReportUnit(name="equivalent", place=30, make=make),)
