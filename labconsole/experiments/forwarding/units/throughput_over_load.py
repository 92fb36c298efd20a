"""Forwarded over offered bandwidth: a panel per frame size, a curve per platform. Rates are in Mbit/s as in the
papers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.report.captions import MEGA, build_caption, build_mark, collect_platforms, collect_sizes
from labconsole.report.formatting import format_frame_size, format_noun_count
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, PointSummary


def build_one_source_figure(material: Material) -> Figure | None:
    """Build the figure from trials with one source and no second guest."""
    return _figure(material.evaluation.points, 1, "figure-3", _throttled(material))


def build_multi_source_figures(material: Material) -> list[Figure]:
    """Build the same figure for every other number of sources that was measured."""
    points, throttled = material.evaluation.points, _throttled(material)
    numbers = sorted({point.sources for point in points if point.background == DEDICATED} - {1})
    figures = [_figure(points, sources, f"figure-3-{sources}-sources", throttled) for sources in numbers]
    return [figure for figure in figures if figure is not None]


def _throttled(material: Material) -> set[str]:
    """Return runs whose sources were throttled by pause frames."""
    return {each.run_id for each in material.digest.throttled}


def _figure(points: Sequence[PointSummary], sources: int, name: str, throttled: Collection[str]) -> Figure | None:
    chosen = [p for p in points if p.sources == sources and p.background == DEDICATED]
    panels = []
    for size in collect_sizes(chosen):
        here = [p for p in chosen if p.frame == size]
        curves = []
        for platform in collect_platforms(chosen):
            own = sorted((p for p in here if p.platform == platform), key=lambda p: p.offered_bps.mean)
            if own:
                curves.append(PlottedCurve(platform, tuple(_mark(p, throttled) for p in own)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Forwarding rate over offered bandwidth, {format_noun_count(sources, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption(
            f"Mean {_describe_rate(chosen)} over mean offered bandwidth{_describe_throttling(panels)}", panels
        ),
    )


def _mark(point: PointSummary, throttled: Collection[str]) -> Mark:
    mark = build_mark(point.offered_bps.mean / MEGA, point.rate_bps, _dots(point))
    return replace(mark, word=THROTTLED) if any(each in throttled for each in point.run_ids) else mark


def _describe_throttling(panels: Sequence[Panel]) -> str:
    marked = any(mark.word for panel in panels for curve in panel.curves for mark in curve.marks)
    return f"; {THROTTLED}: pause frames throttled a source in some of its trials" if marked else ""


def _dots(point: PointSummary) -> list[float]:
    return list(set_up_means(point.values_bps).values())


def _describe_rate(points: Sequence[PointSummary]) -> str:
    methods = {p.design.conditions.method for p in points}
    if methods <= {1, None}:
        return "measured throughput (method 1: over the sending time)"
    return "forwarding rate" + (" (method 1: measured over the sending time)" if methods & {1, None} else "")


THROTTLED = "throttled"
PAPER = ("schlosser", "figure 3")
UNITS = (
    ReportUnit(name="figure-3", place=10, paper=PAPER, make=build_one_source_figure),
    ReportUnit(name="figure-3-by-sources", place=11, paper=PAPER, make=build_multi_source_figures),
)
