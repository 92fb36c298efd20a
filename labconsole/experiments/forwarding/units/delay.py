"""Median and 99th percentile of the delay over the offered bandwidth, where trials recorded delays."""

from __future__ import annotations

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit
from labconsole.report.captions import MEGA, build_caption, build_mark, collect_platforms, collect_sizes
from labconsole.report.delays import NS_PER_US, find_delay
from labconsole.report.formatting import format_frame_size, format_noun_count
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED

SOURCES = 1


def make(material: Material) -> Figure | None:
    """Build the figure from trials with one source and no second guest; one-way delays where any point has them."""
    chosen = [
        (p, delay)
        for p in material.evaluation.points
        if p.sources == SOURCES and p.background == DEDICATED
        if (delay := find_delay(p, material.digest.facts)) is not None
    ]
    one_way = [pair for pair in chosen if pair[1].kind == "one way"]
    chosen = one_way or chosen
    if not chosen:
        return None
    points = [p for p, _ in chosen]
    panels = []
    for size in collect_sizes(points):
        curves = []
        for platform in collect_platforms(points):
            own = sorted(
                ((p, delay) for p, delay in chosen if p.platform == platform and p.frame == size),
                key=lambda pair: pair[0].offered_bps.mean,
            )
            for name, of in (("median", "p50_ns"), ("99 %", "p99_ns")):
                marks = [build_mark(p.offered_bps.mean / MEGA, getattr(delay, of), scale=NS_PER_US) for p, delay in own]
                if marks:
                    curves.append(PlottedCurve(f"{platform}, {name}", tuple(marks)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    return Figure(
        name="delay",
        title=f"Delay ({chosen[0][1].kind}) over offered bandwidth, {format_noun_count(SOURCES, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="delay in µs",
        panels=tuple(panels),
        caption=build_caption(
            "Mean of the trials' medians and 99th percentiles, of packets that arrived: what was lost has no delay",
            panels,
        ),
        ideal=False,
    )


UNITS = (ReportUnit(name="delay", place=50, make=make),)
