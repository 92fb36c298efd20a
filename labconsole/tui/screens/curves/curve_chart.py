"""Curves with error bars and a legend above them; the picture is made again only when curves or size change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from textual.strip import Strip

from labconsole.text import charts
from labconsole.text.cells import safe
from labconsole.tui.parts.figure_chart import curve_tone
from labconsole.tui.parts.lines import Span, Tones, field

MOST_CURVES = 12


@dataclass(frozen=True, slots=True)
class CurvePicture:
    """What to draw: curves with their labels."""

    labels: tuple[str, ...]
    curves: tuple[tuple[charts.CurvePointMark, ...], ...]
    axes: charts.CurveAxes

    def other_glyphs(self) -> str:
        """What is drawn besides the curves, with its glyph."""
        words = ["· no loss"] if self.axes.ideal else []
        if any(point.low is not None for curve in self.curves for point in curve):
            words.append("│ interval")
        return "   ".join(words)


class CurveChart(Tones):
    """``show`` takes a picture, or a sentence why there is none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._picture: CurvePicture | None = None
        self._words = ""
        self._rows: list[list[Span]] = []
        self._drawn: tuple[object, int, int] | None = None

    def show(self, picture: CurvePicture | None, words: str = "") -> None:
        """Draw this."""
        self._picture, self._words, self._drawn = picture, words, None
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or not height or self._drawn == (self._picture, width, height):
            return
        self._drawn = (self._picture, width, height)
        if self._picture is None or not self._picture.curves:
            self._rows = [[], *field("", self._words, width, "muted", label_cells=0, margin="  ")]
        else:
            legend = legend_rows(self._picture.labels, width, 2 if height >= 12 else 1)
            others = self._picture.other_glyphs()
            if sum(cell_len(text) for text, _ in legend[-1]) + cell_len(others) > width:
                legend.append([("  ", "")])
            legend[-1].append((others, "muted"))
            lines = charts.draw_curves(
                self._picture.curves[:MOST_CURVES], self._picture.axes, width, height - len(legend)
            )
            self._rows = legend + [
                [(text, "muted" if number is None else curve_tone(number)) for text, number in line] for line in lines
            ]
        self.refresh()

    @property
    def drawn(self) -> bool:
        """There is a picture, and not a sentence why there is none."""
        return self._picture is not None and bool(self._picture.curves)

    def svg(self, title: str) -> str:
        """The picture as it is on the screen, as an SVG document."""
        console = Console(width=max(1, self.size.width), record=True, file=StringIO(), color_system="truecolor")
        for row in self._rows:
            console.print(Text.assemble(*((text, self.tone(name)) for text, name in row)), soft_wrap=True)
        return console.export_svg(title=title)

    def render_line(self, y: int) -> Strip:
        return self.strip_of(self._rows[y] if y < len(self._rows) else [], self.size.width)


def legend_rows(labels: Sequence[str], width: int, most_rows: int) -> list[list[Span]]:
    """Glyph and name of every curve, in as few lines as they take; how many found no room is said."""
    rows: list[list[Span]] = [[("  ", "")]]
    used = 2
    for index, label in enumerate(labels[:MOST_CURVES]):
        words = f"{charts.marker(index)} {safe(label, 28)}"
        rest = len(labels) - index
        tail = f"… {rest} more below"
        if used + len(words) + 3 + (len(tail) if rest > 1 and len(rows) == most_rows else 0) > width:
            if len(rows) == most_rows:
                rows[-1].append((tail, "muted"))
                return rows
            rows.append([("  ", "")])
            used = 2
        rows[-1].append((words, curve_tone(index)))
        rows[-1].append(("   ", ""))
        used += len(words) + 3
    if len(labels) > MOST_CURVES:
        rows[-1].append((f"… {len(labels) - MOST_CURVES} not drawn", "muted"))
    return rows
