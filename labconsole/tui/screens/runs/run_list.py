"""The contents of the list of runs, read from the store as far as the operator scrolls, whatever its size.

The database filters, sorts and counts, so opening the newest page and a key in the filter cost the same for a list of
any length. Rows are read when the cursor nears the last one present.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from labconsole.engine.protocol import RunsStore
from labconsole.errors import LabError
from labconsole.model.query import Query, parse_query
from labconsole.model.record.summary import RunSummary, Sorting
from labconsole.text.cells import format_rounded

ROWS_AT_ONCE = 500
"""Rows per read: more than any terminal shows."""

MOST_ROWS = 100_000
"""Maximum length of the list: in memory, some 600 bytes a row. Reversing the order shows its other end."""

FOLLOWED_ROWS = 5000
"""Number of rows in which to look for a run that another filter or order has moved."""


class MatchingRuns:
    """All matching runs, each read in turn, including those beyond the end of the list."""

    def __init__(self, store: RunsStore, query: Query, sorting: Sorting, many: int) -> None:
        self._store, self._query, self._sorting, self._many = store, query, sorting, many

    def __len__(self) -> int:
        return self._many

    def __iter__(self) -> Iterator[RunSummary]:
        after: RunSummary | None = None
        while page := self._store.find(self._query, self._sorting, after=after, limit=ROWS_AT_ONCE):
            yield from page
            after = page[-1]


class RunList:
    """``order`` and ``by_id``: the rows read, never changed in place. ``problem`` says why they are old."""

    def __init__(self, store: RunsStore) -> None:
        self._store = store
        self.query, self.sorting = parse_query(""), Sorting()
        self.by_id: dict[str, RunSummary] = {}
        self.order: list[str] = []
        self.read = False
        self.problem = ""
        self.in_store = 0
        self.found: int | None = None
        """Number of matches, or None while it is computed."""
        self._last: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the last row is the last matching run."""
        return self.found == len(self.order)

    async def has_changed(self) -> bool:
        """Whether runs were saved, or the store is readable again, since the last time."""
        try:
            page = await asyncio.to_thread(self._store.page, limit=1)
        except LabError as exc:
            return str(exc) != self.problem
        return bool(self.problem) or page.last != self._last

    async def look(self, query: Query, sorting: Sorting, follow: str | None) -> None:
        """Read from the first row to the previous end of the list, or to the run ``follow``."""
        same = (query, sorting) == (self.query, self.sorting)
        rows = max(ROWS_AT_ONCE, len(self.order)) if same else ROWS_AT_ONCE
        try:
            runs = await asyncio.to_thread(self._read, query, sorting, rows, follow)
        except LabError as exc:
            self.problem = str(exc)
            return
        finally:
            self.read = True
        self.problem, self.query, self.sorting = "", query, sorting
        self._take(runs, whole=len(runs) < rows and len(runs) < MOST_ROWS)

    def _read(self, query: Query, sorting: Sorting, rows: int, follow: str | None) -> list[RunSummary]:
        store = self._store
        last = store.page(limit=1).last
        if last != self._last:
            self.in_store = store.count()
        runs = list(store.find(query, sorting, limit=min(MOST_ROWS, rows)))
        if follow is not None and len(runs) == rows and all(run.run_id != follow for run in runs):
            known = self._one(follow)
            if known is not None and query.select([known]):
                place = store.position(query, sorting, known)
                if rows <= place < FOLLOWED_ROWS:
                    more = place - rows + ROWS_AT_ONCE
                    runs += store.find(query, sorting, after=runs[-1], limit=more)
        self._last = last
        return runs

    def _one(self, run_id: str) -> RunSummary | None:
        return next(iter(self._store.find(parse_query(f'run="{run_id}"'), Sorting(), limit=1)), None)

    async def hidden(self, run_id: str) -> bool:
        """Whether the store has a run which the filter hides."""
        try:
            run = await asyncio.to_thread(self._one, run_id)
        except LabError:
            return False
        return run is not None and not self.query.select([run])

    async def some(self, run_ids: list[str]) -> list[RunSummary]:
        """Those of these runs that the store has, in this order."""
        found = [self.by_id.get(run_id) or await asyncio.to_thread(self._one, run_id) for run_id in run_ids]
        return [run for run in found if run is not None]

    async def tally(self) -> bool:
        """Count the matches. False if the number was known, or the list changed meanwhile."""
        if self.found is not None or self.problem:
            return False
        query = self.query
        if not query.terms:
            self.found = self.in_store
            return True
        try:
            found = await asyncio.to_thread(self._store.count_matching, query)
        except LabError:
            return False
        if query is not self.query or self.found is not None:
            return False
        self.found = max(found, len(self.order))
        return True

    async def go_on(self, rows: int = ROWS_AT_ONCE) -> bool:
        """Read more rows after the last. False if there were none, or the list changed meanwhile."""
        rows = min(rows, MOST_ROWS - len(self.order))
        if self.whole or rows <= 0 or not self.order:
            return False
        query, sorting, order = self.query, self.sorting, self.order
        try:
            more = await asyncio.to_thread(self._store.find, query, sorting, after=self.by_id[order[-1]], limit=rows)
        except LabError:
            return False
        if self.order is not order or not more:
            return False
        self._take([*(self.by_id[run_id] for run_id in order), *more], whole=len(more) < rows)
        return True

    def _take(self, runs: list[RunSummary], *, whole: bool) -> None:
        self.by_id = {run.run_id: run for run in runs}
        self.order = list(self.by_id)
        self.found = len(runs) if whole else None

    def build_matching_runs(self) -> MatchingRuns:
        """All matching runs."""
        return MatchingRuns(self._store, self.query, self.sorting, self.found or len(self.order))

    def describe_count(self) -> str:
        """Format the number of matches and of all runs."""
        all_runs = f"{format_rounded(self.in_store)} {'run' if self.in_store == 1 else 'runs'}"
        if not self.query.terms:
            return all_runs
        return f"{'… ' if self.found is None else format_rounded(self.found) + ' '}of {all_runs}"
