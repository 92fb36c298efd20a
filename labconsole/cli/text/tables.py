"""Tables of reports in the terminal. Every foreign word is made harmless before rich adds its own sequences."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from labconsole.contracts.report import Table
from labconsole.report.tables import labelled
from labconsole.text.harmless import harmless

MOST_ROWS = 60
"""Of one table."""


def show_table(console: Console, table: Table, *, rest: str) -> None:
    """Print it: as a grid where that is no wider than the terminal, else its rows in words. ``rest``: where all is."""
    console.print()
    title = harmless(labelled(table))
    headings = [harmless(heading) for heading in table.headings]
    rows = [[harmless(cell) for cell in row] for row in table.shown[:MOST_ROWS]]
    if _natural_width(headings, rows) > console.width:
        console.print(Text(title, style="bold"))
        for row in rows:
            console.print(_row_in_words(headings, row))
    else:
        grid = Grid(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
        for heading, left in zip(headings, table.left, strict=True):
            grid.add_column(heading, justify="left" if left else "right", overflow="fold")
        for row in rows:
            grid.add_row(*row)
        console.print(grid)
    if len(table.shown) > MOST_ROWS:
        console.print(f"{len(table.shown) - MOST_ROWS} more rows: {rest}")
    if table.note:
        console.print(Text(harmless(table.note), style="dim"))


def _natural_width(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Cells that the table takes when nothing in it is folded."""
    widths = [max(cell_len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    return sum(widths) + 2 * len(widths) + 2


def _row_in_words(headings: Sequence[str], row: Sequence[str]) -> Padding:
    """A row of a table that is wider than the terminal: a column of two letters is read by nobody."""
    said = Text("• ")
    for heading, cell in zip(headings, row, strict=True):
        if cell and cell != "–":
            said.append(f"{heading} ", style="dim")
            said.append(f"{cell}   ")
    said.rstrip()
    return Padding(said, (0, 0, 0, 1))
