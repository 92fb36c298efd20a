"""View of the curves: logarithmic axes, a single curve, a part of x; and what is drawn then."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from labconsole.measure.curves import X_FACTORS, Curve, CurvePoint, Curves
from labconsole.text import charts
from labconsole.tui.screens.curves.curve_chart import CurvePicture

AXES = (("", ""), ("x", ""), ("", "y"), ("x", "y"))
ZOOM = 2.0
TICKS = 6
MOST_LOG_TICKS = 8

Formatter = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class CurveViewOptions:
    """``log``: the logarithmic axes. ``solo``: the only curve drawn. ``low``, ``high``: the part of x."""

    log: tuple[str, str] = ("", "")
    solo: str | None = None
    low: float | None = None
    high: float | None = None

    def next_axes(self) -> CurveViewOptions:
        """Switch the logarithmic axes: none, x, y, both."""
        return replace(self, log=AXES[(AXES.index(self.log) + 1) % len(AXES)])

    def zoomed(self, made: Curves, about: float, closer: bool) -> CurveViewOptions:
        """Show half, or twice, as much of x around a place, or all of x once everything fits."""
        every = [point.x for curve in made.curves for point in curve.points]
        if not every:
            return self
        least, most = min(every), max(every)
        low, high = self.low if self.low is not None else least, self.high if self.high is not None else most
        wide = (high - low) / (ZOOM if closer else 1 / ZOOM)
        if wide <= 0:
            return self
        place = (about - low) / (high - low)  # keeps its place on the axis
        low = about - wide * (place if 0 <= place <= 1 else 0.5)
        high = low + wide
        if low <= least and high >= most:
            return replace(self, low=None, high=None)
        inside = replace(self, low=max(low, least), high=min(high, most))
        if closer or self.low is None or self.high is None:
            return inside
        # The runs may have changed since zooming in: zooming out must never narrow the view.
        return replace(self, low=min(inside.low or low, self.low), high=max(inside.high or high, self.high))

    def drawn(self, made: Curves) -> list[Curve]:
        """The curves with the points that are drawn. A curve without any stays, so that its glyph stays its own."""
        solo = self.solo if any(curve.label == self.solo for curve in made.curves) else None
        return [
            replace(
                curve, points=tuple(p for p in curve.points if self._shows(p)) if solo in (None, curve.label) else ()
            )
            for curve in made.curves
        ]

    def _shows(self, point: CurvePoint) -> bool:
        if (self.low is not None and point.x < self.low) or (self.high is not None and point.x > self.high):
            return False
        return not (self.log[0] and point.x <= 0) and not (self.log[1] and point.y.mean <= 0)

    def describe(self, made: Curves, format_x: Formatter) -> str:
        """Describe the differences from the default view, for the title."""
        parts = [f"log {' and '.join(filter(None, self.log))}"] if any(self.log) else []
        if any(curve.label == self.solo for curve in made.curves):
            parts.append(f"only {self.solo}")
        if self.low is not None and self.high is not None:
            parts.append(f"x from {format_x(self.low)} to {format_x(self.high)}")
        # Points that have no logarithm must not vanish silently.
        rest = replace(self, log=("", ""))
        missing = sum(len(c.points) for c in rest.drawn(made)) - sum(len(c.points) for c in self.drawn(made))
        if missing:
            parts.append(f"{missing} point{'s' if missing > 1 else ''} at 0 left out")
        return "".join(f" · {part}" for part in parts)


def picture(
    made: Curves, viewing: CurveViewOptions, format_x: Formatter, format_y: Formatter, *, ideal: bool
) -> CurvePicture | None:
    """Build the chart's picture of the curves."""
    drawn = viewing.drawn(made)
    shown = [point for curve in drawn for point in curve.points]
    if not shown:
        return None
    x_scale = _Scale(bool(viewing.log[0]), min(point.x for point in shown))
    y_scale = _Scale(bool(viewing.log[1]), min(_lowest(point, bool(viewing.log[1])) for point in shown))

    def mark(point: CurvePoint) -> charts.CurvePointMark:
        from_y, to_y = point.y.ci_low, point.y.ci_high
        if y_scale.log and from_y is not None and from_y <= 0:  # the interval reaches beyond the axis
            from_y = y_scale.least
        ends = [None if end is None else y_scale.place(end) for end in (from_y, to_y)]
        return charts.CurvePointMark(x_scale.place(point.x), y_scale.place(point.y.mean), *ends)

    factor = made.spec.effective_x in X_FACTORS
    low = min(p.x for p in shown) if viewing.low is None else viewing.low
    high = max(p.x for p in shown) if viewing.high is None else viewing.high
    ticks: tuple[float, ...] = ()
    if factor:
        ticks = tuple(x_scale.place(point.x) for point in shown)
    elif viewing.log[0]:
        ticks = tuple(map(x_scale.place, log_ticks(max(low, x_scale.least), high)))
    elif viewing.low is not None:
        ticks = tuple(even_ticks(low, high))
    axes = charts.CurveAxes(
        x_ticks=ticks,
        x_words=lambda place: format_x(x_scale.value(place)),
        y_words=lambda place: format_y(y_scale.value(place)),
        y_least_step=1.0 if y_scale.log else 0.0,
        shared=True,
        ideal=ideal and not any(viewing.log) and viewing.low is None,
    )
    curves = tuple(tuple(map(mark, curve.points)) for curve in drawn)
    return CurvePicture(tuple(curve.label for curve in made.curves), curves, axes)


def _lowest(point: CurvePoint, positive: bool) -> float:
    low = point.y.ci_low
    return point.y.mean if low is None or (positive and low <= 0) else min(low, point.y.mean)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Places on an axis: values themselves, or decades above that of ``least``."""

    log: bool
    least: float

    @property
    def _first(self) -> int:
        return math.floor(math.log10(self.least))

    def place(self, value: float) -> float:
        return math.log10(value) - self._first if self.log else value

    def value(self, place: float) -> float:
        return float(10 ** (place + self._first)) if self.log else place


def even_ticks(low: float, high: float) -> list[float]:
    """Round values at equal distances that cover an interval."""
    if high <= low:
        return [low]
    rough = (high - low) / (TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    return [step * number for number in range(math.floor(low / step), math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round values that cover an interval: 1, 2 and 5 of every power of ten, or fewer of these if there are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks: list[float] = []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        begin = max((tick for tick in every if tick <= low), default=every[0])
        end = min((tick for tick in every if tick >= high), default=every[-1])
        ticks = [tick for tick in every if begin <= tick <= end]
        if len(ticks) <= MOST_LOG_TICKS:
            break
    return ticks
