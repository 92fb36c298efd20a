"""Curves with error bars and a legend above them, and the options of their view."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape

from rich.cells import cell_len
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from labconsole.measure.curves import X_FACTORS, Curve, CurvePoint, Curves
from labconsole.report.panels import build_legend_names
from labconsole.text import charts
from labconsole.text.cells import safe
from labconsole.text.sanitize import sanitize
from labconsole.tui.parts.charts import curve_tone
from labconsole.tui.parts.lines import Span, Tones, field

# -- curve chart -------------------------------------------------------------------------------------------------------
# Curves with error bars and a legend above them. The picture is drawn again only if curves or size change.

MOST_CURVES = 12
LABEL_CELLS = 28
"""Width of a curve's name that would otherwise leave no room for the others."""

SVG_CELLS, SVG_ROWS = 110, 34
"""Minimum size of an exported picture, whatever the terminal's size."""

FONT_PX, CELL_PX, ROW_PX, MARGIN_PX = 14, 8.43, 17.0, 12.0
"""Metrics of an SVG: DejaVu Sans Mono's advance at this size. In other fonts, text is stretched to its cells."""

_RUNS = re.compile("[\u2800-\u28ff]|[!-~\u2500-\u259f]+|[^ ]")
"""Runs drawn at once: braille as dots, text of one width together, every other character in its own cell."""


@dataclass(frozen=True, slots=True)
class CurvePicture:
    """The picture to draw: curves with their labels."""

    labels: tuple[str, ...]
    curves: tuple[tuple[charts.CurvePointMark, ...], ...]
    axes: charts.CurveAxes

    def other_glyphs(self) -> str:
        """Other things drawn, with their glyphs."""
        parts = ["· no loss"] if self.axes.ideal else []
        if any(point.low is not None for curve in self.curves for point in curve):
            parts.append("│ interval")
        return "   ".join(parts)


class CurveChart(Tones):
    """``show`` takes a picture, or a sentence why there is none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._picture: CurvePicture | None = None
        self._sentence = ""
        self._rows: list[list[Span]] = []
        self._drawn: tuple[object, int, int] | None = None

    def show(self, picture: CurvePicture | None, sentence: str = "") -> None:
        """Draw a picture or a sentence."""
        self._picture, self._sentence, self._drawn = picture, sentence, None
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or not height or self._drawn == (self._picture, width, height):
            return
        self._drawn = (self._picture, width, height)
        if self._picture is None or not self._picture.curves:
            self._rows = [[], *field("", self._sentence, width, "muted", label_cells=0, margin="  ")]
        else:
            self._rows = chart_rows(self._picture, width, height)
        self.refresh()

    @property
    def drawn(self) -> bool:
        """Whether there is a picture, and not a sentence why there is none."""
        return self._picture is not None and bool(self._picture.curves)

    def svg(self, title: str) -> str:
        """The picture as an SVG document in the colours of the theme, or without colours if NO_COLOR is set."""
        assert self._picture is not None
        width, height = max(SVG_CELLS, self.size.width), max(SVG_ROWS, self.size.height)
        _, _, paper, ink = self.colors
        plain = self.app.no_color

        def look(tone: str) -> Style:
            style = self.tone(tone)
            return Style(bold=style.bold) if plain else style

        rows = [[(title, "strong")], [], *chart_rows(self._picture, width, height)]
        while not rows[-1]:
            rows.pop()
        colours = (Color.parse("#000000"), Color.parse("#ffffff")) if plain else (ink, paper)
        return svg_document(rows, look, title, *colours)

    def render_line(self, y: int) -> Strip:
        return self.build_strip(self._rows[y] if y < len(self._rows) else [], self.size.width)


def chart_rows(picture: CurvePicture, width: int, height: int) -> list[list[Span]]:
    """The legend and the picture below it."""
    for others in (picture.other_glyphs(), f"{charts.SHARED} several   {picture.other_glyphs()}"):
        legend = legend_rows(picture.labels, width, 3 if height >= 16 else 2 if height >= 12 else 1)
        if sum(cell_len(text) for text, _ in legend[-1]) + cell_len(others) > width:
            legend.append([("  ", "")])
        legend[-1].append((others, "muted"))
        lines = charts.draw_curves(picture.curves[:MOST_CURVES], picture.axes, width, height - len(legend))
        if not any(charts.SHARED in text for line in lines for text, _ in line):
            break
    return legend + [
        [(text, "muted" if number is None else curve_tone(number)) for text, number in line] for line in lines
    ]


def legend_rows(labels: Sequence[str], width: int, most_rows: int) -> list[list[Span]]:
    """Build the legend: glyph and name of every curve, in as few lines as possible.

    Names are in full if there is room, and otherwise shortened so that no two look the same. Curves without room are
    counted.
    """
    drawn = [sanitize(label) for label in labels[:MOST_CURVES]]
    for names in (drawn, build_legend_names(drawn, LABEL_CELLS)):
        rows, left_out = _legend_rows([safe(name, max(1, width - 6)) for name in names], width, most_rows)
        if not left_out:
            break
    if len(labels) > MOST_CURVES and not left_out:
        rows[-1].append((f"… {len(labels) - MOST_CURVES} not drawn", "muted"))
    return rows


def _legend_rows(names: Sequence[str], width: int, most_rows: int) -> tuple[list[list[Span]], int]:
    """Return the lines, and how many curves are not named in them."""
    rows: list[list[Span]] = [[("  ", "")]]
    used = 2
    for index, name in enumerate(names):
        text = f"{charts.marker(index)} {name}"
        rest = len(names) - index
        tail = f"… {rest} more below"
        if used + cell_len(text) + 3 + (len(tail) if rest > 1 and len(rows) == most_rows else 0) > width:
            if len(rows) == most_rows:
                rows[-1].append((tail, "muted"))
                return rows, rest
            rows.append([("  ", "")])
            used = 2
        rows[-1] += [(text, curve_tone(index)), ("   ", "")]
        used += cell_len(text) + 3
    return rows, 0


def svg_document(
    rows: Sequence[Sequence[Span]], look: Callable[[str], Style], title: str, ink: Color, paper: Color
) -> str:
    """Turn lines of spans into an SVG document that needs no font, no script and no other file."""
    shapes = []
    for number, row in enumerate(rows):
        column = 0
        for text, tone in row:
            style = look(tone)
            colour = style.color.get_truecolor().hex if style.color is not None else ink.hex6
            shapes += _shapes(sanitize(text), column, number, f'fill="{colour}"', bold=bool(style.bold))
            column += cell_len(text)
    cells = max((sum(cell_len(text) for text, _ in row) for row in rows), default=1)
    wide, high = 2 * MARGIN_PX + cells * CELL_PX, 2 * MARGIN_PX + len(rows) * ROW_PX
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
            f'viewBox="0 0 {wide:.2f} {high:.2f}">',
            f"<title>{escape(sanitize(title))}</title>",
            f'<rect width="100%" height="100%" fill="{paper.hex6}"/>',
            f'<g font-family="\'DejaVu Sans Mono\', monospace" font-size="{FONT_PX}">',
            *shapes,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _shapes(text: str, column: int, row: int, fill: str, *, bold: bool) -> list[str]:
    shapes = []
    top = MARGIN_PX + row * ROW_PX
    for run in _RUNS.finditer(text):
        left = MARGIN_PX + (column + cell_len(text[: run.start()])) * CELL_PX
        if "\u2800" <= run[0] <= "\u28ff":
            shapes.append(f'<path {fill} d="{"".join(_dots(ord(run[0]) - 0x2800, left, top))}"/>')
            continue
        stretch = f' textLength="{cell_len(run[0]) * CELL_PX:.2f}"' if len(run[0]) > 1 else ""
        weight = ' font-weight="bold"' if bold else ""
        shapes.append(
            f'<text x="{left:.2f}" y="{top + ROW_PX * 0.77:.2f}" {fill}{weight}{stretch}>{escape(run[0])}</text>'
        )
    return shapes


def _dots(bits: int, left: float, top: float) -> list[str]:
    """Draw the dots of a braille cell, equally spaced with those of the cells around it."""
    places = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
    return [
        f"M{left + (x + 0.5) * CELL_PX / 2 - 0.9:.2f} {top + (y + 0.5) * ROW_PX / 4 - 0.9:.2f}h1.8v1.8h-1.8z"
        for bit, (x, y) in enumerate(places)
        if bits >> bit & 1
    ]


# -- view options ------------------------------------------------------------------------------------------------------
# View of the curves: logarithmic axes, a single curve, a part of x; and what is drawn then.

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
