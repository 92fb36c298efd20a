"""A picture of dots in cells of braille, eight a cell: four times as fine upwards as text, twice sideways. Pure."""

from __future__ import annotations

_BITS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Of a cell's left and right column, from below."""

_SPANS = [[[sum(side[low : high + 1]) for high in range(4)] for low in range(4)] for side in _BITS]
"""The same for all dots from one to another."""

LOWEST_DOTS = 0x40 | 0x80

DOTS_UP, DOTS_ACROSS = 4, 2


class Dots:
    """Dots are counted from the lower left; those beside the picture are left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[0] * columns for _ in range(rows)]

    def set(self, x: int, y: int) -> None:
        """One dot."""
        self.bar(x, y, y)

    def bar(self, x: int, low: int, high: int) -> None:
        """All dots of a column from ``low`` to ``high``; those above or below the picture are drawn at its edge."""
        top = self.rows * DOTS_UP - 1
        low, high = min(max(low, 0), top), min(max(high, 0), top)
        if not 0 <= x < self.columns * DOTS_ACROSS:
            return
        column, spans = x // DOTS_ACROSS, _SPANS[x % DOTS_ACROSS]
        for row in range(low // DOTS_UP, high // DOTS_UP + 1):
            first, last = max(low - row * DOTS_UP, 0), min(high - row * DOTS_UP, DOTS_UP - 1)
            self._cells[row][column] |= spans[first][last]

    def line(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """A line without a gap, from left to right; what of it is above the last is joined upright."""
        before = y0
        for x in range(x0, x1 + 1):
            y = y1 if x1 == x0 else y0 + round((y1 - y0) * (x - x0) / (x1 - x0))
            self.bar(x, min(before, y), max(before, y))
            before = y

    def row(self, place: int) -> list[int]:
        """The cells of a row as bits, the lowest row being 0."""
        return self._cells[place]


def braille(bits: int) -> str:
    """The cell with these dots; a blank for none."""
    return chr(0x2800 | bits) if bits else " "
