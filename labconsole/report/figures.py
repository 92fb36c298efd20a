"""The papers' figures as data: panels of curves and bars with their intervals. draw.py puts them on paper.

Figure 3: measured over offered bandwidth, one panel per frame size, one curve per platform. Figure 4: the maximum
accumulated throughput by number of sources. Figure 5: the maximum beside a forwarding second guest, relative to the
dedicated maximum. Rates are in Mbit/s on the wire, as in the papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labconsole.measure.statistics import Summary
from labconsole.report.evaluation import (
    DEDICATED,
    FORWARDING,
    IDLE,
    NETWORK_BASELINES,
    Change,
    Point,
    changes,
    maxima,
    platform_order,
)

MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Mark:
    """One point or bar: place, height, interval (None below three repetitions), repetitions behind it."""

    x: float
    y: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One platform in one panel."""

    label: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes."""

    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. ``kind``: curves over x, or bars grouped by x with the names in ``x_names``."""

    name: str
    title: str
    kind: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    caption: str
    x_names: tuple[str, ...] = ()
    reference_line: float | None = None
    """A horizontal line to compare with (1 for ratios)."""


def size_words(size: int, includes_fcs: bool) -> str:
    """``64 B`` with its convention where it is not the paper's."""
    return f"{size} B" + (" with FCS" if includes_fcs else "")


def _sizes(points: Sequence[Point]) -> list[tuple[int, bool]]:
    return sorted({(p.frame_size_bytes, p.frame_size_includes_fcs) for p in points})


def _platforms(points: Sequence[Point]) -> list[str]:
    return sorted({p.platform for p in points}, key=platform_order)


def _mark(x: float, summary: Summary, scale: float = MEGA) -> Mark:
    low, high = summary.ci_low, summary.ci_high
    return Mark(
        x,
        summary.mean / scale,
        None if low is None else low / scale,
        None if high is None else high / scale,
        summary.n,
    )


def _repetitions(marks: Sequence[Mark]) -> str:
    counts = sorted({mark.n for mark in marks})
    if not counts:
        return "no runs"
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


def _sources(count: int) -> str:
    return f"{count} source{'' if count == 1 else 's'}"


def _compared_with(found: Sequence[Change]) -> str:
    words = {DEDICATED: "the dedicated maximum (no second guest)", IDLE: "the maximum beside an idle second guest"}
    names = {c.baseline.background for c in found}
    return "compared with " + " or, where that is missing, ".join(text for name, text in words.items() if name in names)


def _caption(text: str, panels: Sequence[Panel], of: str = "mean (Student's t)") -> str:
    marks = [mark for panel in panels for curve in panel.curves for mark in curve.marks]
    bars = f"error bars: 95 % confidence interval of the {of}"
    if marks and all(mark.low is None for mark in marks):
        bars = "no error bars: an interval needs three repetitions"
    return f"{text}; {_repetitions(marks)} per point; {bars}."


def throughput_over_load(points: Sequence[Point], *, sources: int = 1) -> Figure | None:
    """Figure 3, for trials with this many sources and no second guest. None when there are none."""
    chosen = [p for p in points if p.sources == sources and p.background == DEDICATED]
    panels = []
    for size, fcs in _sizes(chosen):
        here = [p for p in chosen if (p.frame_size_bytes, p.frame_size_includes_fcs) == (size, fcs)]
        curves = []
        for platform in _platforms(chosen):
            own = sorted((p for p in here if p.platform == platform), key=lambda p: p.offered_bps.mean)
            if own:
                curves.append(Curve(platform, tuple(_mark(p.offered_bps.mean / MEGA, p.measured_bps) for p in own)))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="figure-3" if sources == 1 else f"figure-3-{sources}-sources",
        title=f"Measured throughput over offered bandwidth, {_sources(sources)}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="measured Mbit/s on the wire",
        panels=tuple(panels),
        caption=_caption("Mean measured throughput over mean offered bandwidth", panels),
    )


def maximum_by_sources(points: Sequence[Point]) -> Figure | None:
    """Figure 4: the maximum accumulated throughput with 1, 2, … sources, no second guest."""
    chosen = [p for p in points if p.background == DEDICATED]
    best = maxima(chosen)
    numbers = sorted({p.sources for p in chosen})
    panels = []
    for size, fcs in _sizes(chosen):
        curves = []
        for platform in _platforms(chosen):
            marks = [
                _mark(place, best[platform, size, fcs, count, DEDICATED].measured_bps)
                for place, count in enumerate(numbers)
                if (platform, size, fcs, count, DEDICATED) in best
            ]
            if marks:
                curves.append(Curve(platform, tuple(marks)))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="figure-4",
        title="Maximum accumulated throughput by number of sources",
        kind="bars",
        x_label="sources",
        y_label="measured Mbit/s on the wire",
        panels=tuple(panels),
        caption=_caption("Maximum over all offered loads, summed over the streams", panels),
        x_names=tuple(str(count) for count in numbers),
    )


def maximum_beside_forwarding(points: Sequence[Point]) -> Figure | None:
    """Figure 5: the maximum beside a second guest that forwards, relative to the maximum beside none."""
    found = changes(points, FORWARDING, NETWORK_BASELINES)
    if not found:
        return None
    platforms = _platforms(points)
    found = [c for c in found if c.subject.sources == min(change.subject.sources for change in found)]
    panels = []
    for size, fcs in _sizes([c.subject for c in found]):
        curves = []
        for kind in FORWARDING:
            marks = [
                _change_mark(platforms.index(c.subject.platform), c)
                for c in found
                if c.subject.background == kind
                and (c.subject.frame_size_bytes, c.subject.frame_size_includes_fcs) == (size, fcs)
            ]
            if marks:
                curves.append(Curve(kind, tuple(marks)))
        panels.append(Panel(size_words(size, fcs), tuple(curves)))
    return Figure(
        name="figure-5",
        title="Maximum throughput beside a forwarding second guest, relative to the dedicated maximum",
        kind="bars",
        x_label="platform",
        y_label="ratio to the dedicated maximum",
        panels=tuple(panels),
        caption=_caption(
            f"Ratio of two maxima over the loads measured with both, {_sources(found[0].subject.sources)}, "
            f"{_compared_with(found)}",
            panels,
            "ratio (Fieller)",
        ),
        x_names=tuple(platforms),
        reference_line=1.0,
    )


def _change_mark(x: int, change: Change) -> Mark:
    n = min(change.subject.n, change.baseline.n)
    return Mark(x, change.value, change.ratio.ci_low, change.ratio.ci_high, n)


EMULATED = "Emulated testbed: it shows the method, not the speed of hardware."
"""What every caption says of runs that were taken on machines made of software."""


def all_figures(points: Sequence[Point], *, emulated: bool) -> list[Figure]:
    """Every figure that these points allow, the paper's first."""
    extra = sorted({p.sources for p in points if p.background == DEDICATED} - {1})
    made = [
        throughput_over_load(points),
        maximum_by_sources(points),
        maximum_beside_forwarding(points),
        *(throughput_over_load(points, sources=count) for count in extra),
    ]
    told = f" {EMULATED}" if emulated else ""
    return [replace(figure, caption=figure.caption + told) for figure in made if figure is not None]
