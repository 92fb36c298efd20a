"""Common parts of figures: marks with intervals, panels by frame size, and what a caption says of both. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labconsole.contracts.report import Mark, Panel
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.design_point import FrameSize
from labconsole.report.formatting import format_span
from labconsole.report.points import PointSummary, platform_order

MEGA = 1e6

INTERVALS = (
    "Means over set-ups, each of which is one replicate; ±: half the 95 % interval (Student's t), each by itself."
)
"""A table's note on intervals that are no claims and are not adjusted for multiple comparisons."""

JAIN = "Jain: at least what its lower bound says (97.5 %), as noise lowers the index of each trial."


def collect_sizes(points: Iterable[PointSummary]) -> list[FrameSize]:
    """Frame sizes with their conventions, the smallest first; a figure has a panel for each."""
    return sorted({point.frame for point in points})


def collect_platforms(points: Iterable[PointSummary]) -> list[str]:
    """Platforms, in the same order in every figure."""
    return sorted({point.platform for point in points}, key=platform_order)


def build_mark(x: float, summary: SetUpMean, dots: Sequence[float] = (), scale: float = MEGA) -> Mark:
    """A mean with its interval at ``x``. ``dots``: the means of its set-ups, drawn if there are several."""
    low, high = summary.ci_low, summary.ci_high
    return Mark(
        x,
        summary.mean / scale,
        None if low is None else low / scale,
        None if high is None else high / scale,
        summary.trials,
        summary.set_ups,
        tuple(dot / scale for dot in dots) if len(dots) > 1 else (),
    )


def split_shared_parts(names: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Split names into the parts that all share and each name without them. Each name starts with a platform or the
    like. The shared parts after it are returned in parentheses, for a figure's title. A single name shares nothing.
    """
    common = [part for part in names[0][1:] if all(part in each[1:] for each in names)] if len(names) > 1 else []
    own = [", ".join(part for place, part in enumerate(each) if not place or part not in common) for each in names]
    return f" ({', '.join(common)})" if common else "", own


def _behind(marks: Sequence[Mark]) -> str:
    """Describe the sample of each mark: ``5 set-ups of 3 trials per point``, or for one set-up its number of trials."""
    if not marks:
        return "no runs"
    set_ups, runs = {mark.set_ups for mark in marks}, f"n = {format_span(mark.n for mark in marks)} per point"
    return f"{runs}, one set-up" if set_ups == {1} else f"{format_span(set_ups)} set-ups, {runs}"


def build_caption(text: str, panels: Sequence[Panel], of: str = "mean") -> str:
    """Append to ``text`` the sample of each mark in these panels, and what their error bars are ``of``."""
    marks = [mark for panel in panels for curve in panel.curves for mark in curve.marks]
    bars = f"error bars: 95 % confidence interval of the {of}"
    if marks and all(mark.low is None for mark in marks):
        bars = "no error bars: an interval needs three set-ups, or three trials of one"
    elif any(mark.set_ups > 1 for mark in marks):
        bars += " over set-ups (Student's t)"
    else:
        bars += " of this set-up only (Student's t over its trials)"
    dots = "; dots: means of the set-ups" if any(mark.dots for mark in marks) else ""
    return f"{text}; {_behind(marks)}; {bars}{dots}."
