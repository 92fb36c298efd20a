"""The spread of the trials of one point: every repetition a dot, over the offered load."""

from __future__ import annotations

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit
from labconsole.report.captions import MEGA, collect_platforms, collect_sizes
from labconsole.report.formatting import format_frame_size, format_noun_count
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, PointSummary

PERCENT = 100.0


def make(material: Material) -> list[Figure]:
    """Build a figure per number of sources, from points without a second guest that have two trials or more."""
    points = [p for p in material.evaluation.points if p.background == DEDICATED and p.n > 1 and p.rate_bps.mean > 0]
    figures = []
    for sources in sorted({p.sources for p in points}):
        chosen = [p for p in points if p.sources == sources]
        panels = []
        for size in collect_sizes(chosen):
            here = [p for p in chosen if p.frame == size]
            curves = tuple(
                PlottedCurve(
                    platform,
                    tuple(_mark(p) for p in sorted(here, key=lambda p: p.offered_bps.mean) if p.platform == platform),
                )
                for platform in collect_platforms(chosen)
                if any(p.platform == platform for p in here)
            )
            panels.append(Panel(format_frame_size(size), curves))
        figures.append(_figure(sources, tuple(panels), chosen))
    return figures


def _mark(point: PointSummary) -> Mark:
    """Return a mark at 0, the mean of its trials; the trials are the dots."""
    values = point.trial_values_bps
    mean = sum(values) / len(values)
    dots = tuple(PERCENT * (value / mean - 1) for value in values)
    low, high = min(0.0, *dots), max(0.0, *dots)  # rounding separates trials that are all alike from their own mean
    return Mark(point.offered_bps.mean / MEGA, 0.0, low, high, point.n, point.set_ups, dots)


def _figure(sources: int, panels: tuple[Panel, ...], points: list[PointSummary]) -> Figure:
    trials = sum(point.n for point in points)
    return Figure(
        name=f"spread-{sources}-source{'s' if sources > 1 else ''}",
        title=f"How far trials of one point lie apart, {format_noun_count(sources, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="a trial's rate from its point's mean, %",
        panels=panels,
        caption=f"Every dot is one trial, {trials} in all, of {format_noun_count(len(points), 'point')} "
        "with two trials or more; 0 is the mean of its point's trials, and bars are from the least to the most. "
        "Trials of all set-ups are shown together: the table on spread tells between set-ups and within them.",
        ideal=False,
        from_zero=False,
        joined=False,
    )


UNITS = (ReportUnit(name="spread-by-load", place=151, make=make),)
