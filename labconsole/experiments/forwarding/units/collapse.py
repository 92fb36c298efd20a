"""The rate at the highest load relative to the maximum, for each setting that has both."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit, Table
from labconsole.report.captions import MEGA
from labconsole.report.claim_columns import claim_columns, family_note, format_claim_effect
from labconsole.report.comparisons import Collapse
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import format_full_setting, format_number, format_with_interval, target_cell
from labconsole.report.material import Material
from labconsole.report.point_columns import setting_columns, target_column
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column


def table(material: Material) -> Table:
    """Build the table of every setting whose maximum is below its highest load, with its claim."""
    family = material.evaluation.claims
    columns: list[TableColumn[Collapse]] = [
        setting_columns(lambda each: each.reading.setting),
        column("background", "background", lambda each: each.reading.setting.background),
        number_column("maximum_bps", "maximum, Mbit/s", lambda each: each.reading.rate.mean, unit=MEGA),
        target_column(lambda each: each.reading.point, "at, Mbit/s"),
        number_column(
            "highest_bps", "highest load, Mbit/s", lambda each: each.reading.highest.rate_bps.mean, unit=MEGA
        ),
        csv_column("highest_target_bps", lambda each: target_cell(each.reading.highest)),
        claim_columns(lambda each: each.claim, _derive_plain_ratio, family),
    ]
    return build_table(
        "collapse",
        "Rate at the highest load against that at the maximum",
        columns,
        material.evaluation.collapses,
        f"One-sided: whether more than 2 % is lost beyond the maximum. {family_note(family)}",
    )


def _derive_plain_ratio(each: Collapse) -> float | None:
    """The change of the means, or None if nothing was forwarded at the maximum."""
    reading = each.reading
    return reading.highest.rate_bps.mean / reading.rate.mean - 1 if reading.rate.mean else None


def findings(material: Material) -> Findings:
    """Return findings on settings that lose more than a little of their maximum."""
    found = tuple(_sentences(material.evaluation))
    return Findings(kind="collapse", heading="Collapse beyond the maximum", claims=True, found=found)


def _sentences(made: Evaluation) -> Iterator[Finding]:
    for each in made.collapses:
        if each.claim.different:
            r = each.reading
            yield Finding(
                sentence=(
                    f"{format_full_setting(r.setting)}: collapses beyond its maximum; "
                    f"{format_with_interval(r.rate)} Mbit/s forwarded at "
                    f"{format_number(r.point.offered_bps.mean / 1e6)} offered, "
                    f"{format_with_interval(r.highest.rate_bps)} at "
                    f"{format_number(r.highest.offered_bps.mean / 1e6)}: {format_claim_effect(each.claim)}."
                ),
                run_ids=each.claim.run_ids,
            )


UNITS = (
    ReportUnit(name="collapse", place=60, make=table),
    ReportUnit(name="collapse", place=40, make=findings),
)
