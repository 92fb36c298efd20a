"""What a store needs of a database, as the one class that both kinds fill in: transactions, series, errors in words.

A writing transaction has the store to itself, in PostgreSQL too: runs are then numbered in the order in which they
become visible, two consoles cannot wait for each other crosswise, and one save takes a millisecond every ten seconds.
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
"""Longest wait for another writer. Two busy WAL writers were seen to wait 1.1 s for each other."""


class Backend(ABC):
    """A database that is open. ``name`` is what messages call it; it holds no secret."""

    name: str
    engine: Engine
    saved_order: ColumnElement[int]
    """The place of a run in the order of saving: only grows, with nothing appearing later below what was seen."""

    empty_is_none = False
    """Whether a database without tables is where no store was made yet, rather than something else's."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that no other writer shares: on the disk afterwards, all of it or nothing."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection to read with; waits for no writer."""
        return self.engine.connect()

    @abstractmethod
    def check_place(self) -> None:
        """Raise StoreError, in words, when there can be no store."""

    @abstractmethod
    def check_schema(self, connection: Connection, names: Collection[str]) -> None:
        """Raise StoreError unless what has one of these names is a table that holds its rows: a view or a column that
        is computed costs what whoever wrote the database likes.
        """

    def check_pages(self, connection: Connection, names: Collection[str]) -> None:  # noqa: B027
        """Raise StoreError where the file that these tables are in would cost more to read than it is long."""

    def prepare_database(self) -> None:  # noqa: B027
        """Set up what is outside of any transaction, once the database is known to be ours."""

    def create_own(self, connection: Connection) -> None:  # noqa: B027
        """Create what only this kind of database has, in a new store."""

    def tidy(self) -> None:  # noqa: B027
        """Remove what dead processes left."""

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # -- series: staged before the transaction, because writing them may take long

    @abstractmethod
    def stage(self, run_id: str, content: bytes) -> Any:
        """Bring packed series as near to their place as goes without the write lock."""

    @abstractmethod
    def publish(self, connection: Connection, run_id: str, staged: Any) -> None:
        """Keep staged series of a run, durably once the transaction is committed."""

    @abstractmethod
    def unstage(self, run_id: str, staged: Any, *, failed: bool) -> None:
        """Remove what is left of staging; ``failed``: the run was not saved."""

    @abstractmethod
    def series(self, connection: Connection, run_id: str) -> tuple[bytes, str]:
        """Packed series and the words for where they are. Raises StoreError when they are missing."""

    # -- one at a time

    @abstractmethod
    def hold(self, what: str, holder: str) -> AbstractContextManager[None]:
        """Hold ``what`` against every other process until the block, or the process, ends.

        Raises StoreHeld, naming who holds it, when somebody does.
        """

    # -- errors

    @abstractmethod
    def reason(self, exc: Exception) -> str:
        """What went wrong in the database, in words for the operator."""

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
        """What the driver raises by itself, outside SQLAlchemy."""
