"""Forwarded over offered bandwidth: a panel per frame size, a curve per platform. Rates as in the papers, in Mbit/s."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.report.captions import MEGA, caption, mark_of, platforms_of, sizes_of
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, PointSummary
from labconsole.report.words import count, size_words


def of_one_source(material: Material) -> Figure | None:
    """Of trials with one source and no second guest."""
    return _figure(material.evaluation.points, 1, "figure-3")


def of_more_sources(material: Material) -> list[Figure]:
    """The same for every other number of sources that was measured."""
    points = material.evaluation.points
    numbers = sorted({point.sources for point in points if point.background == DEDICATED} - {1})
    figures = [_figure(points, sources, f"figure-3-{sources}-sources") for sources in numbers]
    return [figure for figure in figures if figure is not None]


def _figure(points: Sequence[PointSummary], sources: int, name: str) -> Figure | None:
    chosen = [p for p in points if p.sources == sources and p.background == DEDICATED]
    panels = []
    for size in sizes_of(chosen):
        here = [p for p in chosen if p.frame == size]
        curves = []
        for platform in platforms_of(chosen):
            own = sorted((p for p in here if p.platform == platform), key=lambda p: p.offered_bps.mean)
            if own:
                marks = tuple(mark_of(p.offered_bps.mean / MEGA, p.rate_bps, _dots(p)) for p in own)
                curves.append(PlottedCurve(platform, marks))
        panels.append(Panel(size_words(size), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Forwarding rate over offered bandwidth, {count(sources, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=caption(f"Mean {_rate_words(chosen)} over mean offered bandwidth", panels),
    )


def _dots(point: PointSummary) -> list[float]:
    return list(set_up_means(point.values_bps).values())


def _rate_words(points: Sequence[PointSummary]) -> str:
    methods = {p.design.conditions.method for p in points}
    if methods <= {1, None}:
        return "measured throughput (method 1: over the sending time)"
    return "forwarding rate" + (" (method 1: measured over the sending time)" if methods & {1, None} else "")


PAPER = ("schlosser", "figure 3")
UNITS = (
    ReportUnit(name="figure-3", place=10, paper=PAPER, make=of_one_source),
    ReportUnit(name="figure-3-by-sources", place=40, paper=PAPER, make=of_more_sources),
)
