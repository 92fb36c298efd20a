"""Comma-separated values: one row per run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from labconsole.store.exporting import COLUMNS, ChosenRuns, text_values
from labconsole.text.sanitize import sanitize_cell

BINARY = False


def parts(runs: ChosenRuns) -> Iterator[str]:
    """Yield a header, then the rows, oldest first, in UTF-8. Booleans are ``true`` and ``false``."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in runs.rows():
        writer.writerow([sanitize_cell(value) for value in text_values(row).values()])
        if text.tell() > 1 << 16:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()
