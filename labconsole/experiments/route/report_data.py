"""Shared parts of the figures and tables of routers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labconsole.contracts.report import PlottedCurve
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.summary import RoutePointResult, RoutesSummary, summarize_routes
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import build_mark
from labconsole.report.material import Material
from labconsole.report.points import platform_order

KILO = 1e3


def select_records(material: Material) -> list[RouteRecord]:
    """All trials of routers in the report's material."""
    return [record for record in material.of("route") if isinstance(record, RouteRecord)]


def build_summary(material: Material) -> RoutesSummary:
    """Summarize the trials of routers."""
    return summarize_routes(select_records(material), material.evaluation.claims.p_values)


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of the comparisons."""
    records = (each for each in experiments.get("route", ()) if isinstance(each, RouteRecord))
    return [each.effect.p for each in summarize_routes(records).compared if each.effect.p is not None]


def sort_points(points: Sequence[RoutePointResult]) -> list[RoutePointResult]:
    """Sort points by platform, in the order of every figure."""
    return sorted(points, key=lambda each: platform_order(each.key.platform))


def curve(
    label: str,
    points: Sequence[RoutePointResult],
    x: Callable[[RoutePointResult], float],
    y: Callable[[RoutePointResult], SetUpMean | None] = lambda point: point.sum_pps,
) -> PlottedCurve:
    """A curve of sums in kpackets/s."""
    marks = [build_mark(x(each), found, scale=KILO) for each in points if (found := y(each)) is not None]
    return PlottedCurve(label, tuple(sorted(marks, key=lambda mark: mark.x)))
