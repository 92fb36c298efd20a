"""The requested and the reached background load, as evidence that it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.measure.statistics.repetitions import Summary, summarize
from labconsole.report.digest import Load
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.points import background_order, platform_order
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, printed_column


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


UNITS = (ReportUnit(name="background-load", place=80, make=make),)
