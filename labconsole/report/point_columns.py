"""Columns of the factors and rates of forwarding trials that many tables share. Pure."""

from __future__ import annotations

from collections.abc import Callable

from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.design_point import FrameSize
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    format_size_number,
    format_target_number,
    format_with_interval,
    size_cells,
    target_cell,
)
from labconsole.report.points import PointSummary, Setting
from labconsole.report.sample import RunCoverage
from labconsole.report.table_builder import Item, TableColumn, column, interval_columns, join_columns, mean_with_bounds


def size_columns(frame: Callable[[Item], FrameSize | None], heading: str = "size, B") -> TableColumn[Item]:
    """The frame size with its convention."""
    return TableColumn(
        SIZE_COLUMNS,
        lambda item: size_cells(frame(item)),
        (heading,),
        lambda item: (format_size_number(frame(item)),),
    )


def setting_columns(setting: Callable[[Item], Setting]) -> TableColumn[Item]:
    """Frame size, platform and sources."""
    columns: list[TableColumn[Item]] = [
        size_columns(lambda item: setting(item).frame),
        column("platform", "platform", lambda item: setting(item).platform),
        column("sources", "sources", lambda item: setting(item).sources),
    ]
    return join_columns(columns)


def target_column(
    point: Callable[[Item], PointSummary | RunCoverage], heading: str = "target, Mbit/s"
) -> TableColumn[Item]:
    """The target per source."""

    def show(item: Item) -> str:
        found = point(item)
        return format_target_number(found.target_bps, found.frame)

    return column("target_bps", heading, lambda item: target_cell(point(item)), show)


def design_columns(point: Callable[[Item], PointSummary | RunCoverage]) -> TableColumn[Item]:
    """All factors of a design point."""
    columns: list[TableColumn[Item]] = [
        column("platform", "platform", lambda item: point(item).platform),
        size_columns(lambda item: point(item).frame),
        column("sources", "sources", lambda item: point(item).sources),
        target_column(point),
        column("background", "background", lambda item: point(item).background),
    ]
    return join_columns(columns)


def rate_columns(name: str, heading: str, rate: Callable[[Item], SetUpMean]) -> TableColumn[Item]:
    """A mean bandwidth with its bounds, printed in Mbit/s. ``name``: ``offered`` for ``offered_mean_bps``."""
    return interval_columns(
        f"{name}_mean_bps",
        heading,
        lambda item: mean_with_bounds(rate(item)),
        lambda item: format_with_interval(rate(item)),
        bounds=(f"{name}_ci_low_bps", f"{name}_ci_high_bps"),
    )
