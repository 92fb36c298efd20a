"""The store: runs saved in one transaction each, read without ever blocking the writer.

A run's time series is on the disk under its final name before its row is committed, so no row points to a missing file;
a crash in between leaves a file that nothing points to, which the next save of that run replaces.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import (
    Connection,
    Integer,
    Row,
    Select,
    and_,
    func,
    insert,
    inspect,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from labconsole import __version__
from labconsole.engine.ports import Series, StoredTrial
from labconsole.errors import StoreError
from labconsole.model.note import NotedRecord, RunNote
from labconsole.model.record import RunRecord
from labconsole.model.run_id import RUN_ID
from labconsole.store.connection import IMMEDIATE, open_engine, store_errors
from labconsole.store.exchange import parse_exported
from labconsole.store.location import StoreLocation
from labconsole.store.matching import matching
from labconsole.store.notes import (
    checked_note,
    newer_than,
    read_calibrations,
    read_notes,
    write_calibration,
    write_note,
)
from labconsole.store.records import parse_record, record_text
from labconsole.store.schema import (
    SCHEMA_VERSION,
    SUMMARY_COLUMNS,
    SUMMARY_COLUMNS_1,
    create_tables,
    migrate,
    notes,
    row_of,
    runs,
    schema_version,
    summary_of,
)
from labconsole.store.series import load_series, publish_series, stage_series
from labconsole.store.summary import EVERYTHING, Page, RunFilter, RunSummary

PAGE_RUNS = 200
"""Records read at a time while streaming: a slow consumer then holds no snapshot that keeps the WAL from shrinking."""

saved_order = literal_column("runs.rowid", Integer).label("saved")
"""SQLite numbers rows as they come; runs are never removed, so the numbers only grow."""

STALE_S = 3600.0
"""Age after which a temporary file was left by a process that died."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many records an import added, how many were there already, and how many notes it brought or renewed."""

    added: int
    present: int
    notes: int = 0


class RunStore:
    """All runs of a lab. Every method blocks and may be called from any thread, from several at once."""

    def __init__(self, location: StoreLocation, *, write: bool = True) -> None:
        self.path = location.path
        self.series_dir = location.series_dir
        self.writable = write
        self._version = SCHEMA_VERSION
        with store_errors(self.path, "open the run store"):
            if location.own and write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.parent.is_dir():
                raise StoreError(f"{self.path}: cannot open the run store: there is no directory {self.path.parent}")
            if self.path.is_dir():
                raise StoreError(f"{self.path}: cannot open the run store: it is a directory")
            if not write and not self.path.exists():
                raise StoreError(f"{self.path}: no such run store; nothing has been saved there yet")
            self._engine = open_engine(self.path, write=write)
            try:
                if write:
                    self._prepare()
                    self._remove_stale()
                else:
                    with self._engine.begin() as connection:
                        self._version = self._check_schema(connection)
            except BaseException:
                self._engine.dispose()
                raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- writing ------------------------------------------------------------------------------------------------------

    def save(self, record: RunRecord, series: Series | None = None) -> None:
        """Store one run durably, or raise StoreError and store nothing. The same run again changes nothing."""
        text = self._checked_text(record)
        self._require_writable()
        with store_errors(self.path, f"save run {record.run_id}"):
            staged = None if series is None else stage_series(self.series_dir, record.run_id, series)
            try:
                with self._engine.connect().execution_options(**IMMEDIATE) as connection, connection.begin():
                    self._save_in(connection, record, text, staged)
            except BaseException:
                if staged is not None:
                    self._remove_orphan(record.run_id)
                raise
            finally:
                if staged is not None:
                    staged.unlink(missing_ok=True)

    def import_records(self, records: Iterable[NotedRecord | RunRecord | Mapping[str, Any] | str]) -> ImportResult:
        """Take records from elsewhere: all of them or, with a StoreError about the first bad one, none.

        Of two notes on one run the newer stays.
        """
        added = present = noted = 0
        with self._writing("import runs") as connection:
            for number, item in enumerate(records, 1):
                if isinstance(item, RunRecord):
                    item = NotedRecord(item, None)
                elif not isinstance(item, NotedRecord):
                    item = parse_exported(item, f"record {number}")
                if self._save_in(connection, item.record, self._checked_text(item.record), None):
                    added += 1
                else:
                    present += 1
                if item.note is not None:
                    noted += write_note(connection, item.record.run_id, item.note)
        return ImportResult(added, present, noted)

    def set_note(self, run_id: str, text: str | None, *, author: str) -> None:
        """Put a note on a run, in place of the one that is there; None or blanks remove it."""
        note = checked_note(text, author)
        self._require_writable()
        found = self._find(run_id).run_id
        with self._writing(f"note run {found}") as connection:
            write_note(connection, found, newer_than(note, read_notes(connection, found).get(found)))

    def save_calibration(self, record: dict[str, Any]) -> None:
        """Keep a calibration of the testbed that its ``testbed_fingerprint`` names."""
        with self._writing("save a calibration") as connection:
            write_calibration(connection, record)

    @contextmanager
    def _writing(self, doing: str) -> Iterator[Connection]:
        """A writing transaction: everything in it is on the disk afterwards, or nothing."""
        self._require_writable()
        with (
            store_errors(self.path, doing),
            self._engine.connect().execution_options(**IMMEDIATE) as connection,
            connection.begin(),
        ):
            yield connection

    def _save_in(self, connection: Connection, record: RunRecord, text: str, staged: Path | None) -> bool:
        """True if the run is new. Holds the write lock, so nobody else can be saving the same run."""
        final = self._series_path(record.run_id)
        there = connection.execute(
            select(runs.c.record, runs.c.has_series).where(runs.c.run_id == record.run_id)
        ).one_or_none()
        if there is None:
            if staged is not None:
                publish_series(staged, final)
            connection.execute(insert(runs).values(row_of(record, text, has_series=staged is not None)))
            return True
        if there.record != text:
            raise StoreError(f"{self.path}: run {record.run_id} is already stored with different content")
        if staged is not None and there.has_series:
            if load_series(staged, record.run_id) != load_series(final, record.run_id):
                raise StoreError(f"{self.path}: run {record.run_id} is already stored with different time series")
        elif staged is not None:
            publish_series(staged, final)
            connection.execute(update(runs).where(runs.c.run_id == record.run_id).values(has_series=True))
        return False

    def _remove_orphan(self, run_id: str) -> None:
        """Remove the series of a run whose row could not be written (a full disk wants the room back)."""
        # What caused this is being raised already; a file that stays behind is harmless.
        with (
            suppress(SQLAlchemyError, OSError),
            self._engine.connect().execution_options(**IMMEDIATE) as connection,
            connection.begin(),
        ):
            if connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id)).one_or_none() is None:
                self._series_path(run_id).unlink(missing_ok=True)

    def _checked_text(self, record: RunRecord) -> str:
        if not RUN_ID.fullmatch(record.run_id):
            raise StoreError(f"run_id {record.run_id!r} is not usable; allowed: letters, digits, '.', '_', '-'")
        text = record_text(record)
        # What could be written but not read back would be lost without anybody noticing.
        parse_record(text, f"run {record.run_id}")
        return text

    def _require_writable(self) -> None:
        if not self.writable:
            raise StoreError(f"{self.path}: the run store was opened for reading only")

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, run_id: str) -> RunRecord:
        """The record of a run, by its id or a unique beginning of it."""
        row = self._find(run_id)
        return self._record(row.run_id, row.record)

    def series(self, run_id: str) -> Series | None:
        """The time series of a run, or None when none were kept."""
        row = self._find(run_id)
        return load_series(self._series_path(row.run_id), row.run_id) if row.has_series else None

    def list(self, where: RunFilter = EVERYTHING, *, limit: int | None = None) -> list[RunSummary]:
        """The runs that match, newest first. Reads no record, so one that is damaged hides nothing."""
        statement = matching(self._summaries(), where).order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
        if limit is not None:
            statement = statement.limit(limit)
        return [summary_of(row) for row in self._rows(statement, "list runs")]

    def page(self, *, before: int | None = None, after: int | None = None, limit: int) -> Page:
        """Runs in the order of saving, the last first: from the end, those before a place, or all after one.

        So a list of any length is read in pieces, and kept up to date by asking for what came after its ``last``.
        """
        statement = self._summaries().add_columns(saved_order)
        if before is not None:
            statement = statement.where(saved_order < before)
        if after is not None:
            statement = statement.where(saved_order > after)
        # Ascending after a place: what is beyond the limit is then found by asking again.
        statement = statement.order_by(saved_order if after is not None else saved_order.desc()).limit(limit)
        rows = self._rows(statement, "list runs")
        if after is not None:
            rows = rows[::-1]
        if not rows:
            return Page([], before or 0, after or 0)
        return Page([summary_of(row) for row in rows], rows[-1].saved, rows[0].saved)

    def note(self, run_id: str) -> RunNote | None:
        """The note on a run, None when there is none."""
        found = self._find(run_id).run_id
        note = self.notes(found).get(found)
        return note if note is not None and note.text is not None else None

    def notes(self, run_id: str | None = None) -> dict[str, RunNote]:
        """The notes by run id, those that were removed (without text) too."""
        if self._version < 2:
            return {}
        with store_errors(self.path, "read notes"), self._engine.connect() as connection:
            return read_notes(connection, run_id)

    def calibrations(
        self, testbed_fingerprint: str | None = None, *, limit: int | None = None
    ) -> builtins.list[dict[str, Any]]:
        """Calibrations, newest first, of every testbed or of one."""
        if self._version < 2:
            return []
        with store_errors(self.path, "read calibrations"), self._engine.connect() as connection:
            return read_calibrations(connection, testbed_fingerprint, limit=limit)

    def latest_calibration(self, testbed_fingerprint: str) -> dict[str, Any] | None:
        """The newest calibration of a testbed, None when it was never calibrated."""
        return next(iter(self.calibrations(testbed_fingerprint, limit=1)), None)

    def count(self, where: RunFilter = EVERYTHING) -> int:
        """How many runs match."""
        return int(self._rows(matching(select(func.count()).select_from(runs), where), "count runs")[0][0])

    def iterate(
        self, where: RunFilter = EVERYTHING, *, unreadable: Callable[[StoreError], None] | None = None
    ) -> Iterator[RunRecord]:
        """The records that match, oldest first, a page at a time.

        A record that cannot be read raises StoreError with its run id; given ``unreadable``, that is told and the rest
        goes on.
        """
        columns = select(runs.c.started_at, runs.c.run_id, runs.c.record)
        statement = matching(columns, where).order_by(runs.c.started_at, runs.c.run_id).limit(PAGE_RUNS)
        page = self._rows(statement, "read runs")
        while page:
            for row in page:
                try:
                    record = self._record(row.run_id, row.record)
                except StoreError as exc:
                    if unreadable is None:
                        raise
                    unreadable(exc)
                else:
                    yield record
            last = page[-1]
            after = tuple_(runs.c.started_at, runs.c.run_id) > (last.started_at, last.run_id)
            page = self._rows(statement.where(after), "read runs")

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]:
        """Every trial of this plan on this testbed that has a valid or suspect run, and the newest of them; sorted."""
        statement = (
            select(runs.c.plan_point, runs.c.repetition, runs.c.run_id, runs.c.verdict)
            .where(
                runs.c.plan_hash == plan_hash,
                runs.c.testbed_fingerprint == testbed_fingerprint,
                runs.c.verdict.in_(("valid", "suspect")),
            )
            .order_by(runs.c.plan_point, runs.c.repetition, runs.c.started_at, runs.c.run_id)
        )
        rows = self._rows(statement, "read the runs of a plan")
        newest = {(row.plan_point, row.repetition): (row.run_id, row.verdict) for row in rows}
        return [StoredTrial(*trial, *run) for trial, run in newest.items()]

    def _summaries(self) -> Select[Any]:
        if self._version < 2:
            return select(*SUMMARY_COLUMNS_1).select_from(runs)
        return select(*SUMMARY_COLUMNS).select_from(runs.outerjoin(notes, notes.c.run_id == runs.c.run_id))

    def _find(self, run_id: str) -> Row[Any]:
        if not RUN_ID.fullmatch(run_id):
            raise StoreError(f"{run_id!r} is not a run id or the beginning of one")
        columns = select(runs.c.run_id, runs.c.has_series, runs.c.record)
        exact = self._rows(columns.where(runs.c.run_id == run_id), f"read run {run_id}")
        if exact:
            return exact[0]
        # A range rather than LIKE, which ignores case; DEL sorts behind every character an id may hold.
        beginning = and_(runs.c.run_id >= run_id, runs.c.run_id < run_id + "\x7f")
        found = self._rows(columns.where(beginning).order_by(runs.c.run_id).limit(6), f"read run {run_id}")
        if not found:
            raise StoreError(f"{self.path}: there is no run {run_id}")
        if len(found) > 1:
            names = ", ".join(row.run_id for row in found[:5]) + (", …" if len(found) > 5 else "")
            raise StoreError(f"{self.path}: {run_id} is the beginning of several runs: {names}")
        return found[0]

    def _rows(self, statement: Select[Any], doing: str) -> Sequence[Row[Any]]:
        with store_errors(self.path, doing), self._engine.connect() as connection:
            return connection.execute(statement).all()

    def _record(self, run_id: str, text: str) -> RunRecord:
        record = parse_record(text, f"{self.path}: run {run_id}")
        if record.run_id != run_id:
            raise StoreError(f"{self.path}: run {run_id}: its record says that it is run {record.run_id}")
        return record

    def _series_path(self, run_id: str) -> Path:
        return self.series_dir / f"{run_id}.npz"

    # -- the file -----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        with self._engine.connect() as connection:
            present = self._tables(connection)
        if present:
            with self._engine.connect() as connection:
                self._check_schema(connection)
        raw = self._engine.raw_connection()
        try:  # outside a transaction, as this pragma needs; only once the file is known to be ours
            raw.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            raw.close()
        with self._engine.connect().execution_options(**IMMEDIATE) as connection, connection.begin():
            if self._tables(connection):
                # Looked at again under the write lock: another process may have migrated it meanwhile.
                version = self._check_schema(connection)
                if version < SCHEMA_VERSION:
                    migrate(connection, version)
            else:
                create_tables(connection)

    def _tables(self, connection: Connection) -> set[str]:
        return set(inspect(connection).get_table_names())

    def _check_schema(self, connection: Connection) -> int:
        """The file's version. Raises StoreError unless this program can read it."""
        if not {schema_version.name, runs.name} <= self._tables(connection):
            raise StoreError(f"{self.path}: is a database, but not a run store")
        version = connection.execute(select(func.max(schema_version.c.version))).scalar_one()
        if not isinstance(version, int) or version < 1:
            raise StoreError(f"{self.path}: the run store has no schema version; it was not created completely")
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: the run store has schema version {version}; labconsole {__version__} knows up to "
                f"{SCHEMA_VERSION}: use the newer labconsole that wrote it"
            )
        return version

    def _remove_stale(self) -> None:
        limit = time.time() - STALE_S
        for left in self.series_dir.glob(".tmp-*"):
            try:
                if left.stat().st_mtime < limit:
                    left.unlink()
            except FileNotFoundError:
                continue  # another process opened the store at the same time and was faster
