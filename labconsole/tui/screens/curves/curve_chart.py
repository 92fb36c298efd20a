"""Curves with error bars and a legend above them. The picture is drawn again only if curves or size change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from labconsole.report.panels import build_legend_names
from labconsole.text import charts
from labconsole.text.cells import safe
from labconsole.text.sanitize import sanitize
from labconsole.tui.parts.figure_chart import curve_tone
from labconsole.tui.parts.lines import Span, Tones, field

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
