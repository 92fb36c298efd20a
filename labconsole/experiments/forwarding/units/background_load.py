"""The requested and the reached background load, as evidence that it ran."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.measure.statistics.repetitions import Summary, summarize
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.points import background_order, platform_order


def make(material: Material) -> Table:
    """Build the table by platform, kind of load and quantity."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for (platform, kind), load in sorted(material.digest.loads.items(), key=lambda item: _order(*item[0])):
        where = "; ".join(name for name, _ in load.guests.most_common(3))
        names = list(dict.fromkeys([*load.requested, *load.achieved]))
        for name in names:
            requested, reached = (
                summarize(values[name]) if values.get(name) else None for values in (load.requested, load.achieved)
            )
            runs = len(load.run_ids)
            rows.append(
                (
                    platform,
                    kind,
                    where,
                    runs,
                    name,
                    _mean(requested),
                    _mean(reached),
                    None if reached is None else reached.minimum,
                    None if reached is None else reached.maximum,
                )
            )
            shown.append(
                (
                    platform,
                    kind,
                    where,
                    str(runs),
                    name,
                    _format_mean(requested),
                    _format_mean(reached),
                    UNKNOWN if reached is None else f"{_figure(reached.minimum)} to {_figure(reached.maximum)}",
                )
            )
    return Table(
        name="background-load",
        title="Background load: asked for and reached",
        columns=(
            "platform",
            "background",
            "guest",
            "runs",
            "quantity",
            "requested_mean",
            "achieved_mean",
            "achieved_min",
            "achieved_max",
        ),
        rows=tuple(rows),
        headings=("platform", "background", "guest", "runs", "quantity", "asked for", "reached", "from, to"),
        shown=tuple(shown),
        note=(
            "Means over the runs that enter, in the unit that ends the quantity's name. demand_ratio: what the load "
            "wanted of processors, run or waiting, of what it was started for; host_cpu_s: what the host spent on "
            "its guest."
        ),
    )


def _order(platform: str, kind: str) -> tuple[object, ...]:
    return (platform_order(platform), background_order(kind))


def _mean(summary: Summary | None) -> float | None:
    return None if summary is None else summary.mean


def _format_mean(summary: Summary | None) -> str:
    return UNKNOWN if summary is None else _figure(summary.mean)


def _figure(value: float) -> str:
    return format_number(value, 0) if abs(value) >= 1000 else f"{value:.4g}".replace("-", "−")


UNITS = (ReportUnit(name="background-load", place=80, make=make),)
