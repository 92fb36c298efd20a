"""What the figures and tables of routers have in common. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labconsole.contracts.report import Cell, PlottedCurve
from labconsole.experiments.route.summary import RoutePointFound, RoutesSummary, summarize_routes
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.route import RouteRecord
from labconsole.report.captions import mark_of
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.words import mean_words

KILO = 1e3


def records_of(material: Material) -> list[RouteRecord]:
    """All trials of routers that the report is of."""
    return [record for record in material.of("route") if isinstance(record, RouteRecord)]


def summary_of(material: Material) -> RoutesSummary:
    """What they come to."""
    return summarize_routes(records_of(material), material.evaluation.claims.p_values)


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of what is compared."""
    records = (each for each in experiments.get("route", ()) if isinstance(each, RouteRecord))
    return [each.effect.p for each in summarize_routes(records).compared if each.effect.p is not None]


def in_order(points: Sequence[RoutePointFound]) -> list[RoutePointFound]:
    """Platforms in the same order in every figure."""
    return sorted(points, key=lambda each: platform_order(each.key.platform))


def curve(
    label: str,
    points: Sequence[RoutePointFound],
    x: Callable[[RoutePointFound], float],
    y: Callable[[RoutePointFound], SetUpMean | None] = lambda point: point.sum_pps,
) -> PlottedCurve:
    """Sums in kpackets/s."""
    marks = [mark_of(x(each), found, scale=KILO) for each in points if (found := y(each)) is not None]
    return PlottedCurve(label, tuple(sorted(marks, key=lambda mark: mark.x)))


def interval(found: SetUpMean | None) -> tuple[Cell, Cell, Cell]:
    """Mean and interval, as cells."""
    return (None, None, None) if found is None else (found.mean, found.ci_low, found.ci_high)


def words(found: SetUpMean | None, unit: float = 1.0, places: int = 0) -> str:
    """A mean with its interval over set-ups."""
    return mean_words(found, unit, places)
