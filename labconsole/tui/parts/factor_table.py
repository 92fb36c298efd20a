"""A table whose rows differ by factors, each with a column as wide as its values.

If room is short, columns of factors that all rows share leave first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len

from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import GUTTER, Column, LineTable, fit_columns

MOST_CELLS, TIGHT = 24, 12
DIFFERING, SHARED = 1, 3
"""Ranks of columns: those that distinguish rows stay as long as any other column can leave."""

PREFIX = "factor "


def factor_columns(rows: Sequence[Mapping[str, str]]) -> tuple[Column, ...]:
    """Build a column for each factor that any row has a value of, in their order."""
    columns = []
    for heading in dict.fromkeys(heading for row in rows for heading in row):
        values = {row.get(heading, "") for row in rows}
        if values != {""}:
            width = min(MOST_CELLS, max(map(cell_len, (heading, *values))))
            columns.append(
                Column(
                    PREFIX + heading,
                    heading,
                    width,
                    right=all(word.isdigit() for word in values),
                    rank=DIFFERING if len(values) > 1 else SHARED,
                )
            )
    return tuple(columns)


class FactorTable(LineTable):
    """``factors``: those of every row, by headings. ``wide``: its columns.

    A column that grows gives way, down to TIGHT, to columns that distinguish rows, and then to no others. Columns that
    all rows share give way to it, as far as it needs the room.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.factors: Mapping[Any, Mapping[str, str]] = {}
        self.wide: tuple[Column, ...] = ()
        self._tight: tuple[Column, ...] = ()
        self._wanted_cells = 0
        self._fitted: tuple[int, tuple[Column, ...]] | None = None

    def take_columns(self, columns: Sequence[Column], wanted_cells: int = 0) -> None:
        """Take these columns, with those of factors among them.

        ``wanted_cells``: width of a growing column that takes precedence over the columns that all rows share.
        """
        self.wide, self._wanted_cells, self._fitted = tuple(columns), wanted_cells, None
        self._tight = tuple(
            replace(each, width=min(each.width, TIGHT)) if each.grow_to else each
            for each in columns
            if each.rank != SHARED
        )

    def columns(self) -> tuple[Column, ...]:
        room = self._measure_room(len(self.keys())) - GUTTER
        if self._fitted is None or self._fitted[0] != room:
            self._fitted = room, self._fit(room)
        return self._fitted[1]

    def _fit(self, room: int) -> tuple[Column, ...]:
        free = room - sum(each.width + 1 for each in self.wide if each.rank != SHARED)
        columns = tuple(
            replace(each, width=max(each.width, min(self._wanted_cells, each.width + free))) if each.grow_to else each
            for each in self.wide
        )
        kept = {column.name for column, _ in fit_columns(columns, room)}
        return columns if all(each.name in kept for each in columns if each.rank == DIFFERING) else self._tight

    def cell_of(self, column: Column, key: Any, width: int) -> Span:
        if column.name.startswith(PREFIX):
            return safe(self.factors[key].get(column.title, ""), width), ""
        return super().cell_of(column, key, width)
