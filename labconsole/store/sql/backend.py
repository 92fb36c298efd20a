"""The interface of a store to its database, which both kinds implement: transactions, series, readable errors.

A writing transaction has the store to itself, in PostgreSQL too. Runs are therefore numbered in the order in which they
become visible, and two consoles cannot deadlock. A save takes a millisecond every ten seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from labconsole.errors import StoreError

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
