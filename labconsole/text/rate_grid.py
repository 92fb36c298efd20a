"""Several streams' panels on one scale: as many as there is room for, beside and beneath each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from labconsole.text.cells import safe
from labconsole.text.rate_panel import GAP, Cells, RateSeries, draw_panels

LEAST_ACROSS = 15
"""Cells of a panel that is not too narrow to be read."""

LABEL_CELLS = 8

GOOD_ROWS = 7
"""A title, three rows of rates, two of loss, one of seconds: panels are drawn lower only where none would fit else."""

NamedSeries = tuple[str, RateSeries]


def fit_grid(width: int, height: int, count: int) -> tuple[int, int]:
    """(panels in a row, rows of panels) for as many of ``count`` as there is room for; each has a title above it."""
    most_across = max(1, (width - LABEL_CELLS + GAP) // (LEAST_ACROSS + GAP))
    most_rows = max(1, height // GOOD_ROWS)
    rows = min(most_rows, max(1, -(-count // most_across)))
    return min(most_across, -(-count // rows)), rows


def draw_grid(
    streams: Sequence[NamedSeries], chosen: int, width: int, height: int, *, span_s: float | None
) -> tuple[list[Cells], int]:
    """At most ``height`` lines, and how many streams found no room. Shown is the page of the ``chosen`` one, with ▸."""
    across, rows = fit_grid(width, height, len(streams))
    page = across * rows
    begin = chosen // page * page
    shown = range(begin, min(begin + page, len(streams)))
    each = height // rows
    panels = draw_panels([series for _, series in streams], shown, width, each - 1, across=across, span_s=span_s)
    lines: list[Cells] = []
    for first in range(0, len(shown), across):
        beside = panels[first : first + across]
        titles = [("▸ " if number == chosen else "  ") + streams[number][0] for number in shown[first : first + across]]
        lines.append(_titles(titles, [sum(cell_len(text) for text, _ in panel[0]) for panel in beside]))
        lines += [_join_columns(parts) for parts in zip(*beside, strict=True)]
    return lines, len(streams) - len(shown)


def _titles(titles: Sequence[str], widths: Sequence[int]) -> Cells:
    """A title above the plot of each panel; the first panel's has the labels on its left."""
    labels = widths[0] - widths[-1]
    rooms = [widths[0] - labels, *widths[1:]]
    words = [safe(title, room) for title, room in zip(titles, rooms, strict=True)]
    padded = [word + " " * (room - cell_len(word)) for word, room in zip(words, rooms, strict=True)]
    return [(" " * labels + (" " * GAP).join(padded), "title")]


def _join_columns(parts: Sequence[Cells]) -> Cells:
    line: Cells = []
    for place, part in enumerate(parts):
        if place:
            line.append((" " * GAP, ""))
        line += part
    return line
