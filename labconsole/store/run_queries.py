"""Finds runs by a typed filter, in any order, a page at a time: the database filters and sorts any number of runs.

A place in an order is a run: the runs after it stay the same when newer runs arrive. In SQLite one index contains every
column used here, so the rows with their long records are not touched.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from labconsole.model.query import Query
from labconsole.model.record.summary import RunSummary
from labconsole.model.sorting import Sorting
from labconsole.store.reading import StoredRuns
from labconsole.store.sql.query_terms import asks_for_notes, build_condition
from labconsole.store.sql.schema import SUMMARY_COLUMNS, build_summary, notes, runs

_SORT_COLUMNS: dict[str, tuple[ColumnElement[Any], str]] = {
    "verdict": (runs.c.verdict, "verdict"),
    "platform": (runs.c.platform, "platform"),
    "size": (runs.c.frame_size_bytes, "frame_size_bytes"),
    "sources": (runs.c.sources, "sources"),
    "target": (runs.c.target_bps, "target_bps"),
    "background": (runs.c.background, "background"),
    "duration": (runs.c.duration_s, "duration_s"),
    "offered": (runs.c.offered_pps, "offered_pps"),
    "measured": (runs.c.measured_pps, "measured_pps"),
    "loss": (runs.c.loss_ratio, "loss_ratio"),
    "note": (notes.c.text, "note"),
}
"""The columns of model.sorting.SORTS except the start, each with its attribute of a summary."""

IDS_AT_ONCE = 10_000
"""Parameters of one statement. PostgreSQL takes 65 535, a stock SQLite 32 766."""

Key = tuple[ColumnElement[Any], bool, Any]
"""An expression to sort by, whether it is descending, and its value for the run that is the place."""


class QueryableRuns(StoredRuns):
    """A store with queries by typed filters. Every method blocks and may be called from any thread."""

    def find(
        self, query: Query, sorting: Sorting, *, after: RunSummary | None = None, skip: int = 0, limit: int
    ) -> list[RunSummary]:
        """The first ``limit`` runs that match, in order, after a place and without the first ``skip`` of them.

        Blocks.
        """
        if self.version < 4:  # its file lacks columns: it is small, and opened for reading only
            meant = sorting.apply(query.select(self.list()))
            begin = skip if after is None else skip + 1 + _place(meant, after)
            return meant[begin : begin + limit]
        keys = _keys(self, sorting, after)
        notes_too = asks_for_notes(query) or sorting.column == "note"
        # The ids first: with all their columns, runs that are left out would be carried through the sorting, too.
        order = [key.desc() if descending else key.asc() for key, descending, _ in keys]
        found = _join_notes(select(runs.c.run_id), notes_too=notes_too).where(build_condition(query))
        if after is not None:
            found = found.where(_order_condition(keys, later=True))
        found = found.order_by(*order).limit(limit).offset(skip or None)
        ids = [row.run_id for row in self.rows(found, "find runs")]
        summaries = _join_notes(select(*SUMMARY_COLUMNS), notes_too=True)
        known: dict[str, RunSummary] = {}
        for begin in range(0, len(ids), IDS_AT_ONCE):
            some = runs.c.run_id.in_(ids[begin : begin + IDS_AT_ONCE])
            known.update((row.run_id, build_summary(row)) for row in self.rows(summaries.where(some), "find runs"))
        return [known[run_id] for run_id in ids if run_id in known]

    def count_matching(self, query: Query) -> int:
        """The number of runs that match. Blocks."""
        if self.version < 4:
            return len(query.select(self.list()))
        statement = _join_notes(select(func.count(runs.c.started_at)), notes_too=asks_for_notes(query)).where(
            build_condition(query)
        )
        return int(self.rows(statement, "count runs")[0][0])

    def position(self, query: Query, sorting: Sorting, run: RunSummary) -> int:
        """The number of matching runs before this one. Blocks."""
        if self.version < 4:
            return _place(sorting.apply(query.select(self.list())), run)
        notes_too = asks_for_notes(query) or sorting.column == "note"
        statement = _join_notes(select(func.count(runs.c.started_at)), notes_too=notes_too).where(
            build_condition(query), _order_condition(_keys(self, sorting, run), later=False)
        )
        return int(self.rows(statement, "count runs")[0][0])


def _place(meant: list[RunSummary], run: RunSummary) -> int:
    """The position of a run; behind the last one if it does not match any more."""
    return next((place for place, each in enumerate(meant) if each.run_id == run.run_id), len(meant))


def _join_notes(statement: Select[Any], *, notes_too: bool) -> Select[Any]:
    return statement.select_from(runs.outerjoin(notes, notes.c.run_id == runs.c.run_id) if notes_too else runs)


def _keys(store: StoredRuns, sorting: Sorting, place: RunSummary | None) -> list[Key]:
    """The sort keys, none of which is ever NULL. Equal runs are sorted newest first."""
    at, name = place.started_at if place else None, place.run_id if place else None
    if sorting.column == "started":
        return [(runs.c.started_at, sorting.descending, at), (runs.c.run_id, sorting.descending, name)]
    column, attribute = _SORT_COLUMNS[sorting.column]
    value = getattr(place, attribute) if place else None
    keys: list[Key] = []
    absent = value is None or value == "max"
    if column.nullable if hasattr(column, "nullable") else True:
        # No target is "max", the largest one. In all other columns unknown values come last in either direction.
        last = sorting.descending if sorting.column == "target" else False
        keys.append((case((column.is_(None), 1), else_=0), last, int(absent)))
        empty: Any = "" if sorting.column == "note" else 0
        column, value = func.coalesce(column, empty), empty if absent else value
    if sorting.column == "note" and store.backend.engine.dialect.name == "postgresql":
        column = column.collate("C")
    keys.append((column, sorting.descending, value))
    return [*keys, (runs.c.started_at, True, at), (runs.c.run_id, True, name)]


def _order_condition(keys: list[Key], *, later: bool) -> ColumnElement[bool]:
    """The condition for runs later in the order than the place, or earlier."""
    choices = []
    for number, (key, descending, value) in enumerate(keys):
        same = [one == it for one, _, it in keys[:number]]
        choices.append(and_(*same, key < value if descending is later else key > value))
    return or_(*choices)
