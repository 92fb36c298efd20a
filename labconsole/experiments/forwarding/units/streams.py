"""Each stream's share of the forwarded load at a setting's maximum."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import Cell, Finding, Findings, ReportUnit, Table
from labconsole.report.claim_cells import (
    CLAIM_COLUMNS,
    CLAIM_HEADINGS,
    SETTING_COLUMNS,
    claim_cells,
    family_note,
    format_claim,
    format_claim_effect,
    setting_cells,
)
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import (
    format_full_setting,
    format_number,
    format_percent,
    format_size_number,
    target_cell,
)
from labconsole.report.material import Material


def table(material: Material) -> Table:
    """Build the table of every stream in trials with several, with its claim."""
    family = material.evaluation.claims
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in material.evaluation.streams:
        r, setting = each.reading, each.reading.setting
        plain = each.share * each.streams - 1
        rows.append(
            (
                *setting_cells(r),
                setting.background,
                target_cell(r.point),
                each.stream,
                each.share,
                *claim_cells(each.claim, plain),
            )
        )
        shown.append(
            (
                format_size_number(setting.frame),
                setting.platform,
                str(setting.sources),
                setting.background,
                each.stream,
                format_number(100 * each.share, 2),
                *format_claim(each.claim, plain, family),
            )
        )
    return Table(
        name="streams",
        title="Streams of one trial: share of what was forwarded",
        columns=(*SETTING_COLUMNS, "background", "target_bps", "stream", "share_ratio", *CLAIM_COLUMNS),
        rows=tuple(rows),
        headings=("size, B", "platform", "sources", "background", "stream", "share, %", *CLAIM_HEADINGS),
        shown=tuple(shown),
        note=(
            "At each setting's maximum, of trials whose streams were offered the same; change: against an equal share. "
            f"Of two streams the first says it for both. {family_note(family)}"
        ),
    )


def findings(material: Material) -> Findings:
    """Return findings on streams that have more or less than an equal share."""
    found = tuple(_sentences(material.evaluation))
    return Findings(
        kind="unequal_streams", heading="Streams of one trial that fare unequally", claims=True, found=found
    )


def _sentences(made: Evaluation) -> Iterator[Finding]:
    for each in made.streams:
        if each.claim.different:
            yield Finding(
                sentence=(
                    f"{format_full_setting(each.reading.setting)}: the streams of one trial fare unequally; "
                    f"{each.stream} has {format_percent(each.share)} of what is forwarded: "
                    f"{format_claim_effect(each.claim)} against an equal share."
                ),
                run_ids=each.claim.run_ids,
            )


UNITS = (
    ReportUnit(name="streams", place=70, make=table),
    ReportUnit(name="unequal_streams", place=60, make=findings),
)
