"""A run store in a SQLite file: WAL, every commit on the disk, time series as files next to it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, Integer, create_engine, event, literal_column, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool

from labconsole.errors import StoreError, StoreHeld
from labconsole.store.location import FileLocation
from labconsole.store.records import MAX_RECORD_BYTES
from labconsole.store.series import read_file
from labconsole.store.sql.backend import BUSY_TIMEOUT_S, Backend
from labconsole.store.sql.query_terms import add_functions
from labconsole.store.sql.schema import runs

# -- statement work ----------------------------------------------------------------------------------------------------
# Limits SQLite's work for one statement: no more than a file of this length can need.
#
# A page of an untrusted file may be named by other pages again and again, so that rows of a few kilobytes are endless.
# Fetching, sorting or counting them takes steps of SQLite's virtual machine, which are counted as they run.

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


# -- sqlite ------------------------------------------------------------------------------------------------------------
# A run's series is on the disk under its final name before its row is committed, so no row points to a missing file. A
# crash in between leaves an unreferenced file, which the next save of that run replaces.

IMMEDIATE = {"begin": "BEGIN IMMEDIATE"}
"""Execution options of a writing transaction: it takes the write lock at once, so that it cannot fail half way."""

_TRIGGERS = """
SELECT name FROM sqlite_master WHERE type = 'trigger' OR (sql LIKE 'create%trigger%' AND NOT (sql LIKE 'create table%'
OR sql LIKE 'create view%' OR sql LIKE 'create index%' OR sql LIKE 'create unique index%'))
"""
_OBJECTS = (
    "SELECT name, type FROM pragma_table_list WHERE schema = 'main'"
    if sqlite3.sqlite_version_info >= (3, 37)
    else "SELECT name, iif(rootpage > 0, type, 'view') AS type FROM sqlite_master WHERE type <> 'index'"
)
_LONGEST_DEFAULT_CHARACTERS = 100
"""Rows older than an added column have the column's default, whatever its length."""

_LONGEST_VALUE_BYTES = 2 * MAX_RECORD_BYTES
"""For a text or a row: a record and the columns that repeat parts of it."""

_SUPER_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names a super-journal: sqlite.org/fileformat2.html#the_rollback_journal."""

_WORK = "work"
"""The key of a connection's StatementWork in SQLAlchemy's connection info."""

STALE_S = 3600.0
"""Age at which a temporary file is taken to be left by a process that died."""


class SqliteBackend(Backend):
    """A store in a file. Opened with the first connection."""

    saved_order = literal_column("runs.rowid", Integer)
    """SQLite numbers rows in order of insertion. Runs are never removed, so the numbers only grow."""

    def __init__(self, location: FileLocation, *, write: bool) -> None:
        self.name = location.name
        self.path = location.path
        self.series_dir = location.series_dir
        self._own, self._write = location.own, write
        self.engine = _open_engine(self.path, write=write)

    def check_place(self) -> None:
        """See Backend. Requires a directory, and read access to an existing file."""
        if self._own and self._write:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: cannot open the run store: there is no directory {self.path.parent}")
        if self.path.is_dir():
            raise StoreError(f"{self.path}: cannot open the run store: it is a directory")
        if not self._write and not self.path.exists():
            raise StoreError(f"{self.path}: there is no run store there; nothing has been saved yet")
        if self._write and not self._own and self.series_dir.is_symlink():
            raise StoreError(
                f"{self.path}: cannot open the run store for writing: {self.series_dir} is a link, and files elsewhere "
                "would be written and removed; a store has a directory there"
            )
        self._refuse_foreign_journal()

    def _refuse_foreign_journal(self) -> None:
        """Refuse a journal that names a super-journal: SQLite would remove that file, wherever it is."""
        real = self.path.resolve()
        journal = real.with_name(f"{real.name}-journal")
        try:
            if not stat.S_ISREG(journal.stat().st_mode):
                raise StoreError(f"{self.path}: cannot open the run store: {journal} is not a regular file")
            with journal.open("rb") as stream:
                stream.seek(-min(len(_SUPER_JOURNAL_MAGIC), stream.seek(0, os.SEEK_END)), os.SEEK_END)
                end = stream.read()
        except FileNotFoundError:
            return
        if end == _SUPER_JOURNAL_MAGIC:
            raise StoreError(
                f"{self.path}: cannot open the run store: {journal} names another file, which SQLite would remove; no "
                "run store has such a journal"
            )

    def check_schema(self, connection: Connection, names: Collection[str]) -> None:
        """See Backend. Uses SQLite's own list: sqlite_master's claim about a row's type is not decisive."""
        trigger = connection.exec_driver_sql(_TRIGGERS).scalar()
        if trigger is not None:
            raise StoreError(f"{self.name}: has a trigger ({str(trigger)[:80]}); a run store has none")
        kinds = {str(row.name).lower(): row.type for row in connection.exec_driver_sql(_OBJECTS)}
        for name in names:
            if kinds.get(name, "table") != "table":
                raise StoreError(f"{self.name}: {name} is a {kinds[name]}; a run store has a table of that name")
            for column in connection.exec_driver_sql(f"PRAGMA table_xinfo({name})"):
                if column.hidden or len(str(column.dflt_value or "")) > _LONGEST_DEFAULT_CHARACTERS:
                    raise StoreError(
                        f"{self.name}: {name}.{str(column.name)[:80]} has values that no row stores, which no "
                        "run store has"
                    )

    def check_pages(self, connection: Connection, names: Collection[str]) -> None:
        """See Backend. SQLite reads a page each time another names it: rows of a small file may be endless."""
        connection.exec_driver_sql("PRAGMA ignore_check_constraints=ON")  # they come from the file, at any cost
        for name in names:
            said = str(connection.exec_driver_sql(f"PRAGMA quick_check({name})").scalar())
            if said != "ok":
                problem = next((line for line in said.split("\n") if not line.startswith("***")), said)
                raise StoreError(f"{self.name}: the database is damaged ({name}: {problem[:200]})")

    def prepare_database(self) -> None:
        """Set the journal mode, outside a transaction as this pragma requires."""
        raw = self.engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            raw.close()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """See Backend."""
        with self.engine.connect().execution_options(**IMMEDIATE) as connection, connection.begin():
            yield connection

    def stage(self, run_id: str, content: bytes) -> Path:
        """Write a temporary file in the series' directory and sync it to the disk."""
        self.series_dir.mkdir(mode=0o777, exist_ok=True)
        path = self.series_dir / f".tmp-{run_id}-{secrets.token_hex(4)}"
        try:
            with path.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def publish(self, connection: Connection, run_id: str, staged: Path) -> None:
        """Rename a staged file to its final name, durably: after this a row may point to it."""
        staged.replace(self._file(run_id))
        descriptor = os.open(self.series_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def unstage(self, run_id: str, staged: Path, *, failed: bool) -> None:
        """Remove the temporary file. After a failure also remove the run's series: a full disk needs the space."""
        if failed:
            # The cause is already being raised; a file that remains is harmless.
            with suppress(SQLAlchemyError, OSError), self.writing() as connection:
                if connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id)).one_or_none() is None:
                    self._file(run_id).unlink(missing_ok=True)
        staged.unlink(missing_ok=True)

    def series(self, connection: Connection, run_id: str) -> tuple[bytes, str]:
        """See Backend."""
        path = self._file(run_id)
        return read_file(path, run_id), str(path)

    def _file(self, run_id: str) -> Path:
        return self.series_dir / f"{run_id}.npz"

    def tidy(self) -> None:
        """Remove old temporary files."""
        limit = time.time() - STALE_S
        for left in self.series_dir.glob(".tmp-*"):
            try:
                status = left.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_mtime < limit:
                    left.unlink()
            except FileNotFoundError:
                continue  # another process opened the store at the same time and was faster

    @contextmanager
    def hold(self, what: str, holder: str) -> Iterator[None]:
        """See Backend. Locks a file next to the database; the kernel releases the lock however the process ends."""
        path = self.path.with_name(f"{self.path.name}.{what}.lock")
        with _locked(path, what) as stream:
            stream.seek(0)
            stream.truncate()
            stream.write(holder)
            stream.flush()
            try:
                yield
            finally:
                with suppress(OSError):  # it may be another process's file
                    path.unlink()

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """See Backend."""
        return (sqlite3.Error,)

    def reason(self, exc: Exception) -> str:
        """See Backend."""
        original = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        text = str(original).partition("\n")[0] or type(original).__name__
        if "file is not a database" in text:
            return "the file is not a database"
        if "malformed" in text:
            return f"the database is damaged ({text}); `sqlite3 FILE .recover` may save what is left"
        if "too big" in text:
            return f"it contains a value or a row of more than {_LONGEST_VALUE_BYTES} bytes, and no record is as long"
        if text == "interrupted":
            return "the database is damaged (it gives more rows than a file of its length can hold)"
        if "locked" in text:
            return f"another process has kept it locked for {BUSY_TIMEOUT_S:g} s"
        return text


def _locked(path: Path, what: str) -> TextIO:
    """The locked file. Raises StoreHeld if another process has the lock."""
    while True:
        stream = _open_lock(path)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return stream
        except FileNotFoundError:
            pass
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read(200).strip() or "another process"
            stream.close()
            raise StoreHeld(what, holder) from None
        stream.close()  # the owner has just removed it: the locked file no longer has this name


def _open_lock(path: Path) -> TextIO:
    """The lock's own file, made where there is none. What holds the lock overwrites it, so no link is followed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as exc:
        if exc.errno != errno.ELOOP:
            raise
    else:
        stream = os.fdopen(descriptor, "a+", encoding="utf-8")
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return stream
        stream.close()
    raise StoreError(f"{path} is not a regular file; remove it")


def _open_engine(path: Path, *, write: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            _uri(path, write), uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=connect,
        # A reader decides for each connection how to open the file, see _uri.
        poolclass=QueuePool if write else NullPool,
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        # The file may be from anybody. The first statement reads its schema, whose rows may have no end either.
        record.info[_WORK] = work = StatementWork(path)
        connection.set_progress_handler(work.is_over, COUNTED_STEPS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        connection.execute("PRAGMA trusted_schema=OFF")
        # FULL: in WAL mode NORMAL may forget the last commits when the power fails (0.27 ms a run instead of 0.02).
        connection.execute("PRAGMA synchronous=FULL")
        add_functions(connection)

    @event.listens_for(engine, "before_cursor_execute")
    def _start(connection: Connection, *_statement: object) -> None:
        connection.info[_WORK].start()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # The sqlite3 module would begin a transaction only before the first write, and never an immediate one.
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    return engine


def _uri(path: Path, write: bool) -> str:
    uri = f"file:{quote(str(path))}"
    if write:
        return f"{uri}?mode=rwc"
    # A WAL database needs its -shm file even for reading. A user who may not create it can read the database file
    # alone, which is correct while there is no writer, and every writer has a -wal file next to it.
    if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        return f"{uri}?mode=ro&immutable=1"
    return f"{uri}?mode=ro"
