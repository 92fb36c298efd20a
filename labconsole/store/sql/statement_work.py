"""Limits SQLite's work for one statement: no more than a file of this length can need.

A page of an untrusted file may be named by other pages again and again, so that rows of a few kilobytes are endless.
Fetching, sorting or counting them takes steps of SQLite's virtual machine, which are counted as they run.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

COUNTED_STEPS = 100_000
"""Steps between two checks of the count."""

FREE_STEPS = 2_000_000
"""Allowed for any statement, also in an empty store: enough for some ten thousand rows."""

STEPS_PER_BYTE = 0.5
"""A list takes some 100 steps per run, a migration 400. Rows of runs usually have 2 KiB."""


class StatementWork:
    """The steps of a connection's current statement. ``path``: of its file."""

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        self._paths = real, real.with_name(f"{real.name}-wal")
        self._steps = self._file_bytes = 0

    def start(self) -> None:
        """Start counting for another statement."""
        self._steps = 0

    def is_over(self) -> bool:
        """Whether the statement has to end. To be called every ``COUNTED_STEPS``."""
        self._steps += COUNTED_STEPS
        if self._steps <= FREE_STEPS:
            return False
        found = 0
        for path in self._paths:
            with suppress(OSError):  # there may be no journal, and the file may have gone
                found += path.stat().st_size
        self._file_bytes = max(self._file_bytes, found)
        return self._steps > FREE_STEPS + STEPS_PER_BYTE * self._file_bytes
