"""Parquet: one row per run, in typed columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from labconsole.errors import ConfigError
from labconsole.store.exporting import COLUMNS, ChosenRuns, row_values
from labconsole.text.extras import build_install_command
from labconsole.text.sanitize import sanitize

BINARY = True


def parts(runs: ChosenRuns) -> Iterator[bytes]:
    """Yield the file, with rows oldest first. Raises ConfigError without pyarrow.

    Times are instants in UTC, reason codes are lists, and text is sanitized.
    """
    try:
        import pyarrow
        from pyarrow import parquet as parquet_files
    except ImportError as exc:
        raise ConfigError(
            f"Parquet needs pyarrow, which cannot be loaded ({exc}): {build_install_command('parquet')}", key="--format"
        ) from None
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "real": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    fields = [(name, types[kind]) for name, kind in COLUMNS.items() if name != "reason_codes"]
    fields.insert(list(COLUMNS).index("reason_codes"), ("reason_codes", pyarrow.list_(pyarrow.string())))
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in runs.rows():
        for name, value in row_values(row).items():
            columns[name].append(_harmless(value))
    columns["started_at"] = [datetime.fromisoformat(value) for value in columns["started_at"]]
    table = pyarrow.table(columns, schema=pyarrow.schema(fields))
    packed = io.BytesIO()
    parquet_files.write_table(table, packed)
    yield packed.getvalue()


def _harmless(value: object) -> object:
    if isinstance(value, str):
        return sanitize(value)
    return [*map(_harmless, value)] if isinstance(value, list | tuple) else value
