"""Median and 99th percentile of the delay over the offered bandwidth, where trials recorded delays."""

from __future__ import annotations

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit
from labconsole.report.captions import MEGA, caption, mark_of, platforms_of, sizes_of
from labconsole.report.delays import NS_PER_US, delay_at
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED
from labconsole.report.words import count, size_words

SOURCES = 1


def make(material: Material) -> Figure | None:
    """Of trials with one source and no second guest; one-way delays where any point has them."""
    chosen = [
        (p, delay) for p in material.evaluation.points if p.sources == SOURCES and p.background == DEDICATED
        if (delay := delay_at(p, material.digest.facts)) is not None
    ]  # fmt: skip
    one_way = [pair for pair in chosen if pair[1].kind == "one way"]
    chosen = one_way or chosen
    if not chosen:
        return None
    points = [p for p, _ in chosen]
    panels = []
    for size in sizes_of(points):
        curves = []
        for platform in platforms_of(points):
            own = sorted(
                ((p, delay) for p, delay in chosen if p.platform == platform and p.frame == size),
                key=lambda pair: pair[0].offered_bps.mean,
            )
            for name, of in (("median", "p50_ns"), ("99 %", "p99_ns")):
                marks = [mark_of(p.offered_bps.mean / MEGA, getattr(delay, of), scale=NS_PER_US) for p, delay in own]
                if marks:
                    curves.append(PlottedCurve(f"{platform}, {name}", tuple(marks)))
        panels.append(Panel(size_words(size), tuple(curves)))
    return Figure(
        name="delay",
        title=f"Delay ({chosen[0][1].kind}) over offered bandwidth, {count(SOURCES, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="delay in µs",
        panels=tuple(panels),
        caption=caption(
            "Mean of the trials' medians and 99th percentiles, of packets that arrived: what was lost has no delay",
            panels,
        ),
        ideal=False,
    )


UNITS = (ReportUnit(name="delay", place=50, make=make),)
