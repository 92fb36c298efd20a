"""The cost of an idle second guest for the first, load by load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.report.captions import MEGA, build_caption, build_mark
from labconsole.report.formatting import format_setting
from labconsole.report.material import Material
from labconsole.report.point_columns import rate_columns, setting_columns, target_column
from labconsole.report.points import DEDICATED, IDLE, PointSummary, Setting, platform_order
from labconsole.report.table_builder import TableColumn, build_table, csv_column, join_columns, percent_column

LABELS = {DEDICATED: "no second guest", IDLE: "an idle second guest"}


def both(material: Material) -> Iterator[tuple[Setting, list[PointSummary], list[PointSummary]]]:
    """Return settings measured with an idle second guest or none, with their points of both, by load."""
    settings = material.evaluation.settings
    for setting in sorted(settings, key=lambda each: (each.frame, each.sources, platform_order(each.platform))):
        other = settings.get(setting._replace(background=IDLE))
        if setting.background == DEDICATED and other is not None and settings[setting].loads & other.loads:
            alone = settings[setting].by_load
            yield (
                setting,
                [alone[load] for load in sorted(alone)],
                [other.by_load[load] for load in sorted(other.loads)],
            )


def figure(material: Material) -> Figure | None:
    """Build the figure: a panel per setting with both curves."""
    panels = []
    for setting, alone, idle in both(material):
        curves = tuple(
            PlottedCurve(
                LABELS[points[0].background],
                tuple(
                    build_mark(p.offered_bps.mean / MEGA, p.rate_bps, list(set_up_means(p.values_bps).values()))
                    for p in points
                ),
            )
            for points in (alone, idle)
        )
        panels.append(Panel(f"{setting.platform}, {format_setting(setting)}", curves))
    if not panels:
        return None
    return Figure(
        name="idle-guest",
        title="Forwarding rate with an idle second guest, and without any",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption("Mean forwarding rate over mean offered bandwidth", panels),
    )


class IdleRow(NamedTuple):
    """The points of a setting at one load, without a second guest and with an idle one."""

    setting: Setting
    alone: PointSummary
    idle: PointSummary

    @property
    def change_ratio(self) -> float | None:
        """The change of the means, or None if nothing was forwarded without a second guest."""
        alone_bps, idle_bps = self.alone.rate_bps.mean, self.idle.rate_bps.mean
        return idle_bps / alone_bps - 1 if alone_bps > 0 else None


def table(material: Material) -> Table | None:
    """Build the table: a row for each load at which both were measured."""
    rows = []
    for setting, alone, idle in both(material):
        idle_by_load = {point.load: point for point in idle}
        rows += [IdleRow(setting, one, idle_by_load[one.load]) for one in alone if one.load in idle_by_load]
    if not rows:
        return None
    columns: list[TableColumn[IdleRow]] = [
        setting_columns(lambda row: row.setting),
        target_column(lambda row: row.alone),
        _point_columns("alone", "no second guest, Mbit/s", lambda row: row.alone),
        _point_columns("idle", "idle one, Mbit/s", lambda row: row.idle),
        percent_column("change_ratio", "change of means, %", lambda row: row.change_ratio, 2),
    ]
    return build_table(
        "idle-guest",
        "An idle second guest beside none, load by load",
        columns,
        rows,
        "Forwarded bandwidth on the wire, ± half the 95 % interval. The change is of the means as they stand and "
        "claims nothing; the claim on each setting's maximum is in table 1, against: none.",
    )


def _point_columns(name: str, heading: str, point: Callable[[IdleRow], PointSummary]) -> TableColumn[IdleRow]:
    """The rate of a point, and its numbers of set-ups and trials."""
    columns: list[TableColumn[IdleRow]] = [
        rate_columns(name, heading, lambda row: point(row).rate_bps),
        csv_column(f"{name}_set_ups", lambda row: point(row).set_ups),
        csv_column(f"{name}_trials", lambda row: point(row).n),
    ]
    return join_columns(columns)


UNITS = (
    ReportUnit(name="idle-guest-curves", place=60, make=figure),
    ReportUnit(name="idle-guest", place=61, make=table),
)
