"""Saved runs as files for other programs: JSON lines with everything, CSV and Parquet with a row per run.

A table has the columns of COLUMNS, always all of them and in that order. What a reader would guess wrongly is spelt
out: the target ``max`` is a column of its own, so that ``target_bps`` is a column of numbers.
"""

from __future__ import annotations

import csv as csv_files
import io
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from labconsole.errors import ConfigError, StoreError
from labconsole.model.note import exported
from labconsole.model.spreadsheet import harmless_cell
from labconsole.store.reading import StoredRuns
from labconsole.store.summary import RunSummary

Kind = Literal["text", "integer", "real", "boolean", "time"]

COLUMNS: dict[str, Kind] = {
    "run_id": "text",
    "started_at": "time",
    "testbed": "text",
    "testbed_fingerprint": "text",
    "emulated": "boolean",
    "generator": "text",
    "platform": "text",
    "frame_size_bytes": "integer",
    "frame_size_includes_fcs": "boolean",
    "sources": "integer",
    "target_bps": "integer",
    "target_is_max": "boolean",
    "background": "text",
    "duration_s": "real",
    "plan_name": "text",
    "plan_hash": "text",
    "plan_point": "integer",
    "repetition": "integer",
    "verdict": "text",
    "reason_codes": "text",
    "offered_pps": "real",
    "offered_bps": "real",
    "measured_pps": "real",
    "measured_bps": "real",
    "loss_packets": "integer",
    "loss_ratio": "real",
    "has_series": "boolean",
    "note": "text",
}
"""Of a row. docs/data-format.md explains them; what is not known is an empty cell, and a null in Parquet."""

FORMATS = ("jsonl", "csv", "parquet")


def kind_of(wanted: str | None, out: Path | None) -> str:
    """The format: as asked for, else by the file's name, else JSON lines. Raises ConfigError."""
    suffix = out.suffix.removeprefix(".") if out is not None else ""
    kind = wanted or (suffix if suffix in FORMATS else "jsonl")
    if kind == "parquet" and out is None:
        raise ConfigError("a Parquet file cannot go to the terminal; say where with --out FILE", key="--format")
    return kind


def to_file(out: Path | None, parts: Iterable[str] | Iterable[bytes]) -> None:
    """Write to a file, which is there with all of it or as it was before; to stdout without one."""
    if out is None:
        for part in parts:
            assert isinstance(part, str)
            sys.stdout.write(part)
        return
    partial = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        try:
            with partial.open("xb") as stream:
                for part in parts:
                    stream.write(part.encode() if isinstance(part, str) else part)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(out)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise ConfigError(f"cannot be written: {exc.strerror or exc}", key="--out", value=str(out)) from None


def jsonl(
    store: StoredRuns, chosen: Sequence[RunSummary] | None, unreadable: Callable[[StoreError], None]
) -> Iterator[str]:
    """A line per run, with its note, then one per search with a trial among them: what ``runs import`` takes back.

    Oldest first.
    """
    notes = store.notes()
    only = None if chosen is None else {run.run_id for run in chosen}
    for record in store.iterate(unreadable=unreadable):
        if only is None or record.run_id in only:
            yield json.dumps(exported(record, notes.get(record.run_id))) + "\n"
    for search in reversed(store.searches()):
        if only is None or any(trial.run_id in only for trial in search.trials):
            yield json.dumps({"search": search.to_json()}) + "\n"


def csv(rows: Iterable[RunSummary]) -> Iterator[str]:
    """Comma-separated, a header, UTF-8; truth is ``true`` and ``false``."""
    text = io.StringIO(newline="")
    writer = csv_files.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        values = _values(row)
        values["reason_codes"] = ";".join(row.reason_codes)
        writer.writerow([_cell(value) for value in values.values()])
        if text.tell() > 1 << 16:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def parquet(rows: Sequence[RunSummary]) -> Iterator[bytes]:
    """Typed columns: times are instants in UTC, reason codes are lists. Raises ConfigError without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet as parquet_files
    except ImportError as exc:
        raise ConfigError(
            f"Parquet needs pyarrow, which cannot be loaded ({exc}): pip install 'labconsole[parquet]'", key="--format"
        ) from None
    from datetime import datetime

    types = {
        "text": pyarrow.string(), "integer": pyarrow.int64(), "real": pyarrow.float64(), "boolean": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }  # fmt: skip
    fields = [(name, types[kind]) for name, kind in COLUMNS.items() if name != "reason_codes"]
    fields.insert(list(COLUMNS).index("reason_codes"), ("reason_codes", pyarrow.list_(pyarrow.string())))
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        for name, value in _values(row).items():
            columns[name].append(value)
    columns["started_at"] = [datetime.fromisoformat(value) for value in columns["started_at"]]
    table = pyarrow.table(columns, schema=pyarrow.schema(fields))
    packed = io.BytesIO()
    parquet_files.write_table(table, packed)
    yield packed.getvalue()


def _values(row: RunSummary) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(row, name, None) for name in COLUMNS}
    values["target_is_max"] = row.target_bps == "max"
    values["target_bps"] = None if row.target_bps == "max" else row.target_bps
    return values


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else harmless_cell(value)
