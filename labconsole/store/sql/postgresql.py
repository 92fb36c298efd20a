"""A run store on a PostgreSQL server, for several consoles: psycopg under SQLAlchemy, everything in the database.

libpq reads the URL, so everything that psql understands works here too, with passwords from ~/.pgpass or PGPASSWORD:
this program never sees one. Series are rows, written in the transaction of their run, so that every console has them.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    String,
    Table,
    case,
    create_engine,
    event,
    func,
    insert,
    literal_column,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, OperationalError

from labconsole.errors import StoreError, StoreHeld
from labconsole.store.location import ServerLocation
from labconsole.store.series import MAX_SERIES_BYTES
from labconsole.store.sql.backend import BUSY_TIMEOUT_S, Backend
from labconsole.text.extras import build_install_command

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise StoreError(
        f"a store on PostgreSQL needs psycopg 3, which cannot be loaded ({missing}): "
        f"{build_install_command('postgresql')}"
    ) from missing

CONNECT_TIMEOUT_S = 10
RETRY_S = 0.25
LOST_AFTER_MS = 30_000
"""How long a server may stay silent before it is given up; the kernel alone would take a quarter of an hour."""

_KINDS = """
SELECT c.relname, CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
  ELSE 'relation of kind ' || CAST(c.relkind AS text) END
FROM pg_class c WHERE c.relname = ANY(:names) AND c.relkind <> 'r' AND pg_table_is_visible(c.oid) ORDER BY c.relname
"""

_TYPES = ["boolean", "smallint", "integer", "bigint", "real", "double precision", "text", "character varying", "bytea"]
"""The types of a store's columns, also of those that a later program adds."""

_COLUMNS = """
SELECT c.relname, a.attname, CASE WHEN a.attgenerated <> '' THEN 'computed'
  WHEN format_type(a.atttypid, NULL) = ANY(:types) THEN 'not always there'
  ELSE 'of type ' || format_type(a.atttypid, NULL) END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relname = ANY(:names) AND pg_table_is_visible(c.oid) AND a.attnum > 0 AND NOT a.attisdropped
AND (a.attgenerated <> '' OR format_type(a.atttypid, NULL) <> ALL(:types) OR (a.attname = 'saved' AND NOT a.attnotnull))
ORDER BY c.relname, a.attname
"""

WRITE_LOCK = 0x6C61_6263_6F6E_736F
"""The advisory lock of the writer: a number that only labconsole uses."""

series_table = Table(
    "series",
    MetaData(),
    Column("run_id", String(collation="C"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)


class PostgresBackend(Backend):
    """A store in a database on a server. Opened with the first connection."""

    saved_order = literal_column("runs.saved", BigInteger)
    """An identity column, assigned under the write lock. SQLite has its rowid instead."""

    empty_is_none = True

    def __init__(self, location: ServerLocation, *, write: bool) -> None:
        self.name = location.name
        self._write = write
        self._url = location.url
        self._was_there = False
        self.engine = self._open_engine()

    def _open_engine(self) -> Engine:
        try:
            given = conninfo_to_dict(self._url)
        except psycopg.ProgrammingError as exc:
            raise StoreError(f"{self.name}: is not a valid PostgreSQL URL: {_line(str(exc))}") from None
        if given.get("password"):
            raise StoreError("the store's URL contains a password: put it into ~/.pgpass or PGPASSWORD instead")
        ours = {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "tcp_user_timeout": LOST_AFTER_MS,
            "fallback_application_name": "labconsole",
            "client_encoding": "UTF8",
        }
        options: dict[str, Any] = {key: value for key, value in ours.items() if key not in given}

        def connect() -> psycopg.Connection[Any]:
            return psycopg.connect(self._url, **options)

        # The engine's URL contains only the dialect, because engines are printed in logs.
        engine = create_engine("postgresql+psycopg://", creator=connect, pool_pre_ping=True)
        event.listen(engine, "connect", self._configure)
        return engine

    def _configure(self, connection: psycopg.Connection[Any], _record: object) -> None:
        """Configure a connection. Overrides a server setting under which commits may be lost."""
        row = connection.execute(
            "SELECT set_config('lock_timeout', %s, false), set_config('default_transaction_isolation',"
            " 'read committed', false), set_config('default_transaction_read_only', %s, false),"
            " set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'"
            " ELSE current_setting('synchronous_commit') END, false), current_setting('server_encoding')",
            (f"{BUSY_TIMEOUT_S:g}s", "off" if self._write else "on"),
        ).fetchone()
        connection.commit()
        if row is not None and row[4] != "UTF8":
            raise StoreError(
                f"{self.name}: the database is encoded in {row[4]}, which cannot hold every name: "
                "create it with `createdb --encoding UTF8 --template template0`"
            )

    def check_place(self) -> None:
        """Connect, so that problems with the server are reported first."""
        with self.engine.connect():
            pass

    def check_schema(self, connection: Connection, names: Collection[str]) -> None:
        """See Backend. Also checks the series; a foreign table of another server is not valid either."""
        ours = [*names, series_table.name]
        for name, kind in connection.execute(text(_KINDS), {"names": ours}):
            raise StoreError(f"{self.name}: {name} is a {kind}; a run store has a table of that name")
        for name, column, found in connection.execute(text(_COLUMNS), {"names": ours, "types": _TYPES}):
            raise StoreError(
                f"{self.name}: {name}.{column} is {found}; a run store keeps text, numbers, booleans and bytes there"
            )

    def create_own(self, connection: Connection) -> None:
        """Add the order of saving and the series' table."""
        connection.execute(text("ALTER TABLE runs ADD COLUMN saved BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE"))
        series_table.create(connection)
        # Already compressed: the server need not try again.
        connection.execute(text("ALTER TABLE series ALTER COLUMN content SET STORAGE EXTERNAL"))

    def _connected(self) -> Connection:
        """A connection. After the first one, waits for a server that is restarting: a run may be at stake."""
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                return self.engine.connect()
            except OperationalError:
                if not self._was_there or time.monotonic() + RETRY_S > deadline:
                    raise
            time.sleep(RETRY_S)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """See Backend. The lock ends with the transaction, after its changes are visible."""
        with self._connected() as connection, connection.begin():
            self._was_there = True
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": WRITE_LOCK})
            yield connection

    def stage(self, run_id: str, content: bytes) -> bytes:
        """See Backend. Nothing to prepare."""
        return content

    def publish(self, connection: Connection, run_id: str, staged: bytes) -> None:
        """See Backend."""
        connection.execute(insert(series_table).values(run_id=run_id, content=staged))

    def unstage(self, run_id: str, staged: bytes, *, failed: bool) -> None:
        """See Backend. Nothing is left, because the transaction was rolled back."""

    def series(self, connection: Connection, run_id: str) -> tuple[bytes, str]:
        """See Backend."""
        where = f"in {self.name}"
        size_bytes = func.octet_length(series_table.c.content)
        content = case((size_bytes <= MAX_SERIES_BYTES, series_table.c.content))
        found = connection.execute(select(content).where(series_table.c.run_id == run_id)).one_or_none()
        if found is None:
            raise StoreError(f"run {run_id}: its time series {where} is missing")
        if found[0] is None:
            raise StoreError(f"run {run_id}: its time series {where} has more than {MAX_SERIES_BYTES} bytes")
        return bytes(found[0]), where

    @contextmanager
    def hold(self, what: str, holder: str) -> Iterator[None]:
        """See Backend. Uses an advisory lock of its own session, which the server releases when the connection ends."""
        key = int.from_bytes(hashlib.sha256(f"labconsole hold {what}".encode()).digest()[:8], "big", signed=True)
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar_one():
                raise StoreHeld(what, self._holder(connection, key))
            try:
                # The owner's name, which other consoles read; the server keeps 63 bytes.
                connection.execute(text("SELECT set_config('application_name', :name, false)"), {"name": holder[:60]})
                yield
            finally:
                connection.invalidate()  # ends the connection and thus the lock, also if the connection is broken

    def _holder(self, connection: Connection, key: int) -> str:
        high, low = (key >> 32) & 0xFFFF_FFFF, key & 0xFFFF_FFFF
        name = connection.execute(
            text(
                "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.granted"
                " AND l.locktype = 'advisory' AND l.classid = :high AND l.objid = :low AND l.objsubid = 1"
            ),
            {"high": high, "low": low},
        ).scalar()
        return str(name) if name else "another console"

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """See Backend."""
        return (psycopg.Error,)

    def reason(self, exc: Exception) -> str:
        """See Backend."""
        original: Any = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        state = getattr(original, "sqlstate", None)
        primary = getattr(getattr(original, "diag", None), "message_primary", None)
        message = _line(primary or str(original)) or type(original).__name__
        message = re.sub(r"^(connection (failed|is bad): )+", "", message)
        for hint, known in _HINTS:
            if state == known or (state is None and re.search(known, message)):
                return hint.format(message=message)
        return message


_HINTS = (
    (f"another process has kept it locked for {BUSY_TIMEOUT_S:g} s", "55P03"),
    ("a value does not fit the database: {message}", "22003"),
    ("{message}; the owner of the database can grant it, see docs/store.md", "42501"),
    ("{message}; it is a standby, or read-only", "25006"),
    ("{message}; put the correct one into ~/.pgpass or PGPASSWORD", "password authentication failed"),
    ("{message}; put it into ~/.pgpass or PGPASSWORD", "no password supplied"),
    ("{message}; create it with `createdb`", r'database ".*" does not exist'),
)
"""Hints by SQLSTATE. A refused login has none here, so its message is matched."""


def _line(message: str) -> str:
    """A message of libpq, which may have several lines, as a part of a sentence."""
    line = " ".join(message.split())
    return line if len(line) <= 400 else f"{line[:399]}…"
