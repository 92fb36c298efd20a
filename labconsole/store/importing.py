"""Imports exported runs into a store, all or none: lines of JSON are read and checked, then written at once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, insert, select

from labconsole.errors import StoreError
from labconsole.model.record.annotations import PLAN_NOTE, NotedRecord, PlanNote, RunNote, plan_key
from labconsole.model.record.kind import ExperimentRecord, RecordKind, record_kinds
from labconsole.model.record.run import PlanRef, RunRecord
from labconsole.store.experiments import experiment_text, parse_experiment, write_experiment
from labconsole.store.notes import note_from_json, plan_note_from_json, write_note
from labconsole.store.records import MAX_RECORD_BYTES, checked_text, json_object, parse_record, same_record
from labconsole.store.sql.schema import build_row, runs
from labconsole.store.writing import RunStore

# -- lines -------------------------------------------------------------------------------------------------------------
# Runs as lines of JSON, to move them between stores: each line is a record, with its note under a key of its own.


@dataclass(frozen=True, slots=True)
class ExportedExperiment:
    """A record that is no run."""

    kind: RecordKind[Any]
    record: ExperimentRecord


def parse_exported(source: str | bytes | Mapping[str, Any], where: str) -> NotedRecord | ExportedExperiment | PlanNote:
    """Parse one exported run, a bare record, an experiment or a plan's note.

    Raises StoreError beginning with ``where``.
    """
    data = json_object(source, where)
    name, inside = next(iter(data.items()), (None, None))
    if len(data) == 1 and name in record_kinds() and isinstance(inside, dict):
        kind = record_kinds()[name]
        return ExportedExperiment(kind, parse_experiment(kind, inside, where))
    if len(data) == 1 and name == PLAN_NOTE:
        return plan_note_from_json(inside, where)
    if len(data) == 1 and name != "format":
        raise StoreError(f"{where}: has only the key {name!r}, which is not a kind of record that this version knows")
    note = data.pop("note", None)
    return NotedRecord(parse_record(data, where), None if note is None else note_from_json(note, where))


def read_jsonl(path: Path) -> Iterator[NotedRecord | ExportedExperiment | PlanNote]:
    """Yield the contents of an export, one per line. Raises StoreError naming file and line of a bad one."""
    for number, line in read_lines(path):
        yield parse_exported(line, f"{path}:{number}")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, each with its number from 1.

    Raises StoreError for a line longer than ``MAX_RECORD_BYTES``, and for a file that cannot be read.
    """
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(MAX_RECORD_BYTES + 1):
                number += 1
                if len(line) > MAX_RECORD_BYTES:
                    raise StoreError(f"{path}:{number}: the line has more than {MAX_RECORD_BYTES} bytes; no record has")
                if line.strip():
                    yield number, line
    except OSError as exc:
        raise StoreError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


# -- checks ------------------------------------------------------------------------------------------------------------
# Records that a store refuses to import: impossible places in a plan, and impossible set-ups.
#
# A run that claims a set-up in which it was not measured would be averaged with the runs that were. What shows only in
# comparison with all other runs (a place that whole set-ups filled twice, one capture in two runs) is imported, and
# `labconsole verify` reports it.

MOST_ATTEMPTS = 101
"""A plan repeats a trial at most 100 times (max_redo)."""

COUNTED = {
    "point": 0,
    "repetition": 1,
    "warm_ups": 0,
    "block": 0,
    "attempt": 1,
    "attempts": 1,
    "position": 1,
    "set_ups": 1,
    "repetitions": 1,
    "set_up_trials": 1,
}
"""The lowest value of each number in a plan's place."""

OF_ONE_SET_UP = ("testbed_fingerprint", "platform")
OF_ONE_BLOCK = ("plan_hash", "block", "background")
"""Columns that are equal for all runs of a set-up; OF_ONE_BLOCK only if the set-up belongs to a block of a plan."""

Row = Mapping[str, Any]


def refuse_implausible(record: RunRecord, where: str) -> None:
    """Raise StoreError for a record whose place in its plan or whose set-up is impossible."""
    if record.format == 1:
        return
    sentence = (
        _find_implausible_set_up(record)
        if record.plan is None
        else _find_implausible_plan(record.plan) or _find_implausible_set_up(record)
    )
    if sentence is not None:
        raise StoreError(f"{where}: run {record.run_id}: {sentence}")


def _find_implausible_plan(plan: PlanRef) -> str | None:
    for name, least in COUNTED.items():
        value = getattr(plan, name)
        if value is not None and value < least:
            return f"plan.{name} is {value}; allowed: {least} or more"
    if plan.attempts > MOST_ATTEMPTS:
        return f"plan.attempts is {plan.attempts}; allowed: at most {MOST_ATTEMPTS}"
    if plan.attempt > plan.attempts:
        return f"plan.attempt is {plan.attempt} of at most {plan.attempts}"
    if plan.repetitions is not None and plan.repetition > plan.repetitions:
        return f"plan.repetition is {plan.repetition} of {plan.repetitions}"
    if plan.block is not None and plan.set_ups is not None and plan.block > plan.set_ups:
        return f"plan.block is {plan.block} of {plan.set_ups}"
    return None


def _find_implausible_set_up(record: RunRecord) -> str | None:
    set_up, plan = record.set_up, record.plan
    if set_up is None:
        return "is in a block of its plan but in no set-up" if plan is not None and plan.block else None
    if set_up.trial < 1:
        return f"set_up.trial is {set_up.trial}; allowed: 1 or more"
    return None


def trial_number_of(record: RunRecord) -> int | None:
    """The number of the trial within its set-up, from 1, or None without a set-up."""
    return record.set_up.trial if record.set_up is not None else None


@dataclass(slots=True)
class _StoredSetUp:
    """A set-up: the facts of its first run, and the run id of each of its trials."""

    run_id: str
    facts: dict[str, Any]
    trials: dict[int, str] = field(default_factory=dict)


class SetUps:
    """Receives stored runs and new runs, and refuses runs that cannot share a set-up."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: dict[str, _StoredSetUp] = {}

    def take(self, row: Row, trial: int | None) -> None:
        """Add one more run. ``row``: its columns. Raises StoreError naming both runs."""
        name, run_id = row["set_up"], row["run_id"]
        if name is None or trial is None:
            return
        columns = (*OF_ONE_SET_UP, *(OF_ONE_BLOCK if row["block"] else ()))
        facts = {column: row[column] for column in columns}
        stored = self._seen.setdefault(name, _StoredSetUp(run_id, facts))
        for column, value in facts.items():
            first = stored.facts.setdefault(column, value)
            if first != value:
                said = f"{column} is {value} here but {first} in run {stored.run_id}"
                raise StoreError(f"{self._where}: run {run_id}: claims to belong to set-up {name}, but {said}")
        other = stored.trials.setdefault(trial, run_id)
        if other != run_id:
            said = f"claims to be trial {trial} of set-up {name}, which is run {other}"
            raise StoreError(f"{self._where}: run {run_id}: {said}")


class StoreSetUps:
    """The set-ups of a store and of the runs that are written to it.

    The stored runs of a set-up are read once, when a row first names it, however many rows of it follow.
    """

    def __init__(self, where: str) -> None:
        self._set_ups = SetUps(where)
        self._read: set[str] = set()

    def read(self, connection: Connection, rows: Iterable[Row]) -> None:
        """Read the stored runs of the set-ups that these rows are the first to name."""
        names = {row["set_up"] for row in rows} - {None} - self._read
        if not names:
            return
        self._read |= names
        columns = [runs.c[name] for name in ("run_id", "set_up", *OF_ONE_SET_UP, *OF_ONE_BLOCK)]
        there = select(*columns, runs.c.record).where(runs.c.set_up.in_(names)).order_by(runs.c.run_id)
        for row in connection.execute(there):
            _add_stored_run(self._set_ups, row._asdict())

    def take(self, row: Row, trial: int | None) -> None:
        """Add one more run. Raises StoreError naming both runs."""
        self._set_ups.take(row, trial)


def _add_stored_run(set_ups: SetUps, row: Row) -> None:
    """Add a stored run. One that was forged earlier, or cannot be read, does not exclude others."""
    try:
        set_ups.take(row, json_object(row["record"], "a stored run")["set_up"]["trial"])
    except (StoreError, ValueError, TypeError, KeyError):
        return


# -- importing ---------------------------------------------------------------------------------------------------------
# Reading twenty thousand records takes half a minute, writing their rows two seconds. Only the writing needs the write
# lock, for which another console may be waiting with a run that it has just measured.

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

        ``refusing``: also about an impossible one (store/importing.py).
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
        set_ups = StoreSetUps(name)
        while chunk := list(islice(lines, CHUNK_RUNS)):
            if self._set_ups is not None:
                set_ups.read(connection, [row for row, _, _ in chunk])
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
