"""Comma-separated values: a row per run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from labconsole.store.exporting import COLUMNS, ChosenRuns, row_values
from labconsole.text.spreadsheet import harmless_cell

BINARY = False


def parts(runs: ChosenRuns) -> Iterator[str]:
    """A header, then the rows, oldest first, in UTF-8; truth is ``true`` and ``false``."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in runs.rows():
        values = row_values(row)
        values["reason_codes"] = ";".join(row.reason_codes)
        writer.writerow([_cell(value) for value in values.values()])
        if text.tell() > 1 << 16:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else harmless_cell(value)
