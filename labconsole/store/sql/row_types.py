"""Checks rows against their columns' types: SQLite accepts any value in any column, and the file may be untrusted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement

from labconsole.errors import StoreError


class RowTypes:
    """The types of some columns. ``optional``: columns that an older store lacks, which then have no value."""

    def __init__(self, columns: Sequence[ColumnElement[Any]], optional: Collection[str]) -> None:
        self._columns = [
            (str(column.key), _types(column, getattr(column, "nullable", True) or column.key in optional))
            for column in columns
        ]
        self._valid = set[tuple[type, ...]]()

    def check(self, row: Sequence[Any]) -> None:
        """Raise StoreError naming run and column. The first column of a row is the run's id."""
        found = tuple(map(type, row))
        if found in self._valid:  # true of nearly every row
            return
        for (name, allowed), value, kind in zip(self._columns, row, found, strict=False):
            if kind not in allowed:
                shown = f"a {kind.__name__}" if value is not None else "no value"
                raise StoreError(f"run {str(row[0])[:80]}: the column {name} of the table of runs contains {shown}")
        self._valid.add(found)


def _types(column: ColumnElement[Any], nullable: bool) -> frozenset[type]:
    own = column.type.python_type
    return frozenset({own, *([int] if own in (float, bool) else []), *([type(None)] if nullable else [])})
