"""The writing half of a store: each run is saved in one transaction, completely or not at all, and never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import Connection, insert, select, update

from labconsole.contracts.ports import Series
from labconsole.errors import StoreError
from labconsole.model.identity import RUN_ID
from labconsole.model.record.annotations import Baseline, plan_key
from labconsole.model.record.run import RunRecord
from labconsole.store.experiments import ExperimentsWriting
from labconsole.store.location import FileLocation, StoreLocation
from labconsole.store.notes import checked_note, newer_than, read_notes, write_baseline, write_calibration, write_note
from labconsole.store.reading import QueryableRuns
from labconsole.store.records import checked_text, same_record
from labconsole.store.series import pack_series, unpack_series
from labconsole.store.sql.backend import Backend, open_for_writing, open_read_only
from labconsole.store.sql.schema import SCHEMA_VERSION, build_row, runs


class RunStore(QueryableRuns, ExperimentsWriting):
    """All runs of a lab. Every method blocks and may be called from any thread, from several at once."""

    def __init__(self, location: StoreLocation, *, write: bool = True, foreign: bool = False) -> None:
        self.writable = write
        self.version = SCHEMA_VERSION
        self.backend = _open_backend(location, write=write)
        with self.backend.errors("open the run store"):
            try:
                self.version = (
                    open_for_writing(self.backend) if write else open_read_only(self.backend, foreign=foreign)
                )
            except BaseException:
                self.backend.close()
                raise

    def save(self, record: RunRecord, series: Series | None = None) -> None:
        """Store one run durably, or raise StoreError and store nothing. The same run again changes nothing."""
        self.require_writable()
        packed = None if series is None else pack_series(record.run_id, series)
        self.take_over([(record, packed)], doing=f"save run {record.run_id}")

    def take_over(self, complete: Sequence[tuple[RunRecord, bytes | None]], *, doing: str = "import runs") -> int:
        """Store runs with their packed series, all of them or none. Returns the number of new ones."""
        texts = [checked_text(record) for record, _ in complete]
        self.require_writable()
        added, failed = 0, True
        staged: list[Any] = []
        with self.backend.errors(doing):
            try:
                for record, packed in complete:
                    staged.append(None if packed is None else self.backend.stage(record.run_id, packed))
                with self.backend.writing() as connection:
                    for (record, packed), text, place in zip(complete, texts, staged, strict=True):
                        added += self._insert_run(connection, record, text, packed, place)
                failed = False
            finally:
                for (record, _), place in zip(complete, staged, strict=False):
                    if place is not None:
                        self.backend.unstage(record.run_id, place, failed=failed)
        return added

    def set_note(self, run_id: str, text: str | None, *, author: str) -> None:
        """Set the note on a run, replacing the existing one; None or blanks remove it."""
        note = checked_note(text, author)
        self.require_writable()
        found = self._find(run_id).run_id
        with self.writing(f"note run {found}") as connection:
            write_note(connection, found, newer_than(note, read_notes(connection, found).get(found)))

    def set_baseline(self, first: Baseline, *more: Baseline) -> None:
        """Set or move a baseline, of one occasion or several; earlier ones can still be looked up."""
        with self.writing(f"set baseline {first.name}") as connection:
            for each in (first, *more):
                write_baseline(connection, each)

    def set_plan_note(self, plan_hash: str, testbed_fingerprint: str, text: str | None, *, author: str) -> None:
        """Set the note on a plan of a testbed, which need not have runs."""
        note, key = checked_note(text, author), plan_key(plan_hash, testbed_fingerprint)
        with self.writing(f"note plan {plan_hash}") as connection:
            write_note(connection, key, newer_than(note, read_notes(connection, key).get(key)))

    def save_calibration(self, record: dict[str, Any]) -> None:
        """Save a calibration of the testbed that its ``testbed_fingerprint`` names."""
        with self.writing("save a calibration") as connection:
            write_calibration(connection, record)

    def hold(self, what: str, holder: str) -> AbstractContextManager[None]:
        """Keep every other process on this store from locking ``what`` (letters, digits, '.', '_', '-') meanwhile.

        The lock ends with the block or with the process, however that ends. Raises StoreHeld, which gives the
        ``holder`` name of the other process.
        """
        if not RUN_ID.fullmatch(what):
            raise StoreError(f"{what!r} cannot be locked; allowed: letters, digits, '.', '_', '-'")
        self.require_writable()
        return self._holding(what, holder)

    @contextmanager
    def _holding(self, what: str, holder: str) -> Iterator[None]:
        lock = self.backend.hold(what, holder)
        with self.backend.errors(f"hold {what}"):
            lock.__enter__()
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextmanager
    def writing(self, doing: str) -> Iterator[Connection]:
        """A writing transaction: afterwards all of it is on the disk, or nothing."""
        self.require_writable()
        with self.backend.errors(doing), self.backend.writing() as connection:
            yield connection

    def _insert_run(
        self, connection: Connection, record: RunRecord, text: str, packed: bytes | None, staged: Any
    ) -> bool:
        """Insert a run; True if it is new. Needs the write lock, so no other process can be saving the same run."""
        there = connection.execute(
            select(runs.c.record, runs.c.has_series).where(runs.c.run_id == record.run_id)
        ).one_or_none()
        if there is None:
            if packed is not None:
                self.backend.publish(connection, record.run_id, staged)
            connection.execute(insert(runs).values(build_row(record, text, has_series=packed is not None)))
            return True
        if not same_record(there.record, text, f"{self.name}: run {record.run_id}"):
            raise StoreError(f"{self.name}: run {record.run_id} is already stored with different content")
        if packed is not None and there.has_series:
            kept, where = self.backend.series(connection, record.run_id)
            if packed != kept and not _same_series(record.run_id, packed, kept, where):
                raise StoreError(f"{self.name}: run {record.run_id} is already stored with different time series")
        elif packed is not None:
            self.backend.publish(connection, record.run_id, staged)
            connection.execute(update(runs).where(runs.c.run_id == record.run_id).values(has_series=True))
        return False

    def require_writable(self) -> None:
        """Raise StoreError if the store was opened for reading only."""
        if not self.writable:
            raise StoreError(f"{self.name}: the run store was opened read-only")


def _same_series(run_id: str, one: bytes, other: bytes, where: str) -> bool:
    return unpack_series(one, run_id, "as given") == unpack_series(other, run_id, where)


def _open_backend(location: StoreLocation, *, write: bool) -> Backend:
    # Imported separately: a store in a file needs no psycopg.
    if isinstance(location, FileLocation):
        from labconsole.store.sql.sqlite import SqliteBackend

        return SqliteBackend(location, write=write)
    from labconsole.store.sql.postgresql import PostgresBackend

    return PostgresBackend(location, write=write)
