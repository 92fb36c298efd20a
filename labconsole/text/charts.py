"""Charts as plain lines of text: curves with error bars, and bars, with axes. The only module that imports plotext.

plotext keeps one global figure, so this runs on the event loop's thread only. It is imported at the first chart, since
importing it costs 0.12 s. Its output is requested without colour and coloured by glyph afterwards: parsing plotext's
escapes costs three times the drawing. Each series has its own glyph, so the chart reads without colour. Where curves
cross, glyphs do not identify them between their points. There the colour that plotext was given is read back as a
number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.text.axis import (
    MOST_CURVES,
    MOST_POINTS,
    Undrawable,
    check_count,
    check_numbers,
    check_span,
    fit_axis,
    fit_upright,
)
from labconsole.text.cells import wrap_text
from labconsole.text.sanitize import sanitize

BEYOND_RATIO = 0.1
"""Share of an axis by which values may exceed its ends: fit_axis ends a little below the highest."""

FRAME_ROWS, FRAME_CELLS = 3, 2
"""Size of plotext's frame around the plot: a line above, a line and the labels below; a line on either side."""

UPRIGHT = "┊"
"""Glyph of a vertical line. No interval uses it."""

SHARED = "⊕"
"""Glyph for a cell that contains points of several curves."""

ACROSS = "┄"
"""Glyph of a horizontal line."""

MARKERS = "●▲■◆○△□◇★✚"
"""One glyph per curve, distinct without colour. Letters follow after ten curves."""

_IDEAL = -1
_FIRST_COLOUR = 16
"""Curve n is drawn in colour n + 16 of the 256. The colour is never shown, only read back."""
_SGR = re.compile("\x1b\\[([0-9;]*)m")


@dataclass(frozen=True, slots=True)
class CurvePointMark:
    """A point with the interval of its mean, or None if there is no interval."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveAxes:
    """What to draw on the axes.

    ``x_ticks``: the values of x, if x is a factor. ``ideal``: draw the line y = x. ``shared``: mark a cell that
    contains points of several curves with SHARED. ``joined``: draw a line through the points of a curve.

    ``y_least_step``: minimum distance of two ticks, such as 1 if y are decades, whose halves are no round numbers.
    ``moments``: x values of events, each a vertical line, with a label above it if there is room. ``levels``: y values
    of horizontal lines. Moments and levels outside the axes are not drawn: the axes end at the points and at ``y_top``.
    ``x_right``: minimum right end of x, unless x is a factor.
    """

    x_ticks: Sequence[float] = ()
    x_words: Callable[[float], str] = str
    y_words: Callable[[float], str] = str
    ideal: bool = False
    y_least_step: float = 0.0
    moments: Sequence[tuple[float, str]] = ()
    levels: Sequence[float] = ()
    y_top: float = -math.inf
    x_right: float = 0.0
    shared: bool = False
    joined: bool = True


CurveRow = list[tuple[str, int | None]]
"""A line of text in parts, each with the number of its curve, or None for axes and blanks."""


def clear_figure(width: int, height: int) -> Any:
    """Return plotext's only figure, empty and of this size."""
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear.all()
    figure.plot_size(width, height)
    figure.theme("colorless")
    return figure


def numbered_marker(glyph: str, number: int) -> Any:
    """Return plotext's marker of a glyph, of a text that begins there, or of ``braille``, in a number's colour."""
    import plotext

    return plotext.marker(glyph).fill(_FIRST_COLOUR + number)


def build_rows(figure: Any) -> list[CurveRow]:
    """Return the lines of a figure, its colours turned into numbers."""
    return [_numbered(line) for line in figure.build().string().splitlines()]


def marker(index: int) -> str:
    """The glyph of a curve's points."""
    return MARKERS[index] if index < len(MARKERS) else chr(ord("a") + (index - len(MARKERS)) % 26)


def sentence_rows(sentence: str, width: int, height: int) -> list[CurveRow]:
    """Return exactly ``height`` lines with a sentence in place of a chart."""
    lines = wrap_text(sanitize(sentence), max(10, width - 4))[: max(0, height - 1)]
    rows: list[CurveRow] = [[]]
    rows += [[(f"  {line}", None)] for line in lines]
    return rows[:height] + [[] for _ in range(height - len(rows))]


def check_chart(curves: Sequence[Sequence[CurvePointMark]], axes: CurveAxes) -> None:
    """Raises Undrawable naming the first value that no chart can show.

    Values are those of the axes: decades on a logarithmic axis.
    """
    check_count(curves, "curves", MOST_CURVES)
    if sum(map(len, curves)) > MOST_POINTS:
        raise Undrawable(f"{sum(map(len, curves))} points; allowed: up to {MOST_POINTS}")
    for number, curve in enumerate(curves, 1):
        check_numbers([point.x for point in curve], f"curve {number}: x of point")
        check_numbers([point.y for point in curve], f"curve {number}: y of point")
        ends = [end for point in curve for end in (point.low, point.high) if end is not None]
        check_numbers(ends, f"curve {number}: interval's end")
    points = [point for curve in curves for point in curve]
    check_span((point.x for point in points), "x")
    if not axes.x_ticks and min((point.x for point in points), default=0.0) < 0:
        raise Undrawable("an x is below 0; allowed: 0 or more, where the axis begins")
    check_span((end for p in points for end in (p.y, p.low or 0.0, p.high or 0.0)), "y")
    check_count(axes.x_ticks, "x_ticks", MOST_POINTS)
    check_count(axes.moments, "moments", MOST_CURVES)
    check_count(axes.levels, "levels", MOST_CURVES)
    for what, values in (
        ("a tick", axes.x_ticks),
        ("a moment", [at for at, _ in axes.moments]),
        ("a level", axes.levels),
        ("x_right", [axes.x_right]),
        ("y_top", [axes.y_top] if axes.y_top != -math.inf else []),
    ):
        check_numbers(values, what)


def require_within_axis(values: Sequence[float], low: float, high: float) -> None:
    """Raises Undrawable for a value outside an axis: plotext raises no error for it."""
    slack = (high - low) * BEYOND_RATIO
    if not all(low - slack <= value <= high + slack for value in values):
        raise Undrawable(f"a value is beyond its axis, which goes from {low:g} to {high:g}")


def draw_curves(curves: Sequence[Sequence[CurvePointMark]], axes: CurveAxes, width: int, height: int) -> list[CurveRow]:
    """Draw curves in exactly ``height`` lines of at most ``width`` cells, or a sentence if a value cannot be drawn.

    Both axes start at zero, unless x is a factor.
    """
    try:
        check_chart(curves, axes)
        return _curve_rows(curves, axes, width, height)
    except Undrawable as exc:
        return sentence_rows(f"not drawn: {exc}", width, height)


def _curve_rows(curves: Sequence[Sequence[CurvePointMark]], axes: CurveAxes, width: int, height: int) -> list[CurveRow]:
    points = [point for curve in curves for point in curve]
    if not points or width < 20 or height < 5:
        return [[] for _ in range(height)]
    y_axis = fit_upright(
        min(0.0, *(min(p.y, p.low if p.low is not None else p.y) for p in points)),
        max(axes.y_top, *(max(p.y, p.high or p.y) for p in points)),
        height - FRAME_ROWS,
        least_step=axes.y_least_step,
    )
    y_labels = [axes.y_words(tick) for _, tick in y_axis.ticks()]
    left, right, x_ticks, wide = _x_axis(points, axes, width - max(map(len, y_labels)) - FRAME_CELLS)
    figure = clear_figure(wide + max(map(len, y_labels)) + FRAME_CELLS, y_axis.cells + FRAME_ROWS)

    def draw(xs: list[float], ys: list[float], glyph: str, number: int, joined: Iterable[int] = ()) -> None:
        """``joined``: the points to which a line leads from the one before."""
        require_within_axis(xs, left, right)
        require_within_axis(ys, y_axis.low, y_axis.high)
        signal = figure.signal(xs, ys, marker=numbered_marker(glyph, number))
        for place in joined:
            signal.line(place)
        figure.draw(signal.density("full"))

    for level in axes.levels:
        if y_axis.low <= level <= y_axis.high:
            steps = max(2, wide)
            across = [left + (right - left) * i / steps for i in range(steps + 1)]
            draw(across, [level] * len(across), ACROSS, _IDEAL)
    for second, _ in axes.moments:
        if left <= second <= right:
            draw([second, second], [y_axis.low, y_axis.high], UPRIGHT, _IDEAL, [1])
    if axes.ideal:
        end = min(right, y_axis.high)
        steps = max(2, width // 3)
        diagonal = [end * i / steps for i in range(steps + 1)]
        draw(diagonal, diagonal, "·", _IDEAL)
    for number, curve in enumerate(curves):
        if axes.joined:
            draw([p.x for p in curve], [p.y for p in curve], "braille", number, range(1, len(curve)))
    for number, curve in enumerate(curves):
        ends = [(p.x, end) for p in curve if p.low is not None and p.high is not None for end in (p.low, p.high)]
        draw([x for x, _ in ends], [y for _, y in ends], "│", number, range(1, len(ends), 2))
    for number, curve in enumerate(curves):
        draw([p.x for p in curve], [p.y for p in curve], marker(number), number)
    if axes.shared:
        shared = _shared(curves, (left, right, wide), (y_axis.low, y_axis.high, y_axis.cells))
        draw([x for x, _ in shared], [y for _, y in shared], SHARED, _IDEAL)
    figure.ruler("y").lim(y_axis.low, y_axis.high)
    figure.ruler("y").ticks([tick for _, tick in y_axis.ticks()], y_labels)
    figure.ruler("x").lim(left, right)
    figure.ruler("x").ticks(x_ticks, [axes.x_words(tick) for tick in x_ticks])
    rows = build_rows(figure)[:height]
    begin = max(map(len, y_labels)) + 1
    if places := [
        (begin + round((at - left) / (right - left) * (wide - 1)), label)
        for at, label in axes.moments
        if left <= at <= right
    ]:
        rows[0] = [(_insert_labels("".join(text for text, _ in rows[0]), places), None)]
    return rows + [[] for _ in range(height - len(rows))]


def _shared(
    curves: Sequence[Sequence[CurvePointMark]], across: tuple[float, float, int], up: tuple[float, float, int]
) -> list[tuple[float, float]]:
    """Return one point for each cell that contains points of several curves."""

    def cell(value: float, axis: tuple[float, float, int]) -> int:
        low, high, cells = axis
        return round((value - low) / (high - low) * (cells - 1))

    found: dict[tuple[int, int], dict[int, tuple[float, float]]] = {}
    for number, curve in enumerate(curves):
        for point in curve:
            found.setdefault((cell(point.x, across), cell(point.y, up)), {})[number] = (point.x, point.y)
    return [next(iter(of.values())) for of in found.values() if len(of) > 1]


def _insert_labels(line: str, places: Sequence[tuple[int, str]]) -> str:
    """Put labels at these cells of the frame's upper line, as far as each has room before the next."""
    for (place, label), (following, _) in zip(places, [*places[1:], (len(line) - 1, "")], strict=True):
        if place + len(label) < following:
            line = line[:place] + label + line[place + len(label) :]
    return line


FILLS = "█▒▚░▓▞▤▥▦▧"
"""One per row of bars, distinct without colour."""


def draw_bars(
    series: Sequence[Sequence[CurvePointMark]], names: Sequence[str], axes: CurveAxes, width: int, height: int
) -> list[CurveRow]:
    """Draw grouped bars. Returns lines as ``draw_curves`` does.

    ``x`` of a mark is the index of its group's name. A name that is too long for one line wraps.
    """
    try:
        check_chart(series, axes)
        check_count(names, "names", MOST_CURVES)
        return _bar_rows(series, names, axes, width, height)
    except Undrawable as exc:
        return sentence_rows(f"not drawn: {exc}", width, height)


def _bar_rows(
    series: Sequence[Sequence[CurvePointMark]], names: Sequence[str], axes: CurveAxes, width: int, height: int
) -> list[CurveRow]:
    marks = [mark for row in series for mark in row]
    if not marks or not names or width < 20 or height < 5:
        return [[] for _ in range(height)]
    room = max(3, (width - 12) // len(names) - 1)
    labels = [wrap_text(name, room, max_lines=max(1, height // 3), placeholder="…") for name in names]
    label_rows = max(1, *map(len, labels))
    top = max(axes.y_top, *(max(mark.y, mark.high or mark.y) for mark in marks))
    y_axis = fit_upright(0.0, top, height - FRAME_ROWS + 1 - label_rows)
    figure = clear_figure(width, y_axis.cells + FRAME_ROWS)
    left, right = -0.5, len(names) - 0.5
    cell = (right - left) / max(1, width - 12)
    wide = 0.84 / len(series)

    def stroke(x: float, low: float, high: float, glyph: str, number: int) -> None:
        require_within_axis([x], left, right)
        require_within_axis([low, high], 0.0, y_axis.high)
        drawn = figure.signal([x, x], [low, high], marker=numbered_marker(glyph, number))
        figure.draw(drawn.lines(True))

    for level in axes.levels:
        if 0.0 <= level <= y_axis.high:
            across = [left + (right - left) * i / width for i in range(width + 1)]
            figure.draw(figure.signal(across, [level] * len(across), marker=numbered_marker(ACROSS, _IDEAL)))
    for number, row in enumerate(series):
        glyph = FILLS[number % len(FILLS)]
        for mark in row:
            begin = mark.x - 0.42 + number * wide
            for step in range(max(1, round(wide * 0.8 / cell * 2))):  # half a cell at a time: none is missed
                stroke(begin + step * cell / 2, 0.0, max(0.0, mark.y), glyph, number)
            if mark.low is not None and mark.high is not None:
                stroke(begin + wide * 0.4, max(0.0, mark.low), max(0.0, mark.high), "┃", number)
    figure.ruler("y").lim(0.0, y_axis.high)
    y_ticks = [tick for _, tick in y_axis.ticks()]
    y_labels = [axes.y_words(tick) for tick in y_ticks]
    figure.ruler("y").ticks(y_ticks, y_labels)
    figure.ruler("x").lim(left, right)
    figure.ruler("x").ticks(list(range(len(names))), [lines[0] if lines else "" for lines in labels])
    rows = build_rows(figure)[:height]
    if label_rows > 1:
        begin, last = max(map(len, y_labels)) + 1, width - max(map(len, y_labels)) - FRAME_CELLS - 1
        places = [begin + round((number - left) / (right - left) * last) for number in range(len(names))]
        rows[-1:] = [
            [(_centred([lines[row] if row < len(lines) else "" for lines in labels], places, width), None)]
            for row in range(label_rows)
        ]
    return rows + [[] for _ in range(height - len(rows))]


def _centred(labels: Sequence[str], places: Sequence[int], width: int) -> str:
    """Return a line with each text centred on its place."""
    line = " " * width
    for text, place in zip(labels, places, strict=True):
        begin = max(0, min(place - len(text) // 2, width - len(text)))
        line = line[:begin] + text + line[begin + len(text) :]
    return line.rstrip()


def _x_axis(points: Sequence[CurvePointMark], axes: CurveAxes, cells: int) -> tuple[float, float, list[float], int]:
    """(left, right, ticks, cells): a factor's own values with a margin, or else round numbers from zero."""
    if axes.x_ticks:
        ticks = sorted(set(axes.x_ticks))
        room = max((ticks[-1] - ticks[0]) * 0.04, abs(ticks[-1]) * 1e-6) or 0.5
        fewest = max(1, math.ceil(len(ticks) * 9 / max(1, cells)))
        return ticks[0] - room, ticks[-1] + room, ticks[::fewest], cells
    axis = fit_axis(0.0, max(axes.x_right, *(p.x for p in points)), cells, least_cells=10, best_cells=14)
    return axis.low, axis.high, [tick for _, tick in axis.ticks()], axis.cells


def _numbered(line: str) -> CurveRow:
    """Turn the colours of one of plotext's lines into numbers of curves."""
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
