"""Each stream's share of the forwarded load at a setting's maximum."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit, Table
from labconsole.report.claim_columns import claim_columns, family_note, format_claim_effect
from labconsole.report.comparisons import StreamShare
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import format_full_setting, format_percent, target_cell
from labconsole.report.material import Material
from labconsole.report.point_columns import setting_columns
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, percent_column


def table(material: Material) -> Table:
    """Build the table of every stream in trials with several, with its claim."""
    family = material.evaluation.claims
    columns: list[TableColumn[StreamShare]] = [
        setting_columns(lambda each: each.reading.setting),
        column("background", "background", lambda each: each.reading.setting.background),
        csv_column("target_bps", lambda each: target_cell(each.reading.point)),
        column("stream", "stream", lambda each: each.stream),
        percent_column("share_ratio", "share, %", lambda each: each.share, 2),
        claim_columns(lambda each: each.claim, lambda each: each.share * each.streams - 1, family),
    ]
    return build_table(
        "streams",
        "Streams of one trial: share of what was forwarded",
        columns,
        material.evaluation.streams,
        "At each setting's maximum, of trials whose streams were offered the same; change: against an equal share. "
        f"Of two streams the first says it for both. {family_note(family)}",
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
