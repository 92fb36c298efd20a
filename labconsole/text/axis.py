"""Axes of charts: the values an axis can show, round ticks, and an interval on an axis of cells. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle
from numbers import Real
from operator import ne
from typing import Any

from labconsole.text.cells import format_decimal, format_rounded

# -- axes --------------------------------------------------------------------------------------------------------------
# Axes of charts: the values an axis can show, and round, evenly spaced ticks for charts made of cells.
#
# The functions here check every chart before it is drawn. Chart libraries raise errors, never finish or end the process
# at values that no axis can show.

_STEPS = ((1.0, 1.0), (1.5, 0.8), (2.0, 1.0), (2.5, 0.97), (3.0, 0.9), (4.0, 0.9), (5.0, 1.0), (6.0, 0.8), (8.0, 0.8))
"""Leading digits of a step, and how readable each is. A less readable step must make up for it by filling the room."""

_TOUCHES = 0.02
"""Share of a step: a value at most this far above the last tick is drawn on that tick."""

SMALLEST, LARGEST = 1e-30, 1e30
"""Limits of the span of an axis, and of each value on a logarithmic axis."""

MOST_POINTS, MOST_CURVES, MOST_CHARACTERS = 100_000, 500, 2_000
"""Limits of one chart: points, curves or names, and characters of one name."""


class Undrawable(ValueError):
    """A chart that cannot be drawn. The message names the value and what is allowed."""


def check_number(value: object, what: str, *, log: bool = False) -> float:
    """Return the value as a float. Raises Undrawable unless it is finite and of a magnitude that an axis can show."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise Undrawable(f"{what} is {_format_value(value)}; allowed: a number")
    try:
        number = float(value)
    except (OverflowError, ValueError):  # a number beyond any float; a signalling NaN
        number = math.inf
    if not abs(number) <= LARGEST:
        raise Undrawable(f"{what} is {_format_value(value)}; allowed: a finite number up to {LARGEST:g}")
    if log and number < SMALLEST:
        raise Undrawable(f"{what} is {_format_value(value)}; allowed on a logarithmic axis: {SMALLEST:g} or more")
    return number


def check_numbers(values: Sequence[Any], what: str) -> None:
    """Check many values, fast. Raises Undrawable naming the first bad one by its position, counted from 1."""
    plain = {type(value) for value in values} <= {int, float}
    if not plain or any(map(ne, values, values)) or max(map(abs, values), default=0) > LARGEST:
        for place, value in enumerate(values, 1):
            check_number(value, f"{what} {place}")


def check_span(values: Iterable[float], what: str) -> None:
    """Raises Undrawable if the values of one axis, with zero, span less than an axis can show."""
    reach = max(map(abs, values), default=0.0)
    if 0 < reach < SMALLEST:
        raise Undrawable(f"{what} reaches only to {reach:g}; allowed: 0, or {SMALLEST:g} or more")


def check_count(items: object, what: str, most: int) -> None:
    """Raises Undrawable unless ``items`` is a sequence of at most ``most`` items."""
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise Undrawable(f"{what} is {_format_value(items)}; allowed: a tuple")
    if len(items) > most:
        raise Undrawable(f"{what} has {len(items)} items; allowed: up to {most}")


def check_text(text: object, what: str, most: int = MOST_CHARACTERS) -> None:
    """Raises Undrawable unless ``text`` is a string of at most ``most`` characters."""
    if not isinstance(text, str):
        raise Undrawable(f"{what} is {_format_value(text)}; allowed: text")
    if len(text) > most:
        raise Undrawable(f"{what} has {len(text)} characters; allowed: up to {most}")


def _format_value(value: object) -> str:
    """Format a value for an error message, with its type if the type is the problem."""
    if isinstance(value, bool | None):
        return str(value)
    try:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    except Exception:  # a plug-in's own type, or an integer of more digits than Python writes out
        return f"of type {type(value).__name__}"
    text = text if len(text) <= 40 else f"{text[:39]}…"
    return text if isinstance(value, Real | Decimal) else f"{text!r} of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Axis:
    """``parts`` steps from ``low`` on, each ``cells_per_part`` long, so that every tick has the same position in its
    cell.
    """

    low: float
    step: float
    parts: int
    cells_per_part: int

    @property
    def high(self) -> float:
        return self.low + self.step * self.parts

    @property
    def cells(self) -> int:
        """Number of cells from the first tick's cell to the last tick's."""
        return self.parts * self.cells_per_part + 1

    def ticks(self) -> list[tuple[int, float]]:
        """(cell, value) of each tick, from the low end."""
        return [(i * self.cells_per_part, self.low + i * self.step) for i in range(self.parts + 1)]

    def dot(self, value: float, dots_per_cell: int) -> int:
        """The dot at which a value is drawn, counted from the low end. Values beyond the ends give dots beyond the
        ends.
        """
        return round((value - self.low) / self.step * self.cells_per_part * dots_per_cell)


def fit_axis(
    low: float, high: float, cells: int, *, least_cells: int = 1, best_cells: int = 3, least_step: float = 0.0
) -> Axis:
    """Return the axis over at least ``low`` to ``high`` that fills most of ``cells`` cells. It has at least two.

    ``least_cells``: minimum distance between two ticks, so that their labels fit. ``best_cells``: preferred distance.
    ``least_step``: minimum difference between tick values, such as 1 for whole decades. Raises Undrawable for a span
    that no axis can have.
    """
    check_span([check_number(end, "an end of an axis") for end in (low, high) if math.isfinite(end)], "an axis")
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        low, high = (low, low + max(1.0, abs(low) / 1000)) if math.isfinite(low) else (0.0, 1.0)
    span, room = high - low, max(1, cells - 1)
    best: tuple[float, Axis] | None = None
    power = 10.0 ** (math.floor(math.log10(span)) - 2)
    while power <= max(span, least_step) * 10:
        for begin, reads in _STEPS:
            step = begin * power
            if step < least_step:
                continue
            first = math.floor(low / step + 1e-9)
            last = math.ceil(high / step - _TOUCHES)
            parts = max(1, last - first)
            each = room // parts
            if each < 1 or (each < least_cells and parts > 1):
                continue
            near = 1 / (1 + 0.25 * abs(each - max(best_cells, least_cells)) / max(best_cells, least_cells))
            score = each / step * reads * near * (0.8 if parts == 1 and room >= 4 else 1)
            if best is None or score > best[0] * (1 + 1e-9):
                best = (score, Axis(first * step, step, parts, each))
        power *= 10
    if best is None and least_cells > 1:
        return fit_axis(low, high, cells, best_cells=best_cells, least_step=least_step)
    return best[1] if best is not None else Axis(low, span, 1, room)  # two cells and zero in between


def fit_upright(low: float, high: float, rows: int, *, least_step: float = 0.0) -> Axis:
    """Fit a vertical axis: labels in every other row at most, if there are enough rows."""
    return fit_axis(low, high, rows, least_cells=2 if rows >= 5 else 1, least_step=least_step)


def format_ticks(axis: Axis, unit: str = "") -> list[str]:
    """Format a label for each tick, with as many decimals as the step needs. Zero is just 0."""
    places = 0
    while places < 9 and abs(round(axis.step, places) - axis.step) > axis.step * 1e-6:
        places += 1
    values = [0.0 if abs(value) < axis.step / 2 else value for _, value in axis.ticks()]
    return [(format_decimal(value, places) if places and value else format_rounded(value)) + unit for value in values]


# -- interval bar ------------------------------------------------------------------------------------------------------
# An interval between two bounds on an axis of cells, and the trial at its position.
#
# Nothing here depends on colour: each interval has its own strokes and ends, and a trial has a mark.

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
