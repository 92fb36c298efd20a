"""The rate at the highest load relative to the maximum, for each setting that has both."""

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
    format_size_number,
    format_target_number,
    format_with_interval,
    target_cell,
)
from labconsole.report.material import Material


def table(material: Material) -> Table:
    """Build the table of every setting whose maximum is below its highest load, with its claim."""
    family = material.evaluation.claims
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in material.evaluation.collapses:
        r, setting = each.reading, each.reading.setting
        plain = r.highest.rate_bps.mean / r.rate.mean - 1 if r.rate.mean else None
        rows.append(
            (
                *setting_cells(r),
                setting.background,
                r.rate.mean,
                target_cell(r.point),
                r.highest.rate_bps.mean,
                target_cell(r.highest),
                *claim_cells(each.claim, plain),
            )
        )
        shown.append(
            (
                format_size_number(setting.frame),
                setting.platform,
                str(setting.sources),
                setting.background,
                format_number(r.rate.mean / 1e6),
                format_target_number(r.point.target_bps, r.point.frame),
                format_number(r.highest.rate_bps.mean / 1e6),
                *format_claim(each.claim, plain, family),
            )
        )
    return Table(
        name="collapse",
        title="Rate at the highest load against that at the maximum",
        columns=(
            *SETTING_COLUMNS,
            "background",
            "maximum_bps",
            "target_bps",
            "highest_bps",
            "highest_target_bps",
            *CLAIM_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "size, B",
            "platform",
            "sources",
            "background",
            "maximum, Mbit/s",
            "at, Mbit/s",
            "highest load, Mbit/s",
            *CLAIM_HEADINGS,
        ),
        shown=tuple(shown),
        note=f"One-sided: whether more than 2 % is lost beyond the maximum. {family_note(family)}",
    )


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
