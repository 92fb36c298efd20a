"""A SQLite database as SQLAlchemy opens it here: WAL, every commit on the disk, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from labconsole.errors import StoreError

BUSY_TIMEOUT_S = 10.0
"""Longest wait for another writer. Two busy WAL writers were seen to wait 1.1 s for each other."""

IMMEDIATE = {"begin": "BEGIN IMMEDIATE"}
"""Execution options of a writing transaction: it takes the write lock at once, so that it cannot fail half way."""


def open_engine(path: Path, *, write: bool) -> Engine:
    """An engine for a database file; it is opened with the first connection."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            _uri(path, write), uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=connect,
        # A reader chooses afresh each time how to open the file, see _uri.
        poolclass=QueuePool if write else NullPool,
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        # FULL: in WAL mode NORMAL may forget the last commits when the power fails (0.27 ms a run beside 0.02).
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # The sqlite3 module would begin a transaction only before the first write, and never an immediate one.
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    return engine


def _uri(path: Path, write: bool) -> str:
    uri = f"file:{quote(str(path))}"
    if write:
        return f"{uri}?mode=rwc"
    # A WAL database needs its -shm file even to read. Who may not create it can read the file as it lies there, which
    # is right as long as nobody writes, and whoever writes has a -wal file beside it.
    if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        return f"{uri}?mode=ro&immutable=1"
    return f"{uri}?mode=ro"


@contextmanager
def store_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn what SQLAlchemy, SQLite and the file system raise into a StoreError with the path."""
    try:
        yield
    except StoreError:
        raise
    except (SQLAlchemyError, sqlite3.Error) as exc:
        raise StoreError(f"{path}: cannot {doing}: {_reason(exc)}") from exc
    except OSError as exc:
        place = f" ({exc.filename})" if exc.filename and str(exc.filename) != str(path) else ""
        raise StoreError(f"{path}: cannot {doing}: {exc.strerror or exc}{place}") from exc
    except (OverflowError, UnicodeEncodeError) as exc:
        raise StoreError(f"{path}: cannot {doing}: a value does not fit the database: {exc}") from exc


def _reason(exc: Exception) -> str:
    original = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
    text = str(original).partition("\n")[0] or type(original).__name__
    if "file is not a database" in text:
        return "the file is not a database"
    if "malformed" in text:
        return f"the database is damaged ({text}); `sqlite3 FILE .recover` may save what is left"
    if "locked" in text:
        return f"another process has held it locked for {BUSY_TIMEOUT_S:g} s"
    return text
