"""Golden sets are read where they lie, by several tests at once: nothing may be written beside them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

GOLDEN_SETS = Path(__file__).resolve().parents[1] / "golden"


def opened(path: Path) -> sqlite3.Connection:
    """A store's file, past labconsole. A golden one is opened as immutable: SQLite makes no -wal and -shm beside it."""
    if path.is_relative_to(GOLDEN_SETS):
        return sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    return sqlite3.connect(path)


def texts(path: Path, table: str = "runs", key: str = "run_id") -> dict[str, str]:
    """The records of a store by their ids, as they lie in the file, read past labconsole."""
    connection = opened(path)
    found = dict(connection.execute(f"SELECT {key}, record FROM {table}").fetchall())
    connection.close()
    return found
