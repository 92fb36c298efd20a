"""A model of stored runs: the time per packet, c0 + c1 · s, from each platform's maxima over frame sizes.

At a maximum of r packets per second, one packet takes 1/r. c0 is the cost of a packet whatever its size, c1 the cost of
each of its bytes: copying, or the link. (Schlosser, Duelli and Goll, section 6, leave such a model to further work.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labconsole.contracts.report import Figure, Mark, MethodNote, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.statistics.regression import Line, fit_line
from labconsole.measure.statistics.set_ups import mean_over_set_ups
from labconsole.model.design_point import FrameSize
from labconsole.report.captions import MEGA, build_caption, build_mark
from labconsole.report.formatting import format_noun_count, format_number, format_share, format_target_number
from labconsole.report.material import Material
from labconsole.report.point_columns import setting_columns
from labconsole.report.points import DEDICATED, MaximumReading, PointSummary, Setting, background_order, platform_order
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    interval_columns,
    number_column,
    p_value_column,
    percent_column,
    printed_column,
)

LEAST_SIZES = 3
"""The fewest frame sizes of a model; a line fits fewer sizes whatever the truth is."""

NS = 1e9
PERCENT = 100.0

Replicates = list[tuple[float, float]]
"""Frame size in bytes without check sequence, and ns per packet: one for each set-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCost:
    """The cost on one platform with a number of sources and a background. ``setting``: that of its smallest frame.

    ``worst_ratio``: the largest error of a rate that the model predicts for a size left out of the fit, as predicted
    over measured - 1, or None with fewer than four sizes.
    """

    setting: Setting
    readings: tuple[MaximumReading, ...]
    values: Replicates
    line: Line
    worst_ratio: float | None

    def ns(self, frame_bytes: float) -> float:
        """Return the time of a packet of this size."""
        return self.line.constant + self.line.slope * frame_bytes


def costs(material: Material) -> Iterator[PacketCost]:
    """Find the costs of settings whose maximum was reached. Elsewhere the highest load does not show a packet's
    time.
    """
    groups: dict[Setting, list[MaximumReading]] = {}
    for reading in material.evaluation.maxima:
        if reading.at_least is False and reading.rate.mean > 0:
            key = reading.setting._replace(frame=FrameSize(0))
            groups.setdefault(key, []).append(reading)
    for key in sorted(
        groups, key=lambda each: (platform_order(each.platform), each.sources, background_order(each.background))
    ):
        readings = sorted(groups[key], key=lambda each: each.setting.frame.pkt_size_bytes)
        if len({each.setting.frame.pkt_size_bytes for each in readings}) < LEAST_SIZES:
            continue
        values = [value for reading in readings for value in _replicates(reading)]
        line = fit_line(values)
        if line is not None:
            yield PacketCost(
                setting=readings[0].setting,
                readings=tuple(readings),
                values=values,
                line=line,
                worst_ratio=_worst(readings),
            )


def _replicates(reading: MaximumReading) -> Replicates:
    frame = reading.setting.frame
    return [
        (float(frame.pkt_size_bytes), NS / frame.rate_pps(mean_bps))
        for mean_bps in reading.means_bps.values()
        if mean_bps > 0
    ]


def _worst(readings: Sequence[MaximumReading]) -> float | None:
    """Return the largest error when each size is predicted from all others."""
    found: list[float] = []
    if len(readings) <= LEAST_SIZES:
        return None
    for left_out in readings:
        line = fit_line([value for each in readings if each is not left_out for value in _replicates(each)])
        size = left_out.setting.frame.pkt_size_bytes
        own = _replicates(left_out)
        if line is None or not own or (foretold_ns := line.constant + line.slope * size) <= 0:
            return None
        measured_pps = sum(NS / ns for _, ns in own) / len(own)
        found.append(NS / foretold_ns / measured_pps - 1)
    return max(found, key=abs)


def table(material: Material) -> Table | None:
    """Build the table of both parts with their intervals, and of the model's errors."""
    found = list(costs(material))
    if not found:
        return None
    columns: list[TableColumn[PacketCost]] = [
        column("platform", "platform", lambda each: each.setting.platform),
        column("sources", "sources", lambda each: each.setting.sources),
        column("background", "background", lambda each: each.setting.background),
        column("sizes", "sizes", lambda each: each.line.places),
        csv_column("values", lambda each: each.line.values),
        _part_columns("constant", "c0, ns", lambda line: (line.constant, line.constant_low, line.constant_high), 0),
        _part_columns("per_byte", "c1, ns a byte", lambda line: (line.slope, line.slope_low, line.slope_high), 2),
        p_value_column("lack_of_fit_p", "p, lack of fit", lambda each: each.line.lack_of_fit_p),
        percent_column("worst_prediction_ratio", "worst foretold rate, %", lambda each: each.worst_ratio),
    ]
    return build_table(
        "packet-cost",
        "What a packet costs: a constant part, and one by its bytes",
        columns,
        found,
        "Least squares over the set-ups' means at the maximum of each frame size; ± half the 95 % interval. A "
        "small p says that a line is not enough. Worst foretold rate: of each size from all others, the farthest from "
        "what was measured. Only maxima that were reached enter.",
    )


def _part_columns(
    name: str, heading: str, part: Callable[[Line], tuple[float, float | None, float | None]], places: int
) -> TableColumn[PacketCost]:
    """A parameter of the line, with its interval."""

    def show(each: PacketCost) -> str:
        value, low, high = part(each.line)
        half = "" if low is None or high is None else f" ± {format_number((high - low) / 2, places)}"
        return format_number(value, places) + half

    bounds = (f"{name}_ci_low_ns", f"{name}_ci_high_ns")
    return interval_columns(f"{name}_ns", heading, lambda each: part(each.line), show, bounds)


class PredictedLoss(NamedTuple):
    """A point beyond the model's maximum of its setting."""

    setting: Setting
    point: PointSummary
    most_bps: float
    missing_ratio: float

    @property
    def foretold_ratio(self) -> float:
        """The loss if everything beyond the maximum is lost."""
        return 1 - self.most_bps / self.point.offered_bps.mean


def beyond(material: Material) -> Table | None:
    """Build the table of loss beyond the model's maximum, predicted and measured, load by load."""
    rows = [row for each in costs(material) for row in _find_losses(material, each)]
    if not rows:
        return None
    columns: list[TableColumn[PredictedLoss]] = [
        setting_columns(lambda row: row.setting),
        column("background", "background", lambda row: row.setting.background),
        printed_column("target, Mbit/s", lambda row: format_target_number(row.point.target_bps, row.point.frame)),
        number_column("offered_mean_bps", "offered, Mbit/s", lambda row: row.point.offered_bps.mean, unit=MEGA),
        csv_column("foretold_maximum_bps", lambda row: row.most_bps),
        column(
            "foretold_loss_ratio",
            "foretold loss",
            lambda row: row.foretold_ratio,
            lambda row: format_share(row.foretold_ratio),
        ),
        column(
            "missing_ratio",
            "lost or late",
            lambda row: row.missing_ratio,
            lambda row: format_share(row.missing_ratio),
        ),
    ]
    return build_table(
        "packet-cost-loss",
        "Loss beyond the maximum: foretold by the model, and measured",
        columns,
        rows,
        "Foretold: that everything beyond the model's maximum is lost, and nothing else. A platform that "
        "collapses loses more.",
    )


def _find_losses(material: Material, cost: PacketCost) -> Iterator[PredictedLoss]:
    """Yield the points beyond the maxima that the model gives."""
    for reading in cost.readings:
        frame = reading.setting.frame
        if (ns := cost.ns(frame.pkt_size_bytes)) > 0:
            most_bps = frame.rate_bps(NS / ns)
            points = material.evaluation.settings[reading.setting].by_load.values()
            for point in sorted(points, key=lambda point: point.load):
                if point.offered_bps.mean > most_bps and point.missing_ratio is not None:
                    yield PredictedLoss(reading.setting, point, most_bps, point.missing_ratio)


def figure(material: Material) -> Figure | None:
    """Build the figure: a panel per number of sources, without a second guest, of times and lines over the frame
    size.
    """
    found = [each for each in costs(material) if each.setting.background == DEDICATED]
    panels = []
    for sources in sorted({each.setting.sources for each in found}):
        curves = []
        for each in found:
            if each.setting.sources != sources:
                continue
            marks = []
            for reading in each.readings:
                size = float(reading.setting.frame.pkt_size_bytes)
                own = {number: [ns] for number, (_, ns) in enumerate(_replicates(reading))}
                marks.append(build_mark(size, mean_over_set_ups(own), [ns for (ns,) in own.values()], scale=1.0))
            curves.append(PlottedCurve(each.setting.platform, tuple(marks)))
            ends = (marks[0].x, marks[-1].x)
            drawn = tuple(Mark(size, each.ns(size), None, None, each.line.values, each.line.values) for size in ends)
            curves.append(PlottedCurve(f"{each.setting.platform}: c0 + c1 · s", drawn))
        panels.append(Panel(format_noun_count(sources, "source"), tuple(curves)))
    if not panels:
        return None
    measured = [
        Panel(panel.title, tuple(curve for curve in panel.curves if ":" not in curve.label)) for panel in panels
    ]
    return Figure(
        name="packet-cost",
        title="What a packet costs, over its size",
        kind="curves",
        x_label="frame size in bytes without check sequence",
        y_label="ns a packet at the maximum",
        panels=tuple(panels),
        caption=build_caption("Mean time a packet takes at the maximum, and the line fitted to it", measured),
        ideal=False,
    )


def method(material: Material) -> MethodNote | None:
    """Describe the basis of the model."""
    if not any(True for _ in costs(material)):
        return None
    return MethodNote(
        "Cost of a packet",
        "At a maximum that was reached, r packets a second pass in all, and one takes 1/r. Over the frame sizes of a "
        "platform a line c0 + c1 · s is fitted to the set-ups' means by least squares; its test for lack of fit, and "
        "each size foretold from all others, say how far it holds.",
    )


UNITS = (
    ReportUnit(name="packet-cost-figure", place=62, make=figure),
    ReportUnit(name="packet-cost", place=62, make=table),
    ReportUnit(name="packet-cost-loss", place=63, make=beyond),
    ReportUnit(name="packet-cost-words", place=62, make=method),
)
