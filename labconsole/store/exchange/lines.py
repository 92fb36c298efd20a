"""Runs as lines of JSON, to move them between stores: each line is a record, with its note under a key of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labconsole.errors import StoreError
from labconsole.model.record.kind import ExperimentRecord, RecordKind
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.note import PLAN_NOTE, NotedRecord, PlanNote
from labconsole.store.experiments import parse_experiment
from labconsole.store.notes import note_from_json, plan_note_from_json
from labconsole.store.records import json_object, parse_record
from labconsole.store.untrusted_json import MAX_RECORD_BYTES


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
