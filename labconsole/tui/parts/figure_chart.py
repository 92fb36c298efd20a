"""A panel of a report's figure with its legend: the same picture that `labconsole report` draws in a terminal."""

from __future__ import annotations

from textual.strip import Strip

from labconsole.contracts.report import Figure
from labconsole.report.panels import (
    build_legend_names,
    collect_labels,
    describe_marks,
    draw_panel,
    format_panel_heading,
    glyph,
)
from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Span, Tones

TONES = ("accent", "warn", "good", "second", "bad", "strong")
"""Tones of the first curves, repeated for later ones, which differ by their glyphs."""

LABEL_CELLS = 28
"""Width of a name in a legend that would otherwise be too long."""

LEAST_ROWS = 8
"""Minimum rows of the picture itself. A legend that would leave less is cut, and shows by how much."""


def curve_tone(index: int) -> str:
    """The tone of a curve."""
    return TONES[index % len(TONES)]


class FigureChart(Tones):
    """``show`` takes a figure and the index of a panel, or a sentence why there is none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: tuple[Figure, int] | None = None
        self._sentence = ""
        self._rows: list[list[Span]] = []

    def show(self, shown: tuple[Figure, int] | None, sentence: str = "") -> None:
        """Draw a panel or a sentence."""
        self._shown, self._sentence = shown, sentence
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or not height:
            return
        if self._shown is None:
            self._rows = [[], [(f"  {safe(self._sentence, width - 2)}", "muted")]]
        else:
            figure, place = self._shown
            panel, labels = figure.panels[place], collect_labels(figure)
            heading = [(safe(f"  {format_panel_heading(figure, panel)}", width), "")]
            drawn = [place for place, label in enumerate(labels) if any(c.label == label for c in panel.curves)]
            rows = [heading, *_legend(figure, labels, drawn, width, max(1, height - 1 - LEAST_ROWS))]
            for row in draw_panel(figure, panel, labels, width, height - len(rows)):
                rows.append([(text, "muted" if number is None else curve_tone(number)) for text, number in row])
            self._rows = rows
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.build_strip(self._rows[y] if y < len(self._rows) else [], self.size.width)


def _legend(figure: Figure, labels: list[str], drawn: list[int], width: int, most_rows: int) -> list[list[Span]]:
    """Build the legend: glyph and name of every drawn curve, in as few lines as possible.

    Names are in full if that leaves room for the picture, and otherwise shortened. Curves without room are counted.
    """
    own = [labels[number] for number in drawn]
    for names in (own, build_legend_names(own, LABEL_CELLS)):
        named = [
            (each, f"{glyph(figure, each)} {safe(name, width - 4)}") for each, name in zip(drawn, names, strict=True)
        ]
        rows, left_out = _legend_rows(named, width, most_rows)
        if not left_out:
            break
    others = describe_marks(figure)
    if others and not left_out and sum(len(text) for text, _ in rows[-1]) + len(others) <= width:
        rows[-1].append((others, "muted"))
    return rows


def _legend_rows(named: list[tuple[int, str]], width: int, most_rows: int) -> tuple[list[list[Span]], int]:
    """Return the lines, and how many curves are not named in them."""
    rows: list[list[Span]] = [[("  ", "")]]
    used = 2
    for place, (number, text) in enumerate(named):
        if used + len(text) + 3 > width and used > 2:
            if len(rows) == most_rows:
                rows[-1][-1] = (f" … {len(named) - place} more", "muted")
                return rows, len(named) - place
            rows.append([("  ", "")])
            used = 2
        rows[-1] += [(text, curve_tone(number)), ("   ", "")]
        used += len(text) + 3
    return rows, 0
