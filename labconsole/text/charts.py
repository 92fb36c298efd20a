"""The one module that knows plotext: rates over time and curves with error bars, with axes, as plain lines of text.

plotext keeps one global figure, so this runs on the event loop's thread only. It is imported at the first chart, since
importing it costs 0.12 s. Colourless output is asked for and coloured by glyph afterwards: parsing plotext's escapes
costs three times the drawing. The series differ by glyph, so the chart reads without colour. Curves that cross cannot
be told apart by glyph in between their points: there the colour that plotext was given is read back as a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labconsole.text.cells import count

OFFERED_MARK = "="
"""Offered: a sparse row of marks, the mean of the samples under each; measured, a line of dots, shows between them."""

MARK_EVERY_CELLS = 3


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Two rates over the same seconds."""

    seconds: Sequence[float]
    offered_pps: Sequence[float]
    measured_pps: Sequence[float]


def is_offered_mark(char: str) -> bool:
    """True for a cell of the offered series."""
    return char == OFFERED_MARK


def is_measured_mark(char: str) -> bool:
    """True for a cell of the measured series (a braille pattern)."""
    return "\u2801" <= char <= "\u28ff"


def _thin_out(xs: list[float], ys: list[float], groups: int) -> tuple[list[float], list[float]]:
    size = max(1, math.ceil(len(xs) / max(1, groups)))
    parts = [(xs[i : i + size], ys[i : i + size]) for i in range(0, len(xs), size)]
    return [sum(px) / len(px) for px, _ in parts], [sum(py) / len(py) for _, py in parts]


def _scale(largest: float) -> tuple[float, int]:
    """The axis' end, a round number not far above the largest value, and into how many round parts it divides."""
    if largest <= 0:
        return 1.0, 1
    power = 10.0 ** math.floor(math.log10(largest))
    ends = ((1, 5), (1.5, 3), (2, 4), (2.5, 5), (3, 3), (4, 4), (5, 5), (6, 3), (8, 4), (10, 5))
    return next((end * power, parts) for end, parts in ends if end * power >= largest * 1.02 or end == 10)


def _time_step(at_least_s: float) -> float:
    power = 10.0 ** math.floor(math.log10(at_least_s))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= at_least_s * (1 - 1e-9))


def draw_rates(series: RateSeries, width: int, height: int, *, span_s: float | None = None) -> list[str]:
    """Exactly ``height`` lines of at most ``width`` cells. ``span_s`` fixes the time axis to a trial's length."""
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear.all()
    figure.plot_size(width, height)
    figure.theme("colorless")
    points = [
        (s, o, m)
        for s, o, m in zip(series.seconds, series.offered_pps, series.measured_pps, strict=False)
        if all(math.isfinite(v) for v in (s, o, m))
    ]
    if not points:
        return [""] * height
    xs, offered, measured = ([p[i] for p in points] for i in range(3))
    top, y_steps = _scale(max(*offered, *measured))
    left = 0.0 if span_s is not None or xs[0] < xs[-1] / 10 else xs[0]
    right = max(xs[-1], left + 1.0, span_s or 0.0)
    figure.draw(figure.signal(xs, measured, marker="braille").lines(True))
    shown_cells = max(1.0, (width - 12) * (xs[-1] - xs[0]) / (right - left))
    mark_x, mark_y = _thin_out(xs, offered, math.ceil(shown_cells / MARK_EVERY_CELLS))
    figure.draw(figure.signal(mark_x, mark_y, marker=OFFERED_MARK))
    figure.ruler("y").lim(0, top)
    if height < 12:
        y_steps = 2 if y_steps % 2 == 0 else 1
    y_ticks = [top * i / y_steps for i in range(y_steps + 1)]
    figure.ruler("y").ticks(y_ticks, [count(tick) for tick in y_ticks])
    figure.ruler("x").lim(left, right)
    step = _time_step((right - left) / max(2, width // 12))
    x_ticks = [i * step for i in range(math.ceil(left / step), math.floor(right / step) + 1)]
    figure.ruler("x").ticks(x_ticks, [f"{tick:g}" for tick in x_ticks])
    drawn: str = figure.build().string(colorless=True)
    lines = drawn.splitlines()[:height]
    return lines + [""] * (height - len(lines))


MARKERS = "●▲■◆○△□◇★✚"
"""One per curve, told apart without colour; after ten curves letters follow."""

_IDEAL = -1
_FIRST_COLOUR = 16
"""Curve n is drawn in colour n + 16 of the 256: never seen, only read back."""
_SGR = re.compile("\x1b\\[([0-9;]*)m")


@dataclass(frozen=True, slots=True)
class CurvePointMark:
    """A point with the interval of its mean, None where there is none."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveAxes:
    """``x_ticks``: where x is a factor, its values. ``ideal``: draw the line on which y is x."""

    x_ticks: Sequence[float] = ()
    x_words: Callable[[float], str] = str
    y_words: Callable[[float], str] = str
    ideal: bool = False


CurveRow = list[tuple[str, int | None]]
"""A line of text in parts, each with the number of its curve or None for axes and blanks."""


def marker(index: int) -> str:
    """The glyph of a curve's points."""
    return MARKERS[index] if index < len(MARKERS) else chr(ord("a") + (index - len(MARKERS)) % 26)


def draw_curves(curves: Sequence[Sequence[CurvePointMark]], axes: CurveAxes, width: int, height: int) -> list[CurveRow]:
    """Exactly ``height`` lines of at most ``width`` cells, both axes from zero unless x is a factor."""
    points = [point for curve in curves for point in curve]
    if not points or width < 20 or height < 5:
        return [[] for _ in range(height)]
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear.all()
    figure.plot_size(width, height)
    figure.theme("colorless")
    top, y_steps = _scale(max(max(p.y, p.high or p.y) for p in points))
    bottom = min(0.0, *(min(p.y, p.low if p.low is not None else p.y) for p in points))
    left, right, x_ticks = _x_axis(points, axes, width)

    def draw(xs: list[float], ys: list[float], glyph: str, number: int, *, joined: bool) -> None:
        signal = figure.signal(xs, ys, marker=plotext.marker(glyph, _FIRST_COLOUR + number))
        figure.draw(signal.lines(True) if joined and len(xs) > 1 else signal)

    if axes.ideal:
        end = min(right, top)
        steps = max(2, width // 3)
        draw([end * i / steps for i in range(steps + 1)], [end * i / steps for i in range(steps + 1)], "·", _IDEAL,
             joined=False)  # fmt: skip
    for number, curve in enumerate(curves):
        draw([p.x for p in curve], [p.y for p in curve], "braille", number, joined=True)
    for number, curve in enumerate(curves):
        for p in curve:
            if p.low is not None and p.high is not None:
                draw([p.x, p.x], [p.low, p.high], "│", number, joined=True)
    for number, curve in enumerate(curves):
        draw([p.x for p in curve], [p.y for p in curve], marker(number), number, joined=False)
    figure.ruler("y").lim(bottom, top)
    if height < 12:
        y_steps = 2 if y_steps % 2 == 0 else 1
    y_ticks = [top * i / y_steps for i in range(y_steps + 1)]
    figure.ruler("y").ticks(y_ticks, [axes.y_words(tick) for tick in y_ticks])
    figure.ruler("x").lim(left, right)
    figure.ruler("x").ticks(x_ticks, [axes.x_words(tick) for tick in x_ticks])
    rows = [_numbered(line) for line in figure.build().string().splitlines()[:height]]
    return rows + [[] for _ in range(height - len(rows))]


FILLS = "█▒▚░▓▞▤▥▦▧"
"""One per row of bars, told apart without colour."""


def draw_bars(
    series: Sequence[Sequence[CurvePointMark]], names: Sequence[str], axes: CurveAxes, width: int, height: int
) -> list[CurveRow]:
    """Bars in groups: ``x`` of a mark is the place of its group's name. Lines as ``draw_curves`` gives them."""
    marks = [mark for row in series for mark in row]
    if not marks or width < 20 or height < 5:
        return [[] for _ in range(height)]
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear.all()
    figure.plot_size(width, height)
    figure.theme("colorless")
    top, y_steps = _scale(max(max(mark.y, mark.high or mark.y) for mark in marks))
    left, right = -0.5, len(names) - 0.5
    cell = (right - left) / max(1, width - 12)
    wide = 0.84 / len(series)

    def stroke(x: float, low: float, high: float, glyph: str, number: int) -> None:
        drawn = figure.signal([x, x], [low, high], marker=plotext.marker(glyph, _FIRST_COLOUR + number))
        figure.draw(drawn.lines(True))

    for number, row in enumerate(series):
        glyph = FILLS[number % len(FILLS)]
        for mark in row:
            begin = mark.x - 0.42 + number * wide
            for step in range(max(1, round(wide * 0.8 / cell * 2))):  # half a cell at a time: no column is missed
                stroke(begin + step * cell / 2, 0.0, mark.y, glyph, number)
            if mark.low is not None and mark.high is not None:
                stroke(begin + wide * 0.4, max(0.0, mark.low), mark.high, "┃", number)
    figure.ruler("y").lim(0.0, top)
    y_ticks = [top * i / y_steps for i in range(y_steps + 1)]
    figure.ruler("y").ticks(y_ticks, [axes.y_words(tick) for tick in y_ticks])
    figure.ruler("x").lim(left, right)
    room = max(3, (width - 12) // len(names) - 1)
    figure.ruler("x").ticks(list(range(len(names))), [name[:room] for name in names])
    rows = [_numbered(line) for line in figure.build().string().splitlines()[:height]]
    return rows + [[] for _ in range(height - len(rows))]


def _x_axis(points: Sequence[CurvePointMark], axes: CurveAxes, width: int) -> tuple[float, float, list[float]]:
    """(left, right, ticks): a factor's own values with some room beside them, else round numbers from zero."""
    if axes.x_ticks:
        ticks = sorted(set(axes.x_ticks))
        room = (ticks[-1] - ticks[0]) * 0.04 or 0.5
        fewest = max(1, math.ceil(len(ticks) * 9 / max(1, width - 10)))
        return ticks[0] - room, ticks[-1] + room, ticks[::fewest]
    right, steps = _scale(max(p.x for p in points))
    return 0.0, right, [right * i / steps for i in range(steps + 1)]


def _numbered(line: str) -> CurveRow:
    """A line of plotext's with its colours turned into numbers of curves."""
    row: CurveRow = []
    number: int | None = None
    start = 0
    for match in _SGR.finditer(line):
        if match.start() > start:
            row.append((line[start : match.start()], number))
        start = match.end()
        codes = match[1].split(";")
        known = codes[:2] == ["38", "5"] and len(codes) == 3
        number = int(codes[2]) - _FIRST_COLOUR if known else None
        number = None if number == _IDEAL else number
    if start < len(line):
        row.append((line[start:], number))
    return row
