"""Panels of several streams on one scale, in a grid of as many as fit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from labconsole.text.cells import safe
from labconsole.text.rate_panel import GAP, Cells, RateSeries, draw_panels

LEAST_ACROSS = 15
"""Minimum width of a readable panel, in cells."""

LABEL_CELLS = 8

GOOD_ROWS = 7
"""A title, three rows of rates, two of loss, one of seconds. Panels are lower only if no panel would fit otherwise."""

NamedSeries = tuple[str, RateSeries]


def fit_grid(width: int, height: int, count: int) -> tuple[int, int]:
    """Return (panels in a row, rows of panels) for as many of ``count`` as fit, each with a title above it."""
    most_across = max(1, (width - LABEL_CELLS + GAP) // (LEAST_ACROSS + GAP))
    most_rows = max(1, height // GOOD_ROWS)
    rows = min(most_rows, max(1, -(-count // most_across)))
    return min(most_across, -(-count // rows)), rows


def draw_grid(
    streams: Sequence[NamedSeries], chosen: int, width: int, height: int, *, span_s: float | None
) -> tuple[list[Cells], int]:
    """Draw at most ``height`` lines. Returns also how many streams did not fit.

    Shows the page that contains the ``chosen`` stream, which is marked ▸.
    """
    across, rows = fit_grid(width, height, len(streams))
    page = across * rows
    begin = chosen // page * page
    shown = range(begin, min(begin + page, len(streams)))
    each = height // rows
    panels = draw_panels([series for _, series in streams], shown, width, each - 1, across=across, span_s=span_s)
    lines: list[Cells] = []
    for first in range(0, len(shown), across):
        row_panels = panels[first : first + across]
        titles = [("▸ " if number == chosen else "  ") + streams[number][0] for number in shown[first : first + across]]
        lines.append(_titles(titles, [sum(cell_len(text) for text, _ in panel[0]) for panel in row_panels]))
        lines += [_join_columns(parts) for parts in zip(*row_panels, strict=True)]
    return lines, len(streams) - len(shown)


def _titles(titles: Sequence[str], widths: Sequence[int]) -> Cells:
    """Return a title above the plot of each panel. The first panel has the labels on its left."""
    labels = widths[0] - widths[-1]
    rooms = [widths[0] - labels, *widths[1:]]
    texts = [safe(title, room) for title, room in zip(titles, rooms, strict=True)]
    padded = [word + " " * (room - cell_len(word)) for word, room in zip(texts, rooms, strict=True)]
    return [(" " * labels + (" " * GAP).join(padded), "title")]


def _join_columns(parts: Sequence[Cells]) -> Cells:
    line: Cells = []
    for place, part in enumerate(parts):
        if place:
            line.append((" " * GAP, ""))
        line += part
    return line
