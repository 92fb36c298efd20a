"""How long SQLite may work for one statement: no longer than a file of this length can need.

A page of a file from elsewhere may be named by others again and again, so that rows of a few kilobytes have no end.
Whoever fetches, sorts or counts them takes steps of SQLite's machine, which are counted as they are taken.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

COUNTED_STEPS = 100_000
"""Steps between two looks at how many there were."""

FREE_STEPS = 2_000_000
"""For any statement, also in an empty store: some ten thousand rows."""

STEPS_PER_BYTE = 0.5
"""A list takes some 100 steps for a run, bringing a table up to date 400. Rows of runs have 2 KiB as a rule."""


class StatementWork:
    """The steps of the statement that a connection is at. ``path``: of its file."""

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        self._paths = real, real.with_name(f"{real.name}-wal")
        self._steps = self._file_bytes = 0

    def start(self) -> None:
        """Another statement begins."""
        self._steps = 0

    def is_over(self) -> bool:
        """To be called every ``COUNTED_STEPS``: whether the statement is to end."""
        self._steps += COUNTED_STEPS
        if self._steps <= FREE_STEPS:
            return False
        found = 0
        for path in self._paths:
            with suppress(OSError):  # there may be no journal, and no file any more
                found += path.stat().st_size
        self._file_bytes = max(self._file_bytes, found)
        return self._steps > FREE_STEPS + STEPS_PER_BYTE * self._file_bytes
