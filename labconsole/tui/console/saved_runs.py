"""All saved runs for the screens of results: read in pages in a thread, then only the new ones.

One list serves every screen. It contains summaries, some 600 bytes each, and at most MOST of them. Older ones are still
in the store. Screens compare ``revision`` and take ``runs``, which is never changed in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from labconsole.engine.protocol import RunsStore
from labconsole.errors import LabError
from labconsole.model.record.summary import RunSummary

FIRST_RUNS = 100
"""Size of the first page: more than any terminal shows, and read in a few milliseconds from a store of any size."""

PAGE_RUNS = 2000
MOST = 100_000

_BY_START = attrgetter("started_at", "run_id")


class SavedRuns:
    """``runs`` newest first. ``problem`` is a sentence if the store could not be read the last time.

    ``epoch`` changes when known runs changed, not when runs were only added. ``wanted_filter`` is the filter that
    another screen requests from the list of runs.
    """

    def __init__(self, store: RunsStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._first: int | None = None
        self._last = 0
        self.runs: list[RunSummary] = []
        self.revision = 0
        self.in_store = 0
        self.complete = False
        self.problem = ""
        self.epoch = 0
        self.wanted_filter: str | None = None

    async def refresh(self, notify: Callable[[], None], *, again: bool = False) -> None:
        """Read new runs. ``again`` forgets everything first. ``notify`` is called when something changed."""
        async with self._lock:
            before = (self.in_store, self.revision, self.problem)
            if again:
                self._first, self._last, self.complete = None, 0, False
                self.epoch += 1
            try:
                await self._read(notify)
                self.problem = ""
            except LabError as exc:
                self.problem = str(exc)
            changed = again or before != (self.in_store, self.revision, self.problem)
        if changed:
            notify()

    async def _read(self, notify: Callable[[], None]) -> None:
        store = self._store
        self.in_store = await asyncio.to_thread(store.count)
        while not self.complete:
            limit = FIRST_RUNS if self._first is None else PAGE_RUNS
            page = await asyncio.to_thread(store.page, before=self._first, limit=limit)
            # From the start: the old list stays visible until the first page of the new one has arrived.
            known = self.runs if self._first is not None else []
            if self._first is None:
                self._last = page.last
            self._first = page.first
            self.runs = await asyncio.to_thread(_merged, known, page.runs)
            self.complete = len(page.runs) < limit or len(self.runs) >= MOST
            self.revision += 1
            if not self.complete:
                notify()
        while True:
            page = await asyncio.to_thread(store.page, after=self._last, limit=PAGE_RUNS)
            if not page.runs:
                return
            self._last = page.last
            self.runs = (await asyncio.to_thread(_merged, self.runs, page.runs))[:MOST]
            self.revision += 1

    def note_written(self, run_id: str, text: str | None) -> None:
        """Update the note of a run after this console wrote it."""
        self.runs = [replace(run, note=text) if run.run_id == run_id else run for run in self.runs]
        self.revision += 1
        self.epoch += 1

    def describe_count(self) -> str:
        """Format the number of runs, and whether all of them are known already."""
        noun = "run" if self.in_store == 1 else "runs"
        known, there = f"{len(self.runs):,}".replace(",", "\u2009"), f"{self.in_store:,}".replace(",", "\u2009")
        if self.complete and len(self.runs) >= self.in_store:
            return f"{known} {noun}"
        if self.complete:
            return f"newest {known} of {there} {noun}"
        return f"{known} of {there} {noun} read"


def _merged(known: list[RunSummary], more: list[RunSummary]) -> list[RunSummary]:
    """Merge both lists, newest first. They are nearly sorted already, so sorting is quick."""
    return sorted([*known, *more], key=_BY_START, reverse=True)
