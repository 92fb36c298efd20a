"""Changes of the maximum under background load: load of the processors, or a second guest that forwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.contracts.report import Finding, Findings, MethodNote, ReportUnit, Table
from labconsole.report.claim_columns import (
    claim_columns,
    collect_run_ids,
    family_note,
    format_claim_effect,
    group_comparisons,
    maximum_column,
)
from labconsole.report.claims import Family
from labconsole.report.comparisons import Comparison
from labconsole.report.formatting import describe_baseline, format_setting, name_reading, target_cell
from labconsole.report.material import Material
from labconsole.report.point_columns import setting_columns
from labconsole.report.points import CPU_LOADS, DEDICATED, FORWARDING
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column


def cpu_load(material: Material) -> list[Table | MethodNote]:
    """Build the table under load of the processors, and with an idle second guest compared with none."""
    made = material.evaluation
    found = (*made.cpu_loads, *made.idle)
    title = "Relative change of the maximum throughput under background CPU load"
    table = _relative_changes(found, made.claims, name="table-1", title=title)
    if not any(point.background in CPU_LOADS for point in made.points):
        return [table]
    text = (
        "the same platform beside an idle second guest, as the shared scenario of the paper (section 3.4) starts from "
        "a second guest without load; beside none where no idle one was measured. The column against says which. "
        "Maxima are over the loads at which both were measured"
    )
    return [table, MethodNote("Baseline of table 1", text)]


def forwarding(material: Material) -> list[Table | MethodNote]:
    """Build the table under a second guest that forwards: the figure in numbers."""
    made = material.evaluation
    title = "Relative change of the maximum throughput beside a forwarding second guest"
    table = _relative_changes(made.network_loads, made.claims, name="figure-5-numbers", title=title)
    if not any(point.background in FORWARDING for point in made.points):
        return [table]
    text = (
        "the dedicated maximum (no second guest) of the same platform, frame size and number of sources; beside an "
        "idle second guest where no dedicated one was measured. Maxima are over the loads at which both were measured"
    )
    return [table, MethodNote("Baseline of figure 5", text)]


def _relative_changes(found: Sequence[Comparison], family: Family, *, name: str, title: str) -> Table:
    columns: list[TableColumn[Comparison]] = [
        setting_columns(lambda each: each.subject.setting),
        column("background", "background", lambda each: each.subject.setting.background),
        column("baseline", "against", lambda each: each.baseline.setting.background),
        maximum_column("maximum_bps", "Mbit/s", lambda each: each.subject),
        maximum_column("baseline_maximum_bps", "against, Mbit/s", lambda each: each.baseline),
        csv_column("at_least", lambda each: each.subject.at_least),
        csv_column("baseline_at_least", lambda each: each.baseline.at_least),
        csv_column("target_bps", lambda each: target_cell(each.subject.point)),
        csv_column("baseline_target_bps", lambda each: target_cell(each.baseline.point)),
        csv_column("set_ups", lambda each: each.subject.rate.set_ups),
        csv_column("baseline_set_ups", lambda each: each.baseline.rate.set_ups),
        csv_column("trials", lambda each: each.subject.rate.trials),
        csv_column("baseline_trials", lambda each: each.baseline.rate.trials),
        csv_column("loads", lambda each: each.loads),
        claim_columns(lambda each: each.claim, lambda each: each.change_ratio, family),
    ]
    return build_table(
        name,
        title,
        columns,
        found,
        "Change of the maximum, or of the rate where there is one load, against that of the same platform beside "
        f"the background in the column against ({DEDICATED}: no second guest), block by block; positive is more. "
        f"Both are over the loads at which both were measured. {family_note(family)}",
    )


def findings(material: Material) -> Findings:
    """Return findings by platform on maxima that background load changes."""
    made = material.evaluation
    moved = [each for each in (*made.cpu_loads, *made.idle, *made.network_loads) if each.claim.different]
    return Findings(
        kind="background_effect",
        heading="Maxima that background load moves",
        claims=True,
        found=tuple(_sentences(moved)),
    )


def _sentences(moved: Sequence[Comparison]) -> Iterator[Finding]:
    for group in group_comparisons(
        moved, lambda c: (c.subject.setting.platform, c.subject.setting.background, c.baseline.setting.background)
    ):
        first = group[0]
        changes = "; ".join(f"{format_claim_effect(c.claim)} at {format_setting(c.subject.setting)}" for c in group)
        yield Finding(
            sentence=(
                f"{first.subject.setting.platform}, background {first.subject.setting.background} against "
                f"{describe_baseline(first.baseline.setting.background)}: "
                f"the {name_reading(first.subject)} changes by {changes}."
            ),
            run_ids=collect_run_ids(group),
        )


UNITS = (
    ReportUnit(name="table-1", place=20, paper=("schlosser", "table 1"), make=cpu_load),
    ReportUnit(name="figure-5-numbers", place=30, paper=("schlosser", "figure 5 in numbers"), make=forwarding),
    ReportUnit(name="background_effect", place=20, make=findings),
)
