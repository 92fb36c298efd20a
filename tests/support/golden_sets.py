"""Golden sets are read where they lie, by several tests at once: nothing may be written beside them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

GOLDEN_SETS = Path(__file__).resolve().parents[1] / "golden"

SEARCHES = (
    "CREATE TEMP VIEW searches AS SELECT id AS search_id, started_at, testbed, testbed_fingerprint, plan_name, plan_hash, "
    "platform, status, record FROM experiments WHERE kind = 'search'"
)
"""Searches as versions 3 and 4 had them, for this connection: so what was before and after can be compared."""


def opened(path: Path) -> sqlite3.Connection:
    """A store's file, past labconsole. A golden one is opened as immutable: SQLite makes no -wal and -shm beside it."""
    immutable = path.is_relative_to(GOLDEN_SETS)
    connection = sqlite3.connect(f"file:{path}?immutable=1" if immutable else path, uri=immutable)
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchall():
        connection.execute(SEARCHES)
    return connection


def texts(path: Path, table: str = "runs", key: str = "run_id") -> dict[str, str]:
    """The records of a store by their ids, as they lie in the file, read past labconsole."""
    connection = opened(path)
    found = dict(connection.execute(f"SELECT {key}, record FROM {table}").fetchall())
    connection.close()
    return found
