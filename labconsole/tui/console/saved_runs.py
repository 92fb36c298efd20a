"""All saved runs as the screens of results show them: read in pages in a thread, then only what came since.

One list serves every screen. It holds summaries, some 600 bytes each, and at most MOST of them; older ones are still in
the store. Screens look at ``revision`` and take ``runs``, which is never changed in place.
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
"""So many are read first: more than any terminal shows, in a few milliseconds however many there are."""

PAGE_RUNS = 2000
MOST = 100_000

_BY_START = attrgetter("started_at", "run_id")


class SavedRuns:
    """``runs`` newest first. ``problem`` is a sentence when the store could not be read the last time.

    ``epoch`` moves when runs that were known changed, and not only others came. ``wanted_filter`` is what another
    screen would like the list of runs to show.
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

    async def refresh(self, told: Callable[[], None], *, again: bool = False) -> None:
        """Read what is not known yet; ``again`` forgets everything first. ``told`` is called when something changed."""
        async with self._lock:
            before = (self.in_store, self.revision, self.problem)
            if again:
                self._first, self._last, self.complete = None, 0, False
                self.epoch += 1
            try:
                await self._read(told)
                self.problem = ""
            except LabError as exc:
                self.problem = str(exc)
            changed = again or before != (self.in_store, self.revision, self.problem)
        if changed:
            told()

    async def _read(self, told: Callable[[], None]) -> None:
        store = self._store
        self.in_store = await asyncio.to_thread(store.count)
        while not self.complete:
            limit = FIRST_RUNS if self._first is None else PAGE_RUNS
            page = await asyncio.to_thread(store.page, before=self._first, limit=limit)
            # From the beginning: the old list stays in sight until the first page of the new one is there.
            known = self.runs if self._first is not None else []
            if self._first is None:
                self._last = page.last
            self._first = page.first
            self.runs = await asyncio.to_thread(_merged, known, page.runs)
            self.complete = len(page.runs) < limit or len(self.runs) >= MOST
            self.revision += 1
            if not self.complete:
                told()
        while True:
            page = await asyncio.to_thread(store.page, after=self._last, limit=PAGE_RUNS)
            if not page.runs:
                return
            self._last = page.last
            self.runs = (await asyncio.to_thread(_merged, self.runs, page.runs))[:MOST]
            self.revision += 1

    def note_written(self, run_id: str, text: str | None) -> None:
        """A note was put on a run from here."""
        self.runs = [replace(run, note=text) if run.run_id == run_id else run for run in self.runs]
        self.revision += 1
        self.epoch += 1

    def words(self) -> str:
        """How many there are, and whether all of them are known already."""
        noun = "run" if self.in_store == 1 else "runs"
        known, there = f"{len(self.runs):,}".replace(",", "\u2009"), f"{self.in_store:,}".replace(",", "\u2009")
        if self.complete and len(self.runs) >= self.in_store:
            return f"{known} {noun}"
        if self.complete:
            return f"newest {known} of {there} {noun}"
        return f"{known} of {there} {noun} read"


def _merged(known: list[RunSummary], more: list[RunSummary]) -> list[RunSummary]:
    """Both, newest first. Nearly sorted already, which makes it quick."""
    return sorted([*known, *more], key=_BY_START, reverse=True)
