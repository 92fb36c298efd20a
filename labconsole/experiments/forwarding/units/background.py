"""Background load: what was requested and reached, and how the maximum changes under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from labconsole.contracts.report import Finding, Findings, MethodNote, ReportUnit, Table
from labconsole.measure.statistics.repetitions import Summary, summarize
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
from labconsole.report.digest import Load
from labconsole.report.formatting import (
    UNKNOWN,
    describe_baseline,
    format_number,
    format_setting,
    name_reading,
    target_cell,
)
from labconsole.report.material import Material
from labconsole.report.point_columns import setting_columns
from labconsole.report.points import CPU_LOADS, DEDICATED, FORWARDING, background_order, platform_order
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, printed_column

# -- load --------------------------------------------------------------------------------------------------------------
# The requested and the reached background load, as evidence that it ran.


class LoadRow(NamedTuple):
    """One quantity of a background load on a platform, as it was requested and reached."""

    platform: str
    background: str
    guests: str
    runs: int
    quantity: str
    requested: Summary | None
    reached: Summary | None


def make(material: Material) -> Table:
    """Build the table by platform, kind of load and quantity."""
    columns: list[TableColumn[LoadRow]] = [
        column("platform", "platform", lambda row: row.platform),
        column("background", "background", lambda row: row.background),
        column("guest", "guest", lambda row: row.guests),
        column("runs", "runs", lambda row: row.runs),
        column("quantity", "quantity", lambda row: row.quantity),
        _mean_column("requested_mean", "asked for", lambda row: row.requested),
        _mean_column("achieved_mean", "reached", lambda row: row.reached),
        csv_column("achieved_min", lambda row: row.reached.minimum if row.reached else None),
        csv_column("achieved_max", lambda row: row.reached.maximum if row.reached else None),
        printed_column("from, to", _format_range),
    ]
    loads = sorted(material.digest.loads.items(), key=lambda item: _order(*item[0]))
    return build_table(
        "background-load",
        "Background load: asked for and reached",
        columns,
        [row for place, load in loads for row in _build_rows(*place, load)],
        "Means over the runs that enter, in the unit that ends the quantity's name. demand_ratio: what the load "
        "wanted of processors, run or waiting, of what it was started for; host_cpu_s: what the host spent on "
        "its guest.",
    )


def _build_rows(platform: str, background: str, load: Load) -> Iterator[LoadRow]:
    guests = "; ".join(name for name, _ in load.guests.most_common(3))
    for name in dict.fromkeys([*load.requested, *load.achieved]):
        requested, reached = (
            summarize(values[name]) if values.get(name) else None for values in (load.requested, load.achieved)
        )
        yield LoadRow(platform, background, guests, len(load.run_ids), name, requested, reached)


def _mean_column(name: str, heading: str, summary: Callable[[LoadRow], Summary | None]) -> TableColumn[LoadRow]:
    def value(row: LoadRow) -> float | None:
        found = summary(row)
        return None if found is None else found.mean

    return column(name, heading, value, lambda row: _format_figure(value(row)))


def _order(platform: str, kind: str) -> tuple[object, ...]:
    return (platform_order(platform), background_order(kind))


def _format_range(row: LoadRow) -> str:
    """The lowest and highest value that was reached."""
    if row.reached is None:
        return UNKNOWN
    return f"{_format_figure(row.reached.minimum)} to {_format_figure(row.reached.maximum)}"


def _format_figure(value: float | None) -> str:
    """A number of any size, with four digits or as a whole number."""
    if value is None or abs(value) >= 1000:
        return format_number(value, 0)
    return f"{value:.4g}".replace("-", "−")


# -- changes of the maximum --------------------------------------------------------------------------------------------
# Changes of the maximum under background load: load of the processors, or a second guest that forwards.


def cpu_load(material: Material) -> list[Table | MethodNote]:
    """Build the table under load of the processors, and with an idle second guest compared with none."""
    made = material.evaluation
    found = (*made.cpu_loads, *made.idle)
    title = "Relative change of the maximum throughput under background CPU load"
    table = _relative_changes(found, made.claims, name="table-1", title=title)
    if not any(point.background in CPU_LOADS for point in made.points):
        return [table]
    text = (
        "the same platform with an idle second guest, as the shared scenario of the paper (section 3.4) starts from a "
        "second guest without load; without a second guest where no idle one was measured. The column against says "
        "which. Maxima are over the loads at which both were measured"
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
        "the dedicated maximum (no second guest) of the same platform, frame size and number of sources; with an "
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
    ReportUnit(name="background-load", place=80, make=make),
    ReportUnit(name="table-1", place=20, paper=("schlosser", "table 1"), make=cpu_load),
    ReportUnit(name="figure-5-numbers", place=30, paper=("schlosser", "figure 5 in numbers"), make=forwarding),
    ReportUnit(name="background_effect", place=20, make=findings),
)
