"""Imports exported runs into a store, all or none: first reads and checks them, then writes them at once.

Reading twenty thousand records takes half a minute, writing their rows two seconds. Only the writing needs the write
lock, for which another console may be waiting with a run that it has just measured.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from sqlalchemy import Connection, insert, select

from labconsole.errors import StoreError
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.note import NotedRecord, PlanNote, RunNote, plan_key
from labconsole.model.record.run import RunRecord
from labconsole.store.exchange.import_checks import SetUps, refuse_implausible, stored_set_ups, trial_number_of
from labconsole.store.exchange.lines import ExportedExperiment, parse_exported
from labconsole.store.experiments import experiment_text, parse_experiment, write_experiment
from labconsole.store.notes import write_note
from labconsole.store.records import checked_text, same_record
from labconsole.store.sql.schema import build_row, runs
from labconsole.store.writing import RunStore

Importable = NotedRecord | RunRecord | ExportedExperiment | PlanNote | Mapping[str, Any] | str

CHUNK_RUNS = 500
"""The number of rows that are looked up and written at a time."""


def counted_kinds() -> dict[str, int]:
    """A count of 0 for each kind of experiment, by its plural."""
    return {kind.plural: 0 for kind in record_kinds().values()}


@dataclass(slots=True)
class ImportResult:
    """The numbers of runs that an import added and found present, and of imported notes and experiments."""

    added: int = 0
    present: int = 0
    notes: int = 0
    experiments: dict[str, int] = field(default_factory=counted_kinds)

    def to_json(self) -> dict[str, int]:
        """As ``runs import --json`` prints it: experiments by their kinds, on a line with the others."""
        return {"added": self.added, "present": self.present, "notes": self.notes, **self.experiments}


class ImportBuffer:
    """The checked rows of an import, in a temporary file because records may exceed memory."""

    def __init__(self, records: Iterable[Importable], *, refusing: bool = False) -> None:
        """Raise StoreError about the first invalid record.

        ``refusing``: also about an impossible one (import_checks.py).
        """
        self._file: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 closed by __exit__
        self._experiments: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 the same
        self._plan_notes: list[PlanNote] = []
        self._set_ups = SetUps("import") if refusing else None
        try:
            for number, item in enumerate(records, 1):
                self._add(item, number)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ImportBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files, which deletes them."""
        self._file.close()
        self._experiments.close()

    def _add(self, item: Importable, number: int) -> None:
        if isinstance(item, RunRecord):
            item = NotedRecord(item, None)
        elif not isinstance(item, (NotedRecord, ExportedExperiment, PlanNote)):
            item = parse_exported(item, f"record {number}")
        if isinstance(item, ExportedExperiment):
            self._experiments.write(json.dumps([item.kind.name, experiment_text(item.kind, item.record)]) + "\n")
            return
        if isinstance(item, PlanNote):
            self._plan_notes.append(item)
            return
        row = build_row(item.record, checked_text(item.record), has_series=False)
        trial = trial_number_of(item.record)
        if self._set_ups is not None:
            refuse_implausible(item.record, f"record {number}")
            self._set_ups.take(row, trial)
        self._file.write(json.dumps([row, None if item.note is None else item.note.to_json(), trial]) + "\n")

    def write(self, connection: Connection, name: str) -> ImportResult:
        """Write everything into the tables. Needs the write lock. ``name``: the store's name in messages."""
        result = ImportResult()
        self._file.seek(0)
        lines: Iterator[Any] = map(json.loads, self._file)
        while chunk := list(islice(lines, CHUNK_RUNS)):
            if self._set_ups is not None:
                set_ups = stored_set_ups(connection, [row for row, _, _ in chunk], name)
                for row, _, trial in chunk:
                    set_ups.take(row, trial)
            _write_runs(connection, [row for row, _, _ in chunk], name, result)
            for row, note, _ in chunk:
                if note is not None:
                    result.notes += write_note(connection, row["run_id"], RunNote(**note))
        for noted in self._plan_notes:
            key = plan_key(noted.plan_hash, noted.testbed_fingerprint)
            result.notes += write_note(connection, key, noted.note)
        self._experiments.seek(0)
        for kind, text in ((record_kinds()[name], text) for name, text in map(json.loads, self._experiments)):
            record = parse_experiment(kind, text, f"import: {kind.name}")
            result.experiments[kind.plural] += write_experiment(connection, kind, record)
        return result


def import_records(store: RunStore, records: Iterable[Importable], *, refusing: bool = False) -> ImportResult:
    """Import records from elsewhere: all of them, or none and a StoreError about the first bad one.

    The newer of two notes on one run is kept. ``refusing``: an impossible place or set-up is bad, too.
    """
    store.require_writable()
    with (
        store.backend.errors("import runs"),
        ImportBuffer(records, refusing=refusing) as spool,
        store.backend.writing() as connection,
    ):
        return spool.write(connection, store.name)


def _write_runs(connection: Connection, rows: list[dict[str, Any]], name: str, result: ImportResult) -> None:
    ids = [row["run_id"] for row in rows]
    found = connection.execute(select(runs.c.run_id, runs.c.record).where(runs.c.run_id.in_(ids)))
    there: dict[str, str] = {row.run_id: row.record for row in found}
    new: list[dict[str, Any]] = []
    for row in rows:
        run_id, text = row["run_id"], row["record"]
        if run_id not in there:
            there[run_id] = text
            new.append(row)
        elif not same_record(there[run_id], text, f"{name}: run {run_id}"):
            raise StoreError(f"{name}: run {run_id} is already stored with different content")
        else:
            result.present += 1
    if new:
        connection.execute(insert(runs), new)
        result.added += len(new)
