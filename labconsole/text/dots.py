"""A picture of dots in braille cells, eight dots a cell: four per cell vertically, two horizontally. Pure."""

from __future__ import annotations

_BITS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of a cell's left and right column, from the bottom."""

_SPANS = [[[sum(side[low : high + 1]) for high in range(4)] for low in range(4)] for side in _BITS]
"""Bits of all dots between two dots of a column."""

LOWEST_DOTS = 0x40 | 0x80

DOTS_UP, DOTS_ACROSS = 4, 2


class Dots:
    """A canvas of dots, counted from the lower left. Dots outside are left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[0] * columns for _ in range(rows)]

    def set(self, x: int, y: int) -> None:
        """Set one dot."""
        self.bar(x, y, y)

    def bar(self, x: int, low: int, high: int) -> None:
        """Set all dots of a column from ``low`` to ``high``. Those above or below the canvas are drawn at its edge."""
        top = self.rows * DOTS_UP - 1
        low, high = min(max(low, 0), top), min(max(high, 0), top)
        if not 0 <= x < self.columns * DOTS_ACROSS:
            return
        column, spans = x // DOTS_ACROSS, _SPANS[x % DOTS_ACROSS]
        for row in range(low // DOTS_UP, high // DOTS_UP + 1):
            first, last = max(low - row * DOTS_UP, 0), min(high - row * DOTS_UP, DOTS_UP - 1)
            self._cells[row][column] |= spans[first][last]

    def line(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """Draw a line without gaps, from left to right. Larger rises are joined by vertical strokes."""
        before = y0
        for x in range(x0, x1 + 1):
            y = y1 if x1 == x0 else y0 + round((y1 - y0) * (x - x0) / (x1 - x0))
            self.bar(x, min(before, y), max(before, y))
            before = y

    def row(self, place: int) -> list[int]:
        """The cells of a row as bits. The lowest row is 0."""
        return self._cells[place]


def braille(bits: int) -> str:
    """The braille character with these dots, or a blank if there are none."""
    return chr(0x2800 | bits) if bits else " "
