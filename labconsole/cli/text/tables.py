"""Tables of reports and of comparisons in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from labconsole.comparison.change_tables import build_tables, describe_changes
from labconsole.comparison.changes import Changes
from labconsole.contracts.report import Table
from labconsole.report.tables import labelled
from labconsole.text.sanitize import single_line, unwrap_stream

# -- tables ------------------------------------------------------------------------------------------------------------
# Tables of reports in the terminal. Foreign words are sanitized before rich adds its own sequences.
#
# A table that is wider than the terminal is folded between words. If that is still too wide, each row has a line with
# its subject, unless that is short, a line with the first columns that fit, and the rest as text. The most important
# columns therefore are first.

MOST_ROWS = 60
"""Most rows of a table."""

LEAST_CELLS = 22
"""Minimum width of a folded text column, unless it needs less."""

GRID_GAP, GAP = 3, 2
"""Cells between two columns, of a grid and of a row that is split."""


def show_table(console: Console, table: Table, *, rest: str, note: bool = True) -> None:
    """Print a table, no wider than the terminal. ``rest``: where all rows are. ``note``: whether to print its note."""
    console.print()
    title = single_line(labelled(table))
    headings = [single_line(heading) for heading in table.headings]
    rows = [[single_line(cell) for cell in row] for row in table.shown[:MOST_ROWS]]
    columns = list(zip(headings, *rows, strict=True))
    if widths := _widths(columns, console.width, GRID_GAP):
        grid = Grid(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
        for heading, left, width in zip(headings, table.left, widths, strict=True):
            grid.add_column(heading, justify="left" if left else "right", overflow="fold", width=width)
        for row in rows:
            grid.add_row(*row)
        console.print(grid)
    else:
        console.print(Text(title, style="bold"))
        _show_split(console, columns, table.left)
    if len(table.shown) > MOST_ROWS:
        console.print(f"{len(table.shown) - MOST_ROWS} more rows: {rest}")
    if note and table.note:
        console.print(Text(single_line(table.note), style="dim"))


def _widths(columns: Sequence[Sequence[str]], width: int, gap: int) -> list[int]:
    """Widths of the columns in cells, folded between words as needed; empty if they are still too wide."""
    given = [_least(column) for column in columns]
    spare = width - gap * len(columns) - 1 - sum(given)
    if spare < 0:
        return []
    wanted = [max(map(cell_len, column)) - least for column, least in zip(columns, given, strict=True)]
    for place in sorted(range(len(columns)), key=wanted.__getitem__):  # so that most columns are not folded
        more = min(wanted[place], spare)
        given[place] += more
        spare -= more
    return given


def _least(column: Sequence[str]) -> int:
    """Cells needed not to break a word, nor to fold a cell that is no longer than ``LEAST_CELLS``."""
    _, *cells = column
    widths = [cell_len(word) for text in column for word in text.split()]
    return max(1, *widths, *(min(cell_len(cell), LEAST_CELLS) for cell in cells))


def _show_split(console: Console, columns: Sequence[Sequence[str]], left: Sequence[bool]) -> None:
    """Each row as a line of its first cell, unless that is short, a line of the columns that fit, the rest as text."""
    label = columns[0] if max(map(cell_len, columns[0])) > LEAST_CELLS else ()
    others, left = (columns[1:], left[1:]) if label else (columns, left)
    shown = next((many for many in range(len(others), 0, -1) if _widths(others[:many], console.width, GAP)), 0)
    widths = _widths(others[:shown], console.width, GAP)
    for place, cells in enumerate(zip(*others, strict=True)):
        heading = place == 0
        if label:
            console.print(Text(f" {label[place]}", style="bold"))
        if shown:
            line = Grid.grid(padding=(0, GAP, 0, 0))
            for width, on_left in zip(widths, left, strict=False):
                line.add_column(
                    justify="left" if on_left else "right",
                    overflow="fold",
                    width=width,
                    style="bold" if heading else "",
                )
            line.add_row(*cells[:shown])
            console.print(Padding(line, (0, 0, 0, 3 if label else 1)))
        if heading:
            console.print(f" {'─' * (console.width - 2)}")
        else:
            _show_pairs(console, [(each[0], cell) for each, cell in zip(others[shown:], cells[shown:], strict=True)])


def _show_pairs(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Cells without a column: heading and value. No pair is broken if a line has room for it."""
    lines = [""]
    for heading, value in pairs:
        if not value or value == "–":
            continue
        pair = f"{heading}: {value}"
        if lines[-1] and cell_len(f"{lines[-1]} · {pair}") + 4 > console.width:
            lines.append("")
        lines[-1] += f" · {pair}" if lines[-1] else pair
    for line in filter(None, lines):
        console.print(Padding(Text(line, style="dim"), (0, 0, 0, 3)))


# -- comparisons -------------------------------------------------------------------------------------------------------
# A comparison of two sets of runs in the terminal.


def show_changes(changes: Changes) -> None:
    """Print the comparison on stdout."""
    console = Console(file=unwrap_stream(sys.stdout), highlight=False, markup=False, emoji=False)
    for sentence in describe_changes(changes):
        console.print(Text(f"• {single_line(sentence)}"))
    for table in build_tables(changes):
        show_table(console, table, rest="--json lists all")
