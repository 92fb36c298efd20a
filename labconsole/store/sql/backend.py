"""The interface of a store to its database, and a store opened by it: checked, created or migrated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, func, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from labconsole.errors import StoreError
from labconsole.store.sql.schema import (
    SCHEMA_VERSION,
    TABLE_NAMES,
    add_baselines,
    add_list,
    create_tables,
    fill_missing_columns,
    migrate,
    runs,
    schema_version,
)
from labconsole.wire.version import __version__

# -- backend -----------------------------------------------------------------------------------------------------------
# The interface of a store to its database, which both kinds implement: transactions, series, readable errors.
#
# A writing transaction has the store to itself, in PostgreSQL too. Runs are therefore numbered in the order in which
# they become visible, and two consoles cannot deadlock. A save takes a millisecond every ten seconds.

BUSY_TIMEOUT_S = 10.0
"""Longest wait for another writer. Two busy WAL writers were observed to wait 1.1 s for each other."""


class Backend(ABC):
    """An open database. ``name`` is its name in messages; it contains no secret."""

    name: str
    engine: Engine
    saved_order: ColumnElement[int]
    """A run's number in the order of saving.

    It only grows: no run appears later with a lower number than one already seen.
    """

    empty_is_none = False
    """Whether a database without tables counts as no store yet, rather than as something else's."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that excludes other writers: afterwards all of it is on the disk, or nothing."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection for reading, which waits for no writer."""
        return self.engine.connect()

    @abstractmethod
    def check_place(self) -> None:
        """Raise StoreError with a description if there can be no store."""

    @abstractmethod
    def check_schema(self, connection: Connection, names: Collection[str]) -> None:
        """Raise StoreError unless everything with one of these names is a table that stores its rows.

        Views and computed columns cost as much as the author of the database chose.
        """

    def check_pages(self, connection: Connection, names: Collection[str]) -> None:  # noqa: B027
        """Raise StoreError if the file of these tables would cost more to read than its length."""

    def prepare_database(self) -> None:  # noqa: B027
        """Configure the database outside any transaction, once it is known to be ours."""

    def create_own(self, connection: Connection) -> None:  # noqa: B027
        """Create what only this kind of database has, in a new store."""

    def tidy(self) -> None:  # noqa: B027
        """Remove what dead processes left behind."""

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # -- series: staged before the transaction, because writing them may take long

    @abstractmethod
    def stage(self, run_id: str, content: bytes) -> Any:
        """Prepare packed series as far as possible without the write lock."""

    @abstractmethod
    def publish(self, connection: Connection, run_id: str, staged: Any) -> None:
        """Store the staged series of a run, durably once the transaction is committed."""

    @abstractmethod
    def unstage(self, run_id: str, staged: Any, *, failed: bool) -> None:
        """Remove the remains of staging. ``failed``: the run was not saved."""

    @abstractmethod
    def series(self, connection: Connection, run_id: str) -> tuple[bytes, str]:
        """Packed series and a description of their location. Raises StoreError if they are missing."""

    # -- mutual exclusion

    @abstractmethod
    def hold(self, what: str, holder: str) -> AbstractContextManager[None]:
        """Lock ``what`` against every other process until the block, or the process, ends.

        Raises StoreHeld naming the owner if another process has it.
        """

    # -- errors

    @abstractmethod
    def reason(self, exc: Exception) -> str:
        """The database's error, described for the operator."""

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turn what SQLAlchemy, the driver and the file system raise into a StoreError that names the store."""
        database_errors: tuple[type[Exception], ...] = (SQLAlchemyError, *self.driver_errors())
        try:
            yield
        except StoreError:
            raise
        except database_errors as exc:
            raise StoreError(f"{self.name}: cannot {doing}: {self.reason(exc)}") from exc
        except OSError as exc:
            place = f" ({exc.filename})" if exc.filename and str(exc.filename) != self.name else ""
            raise StoreError(f"{self.name}: cannot {doing}: {exc.strerror or exc}{place}") from exc
        except (OverflowError, UnicodeEncodeError) as exc:
            raise StoreError(f"{self.name}: cannot {doing}: a value does not fit the database: {exc}") from exc

    @abstractmethod
    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that the driver raises by itself, outside SQLAlchemy."""


# -- opening -----------------------------------------------------------------------------------------------------------
# Opens a store: checks that it is one, of a known version; otherwise creates it, or migrates it.
#
# Two consoles may open an old or an empty database at once: everything is checked again under the write lock.


def open_for_writing(backend: Backend) -> int:
    """Open for writing. Afterwards the store has the present version, which is returned."""
    backend.check_place()
    with backend.reading() as connection:
        present = _tables(connection)
        if present:
            _check_version(backend, connection, present)
    backend.prepare_database()
    with backend.writing() as connection:
        present = _tables(connection)
        if present:
            version = _check_version(backend, connection, present)
            if version < SCHEMA_VERSION:
                migrate(connection, version)
            else:
                fill_missing_columns(
                    connection
                )  # a console of an older version may have been open while this one migrated
            add_list(connection)
            add_baselines(connection)
        else:
            create_tables(connection)
            backend.create_own(connection)
    backend.tidy()
    return SCHEMA_VERSION


def open_read_only(backend: Backend, *, foreign: bool = False) -> int:
    """Open for reading only, and return the store's version.

    ``foreign``: the file is untrusted and all of it will be read, so its pages are checked first.
    """
    backend.check_place()
    with backend.reading() as connection, connection.begin():
        present = _tables(connection)
        if not present and backend.empty_is_none:
            raise StoreError(f"{backend.name}: there is no run store there; nothing has been saved yet")
        return _check_version(backend, connection, present, foreign=foreign)


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def _check_version(backend: Backend, connection: Connection, present: set[str], *, foreign: bool = False) -> int:
    """The store's version. Raises StoreError unless this program can read it."""
    if not {schema_version.name, runs.name} <= present:
        raise StoreError(f"{backend.name}: is a database, but not a run store")
    backend.check_schema(connection, TABLE_NAMES)
    if foreign:
        backend.check_pages(connection, sorted(present & set(TABLE_NAMES)))
    version = connection.execute(select(func.max(schema_version.c.version))).scalar_one()
    if not isinstance(version, int) or version < 1:
        raise StoreError(f"{backend.name}: the run store has no schema version; its creation did not complete")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{backend.name}: the run store has schema version {version}; labconsole {__version__} reads versions up "
            f"to {SCHEMA_VERSION}: use the newer labconsole that wrote it"
        )
    return version
