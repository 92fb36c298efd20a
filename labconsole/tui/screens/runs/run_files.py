"""Files of marked runs: JSON lines as ``runs export`` writes them, or CSV for a spreadsheet. Blocking."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import IO, Protocol

from labconsole.engine.protocol import RunsStore
from labconsole.errors import LabError
from labconsole.model.record.note import exported
from labconsole.model.record.summary import RunSummary
from labconsole.text.sanitize import sanitize_cell
from labconsole.tui.parts import new_file


class RunsToWrite(Protocol):
    """Runs of a known number."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[RunSummary]: ...


SUFFIXES = (".jsonl", ".csv")


def create(name: str) -> tuple[Path, IO[str]]:
    """Create a file for runs. Raises ValueError with a sentence."""
    return new_file.create(name, SUFFIXES)


def write(path: Path, stream: IO[str], runs: RunsToWrite, store: RunsStore) -> tuple[int, list[str]]:
    """Write the runs and close the file. Returns how many, and why others could not be written.

    A full disk leaves no partial file.
    """
    problems: list[str] = []
    try:
        with stream:
            if path.suffix == ".csv":
                written = _write_csv(stream, runs)
            else:
                written = sum(_write_record(stream, run.run_id, store, problems) for run in runs)
    except OSError as exc:
        path.unlink(missing_ok=True)
        return 0, [f"{path} cannot be written: {exc.strerror or exc}"]
    except LabError as exc:  # the list itself cannot be read to its end
        path.unlink(missing_ok=True)
        return 0, [str(exc)]
    return written, problems


def _write_record(stream: IO[str], run_id: str, store: RunsStore, problems: list[str]) -> bool:
    try:
        record = store.get(run_id)
        if record is None:
            raise LabError(f"{run_id} is no longer in the store")
        stream.write(json.dumps(exported(record, store.note(run_id))) + "\n")
    except LabError as exc:
        problems.append(str(exc))
        return False
    return True


def _write_csv(stream: IO[str], runs: RunsToWrite) -> int:
    """Write a column per factor and result, named as in the store. Unknown values are empty. Returns the number of
    rows.
    """
    written = 0
    names = [field.name for field in fields(RunSummary)]
    writer = csv.writer(stream)
    writer.writerow(names)
    for run in runs:
        row = [getattr(run, name) for name in names]
        writer.writerow([sanitize_cell(";".join(value) if isinstance(value, tuple) else value) for value in row])
        written += 1
    return written
