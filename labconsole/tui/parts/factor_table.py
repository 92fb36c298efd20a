"""A table whose rows are told apart by factors: a column each, as wide as what it says, and those that all rows share
leave first where there is no room.
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
"""Ranks of columns: what tells rows apart stays as long as anything that can leave."""

PREFIX = "factor "


def factor_columns(rows: Sequence[Mapping[str, str]]) -> tuple[Column, ...]:
    """A column for each factor that any row has a word of, in their order."""
    columns = []
    for heading in dict.fromkeys(heading for row in rows for heading in row):
        words = {row.get(heading, "") for row in rows}
        if words != {""}:
            width = min(MOST_CELLS, max(map(cell_len, (heading, *words))))
            columns.append(
                Column(
                    PREFIX + heading,
                    heading,
                    width,
                    right=all(word.isdigit() for word in words),
                    rank=DIFFERING if len(words) > 1 else SHARED,
                )
            )
    return tuple(columns)


class FactorTable(LineTable):
    """``factors``: of every row, by headings. ``wide``: its columns; one that grows gives way, down to TIGHT, to those
    that tell rows apart, and then to no others; what all rows share gives way to it, as far as it has something to say.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.factors: Mapping[Any, Mapping[str, str]] = {}
        self.wide: tuple[Column, ...] = ()
        self._tight: tuple[Column, ...] = ()
        self._wanted_cells = 0
        self._fitted: tuple[int, tuple[Column, ...]] | None = None

    def take_columns(self, columns: Sequence[Column], wanted_cells: int = 0) -> None:
        """Take these columns, those of factors among them. ``wanted_cells``: of one that grows, before those that all
        rows share.
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
