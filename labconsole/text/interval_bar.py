"""An interval between two bounds on an axis of cells, and the trial at its position. Pure.

Nothing here depends on colour: each interval has its own strokes and ends, and a trial has a mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from labconsole.text.axis import Axis, format_ticks

STROKES = ("├─┤", "╞═╡", "┝┅┥", "╟┈╢")
"""Lower end, line and upper end of the first criterion, the second, and so on. The fifth looks like the first."""

BEYOND_AXIS = "‹›"
"""Marks of a trial beyond either end of the axis."""


UNSETTLED = "·"
"""Stroke of an interval whose bounds more trials may move."""


def draw_intervals(axis: Axis, bounds: Sequence[tuple[float | None, float | None, bool]], at: float, mark: str) -> str:
    """Draw one row: every interval (low, high, settled) as far as it lies on the axis. An unknown end is left open."""
    cells = [" "] * axis.cells
    for strokes, (low, high, settled) in reversed(list(zip(cycle(STROKES), bounds, strict=False))):
        if low is None and high is None:
            continue
        first = 0 if low is None else axis.dot(low, 1)
        last = axis.cells - 1 if high is None else axis.dot(high, 1)
        for cell in range(max(0, first), min(last, axis.cells - 1) + 1):
            cells[cell] = strokes[1] if settled else UNSETTLED
        for known, place, end in ((low, first, strokes[0]), (high, last, strokes[2])):
            if known is not None and 0 <= place < axis.cells:
                cells[place] = end
    place = axis.dot(at, 1)
    if 0 <= place < axis.cells:
        cells[place] = mark
    else:
        cells[0 if place < 0 else -1] = BEYOND_AXIS[place >= axis.cells]
    return "".join(cells)


def axis_title(axis: Axis) -> str:
    """Return the axis' labels in one row. Each begins at its tick, except the last, which ends there."""
    cells = [" "] * axis.cells
    labels = format_ticks(axis)
    free = 0
    for (cell, _), word in zip(axis.ticks(), labels, strict=True):
        place = min(cell, axis.cells - len(word))
        if place >= free:
            cells[place : place + len(word)] = word
            free = place + len(word) + 1
    return "".join(cells)
