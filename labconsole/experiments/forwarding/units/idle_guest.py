"""The cost of an idle second guest for the first, load by load."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import Cell, Figure, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.report.captions import MEGA, build_caption, build_mark
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_number,
    format_setting,
    format_size_number,
    format_target_number,
    format_with_interval,
    size_cells,
    target_cell,
)
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, IDLE, PointSummary, Setting, platform_order

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


def table(material: Material) -> Table | None:
    """Build the table: a row for each load at which both were measured."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for setting, alone, idle in both(material):
        idle_by_load = {point.load: point for point in idle}
        for one in alone:
            if (other := idle_by_load.get(one.load)) is None:
                continue
            change = other.rate_bps.mean / one.rate_bps.mean - 1 if one.rate_bps.mean > 0 else None
            cells = [(p.rate_bps.mean, p.rate_bps.ci_low, p.rate_bps.ci_high, p.set_ups, p.n) for p in (one, other)]
            rows.append(
                (
                    *size_cells(setting.frame),
                    setting.platform,
                    setting.sources,
                    target_cell(one),
                    *cells[0],
                    *cells[1],
                    change,
                )
            )
            shown.append(
                (
                    format_size_number(setting.frame),
                    setting.platform,
                    str(setting.sources),
                    format_target_number(one.target_bps, setting.frame),
                    format_with_interval(one.rate_bps),
                    format_with_interval(other.rate_bps),
                    UNKNOWN if change is None else format_number(100 * change, 2),
                )
            )
    if not rows:
        return None
    return Table(
        name="idle-guest",
        title="An idle second guest compared with none, load by load",
        columns=(
            *SIZE_COLUMNS,
            "platform",
            "sources",
            "target_bps",
            *(
                f"{which}_{name}"
                for which in ("alone", "idle")
                for name in ("mean_bps", "ci_low_bps", "ci_high_bps", "set_ups", "trials")
            ),
            "change_ratio",
        ),
        rows=tuple(rows),
        headings=(
            "size, B",
            "platform",
            "sources",
            "target, Mbit/s",
            "no second guest, Mbit/s",
            "idle one, Mbit/s",
            "change of means, %",
        ),
        shown=tuple(shown),
        note="Forwarded bandwidth on the wire, ± half the 95 % interval. The change is of the means as measured and "
        "claims nothing; the claim on each setting's maximum is in table 1, against: none.",
    )


UNITS = (
    ReportUnit(name="idle-guest-curves", place=60, make=figure),
    ReportUnit(name="idle-guest", place=61, make=table),
)
