"""Checks a bundle's tables against its runs by an independent path. The files are read here, bounded in their cells."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labconsole.measure.recompute.tables import ABSTRACTS, CLAIMING, OF_GUESTS, wrong_cells
from labconsole.model.record.summary import RunSummary

CHECKED_TABLES = ("results", *CLAIMING, *OF_GUESTS, *ABSTRACTS)

MAX_CELLS = 2 << 20
"""For all tables that are in memory during the comparison: 35 000 design points of sixty columns each."""

MAX_COLUMNS = 1000
MAX_ROW_CHARACTERS = 1 << 20
"""For one row, over any number of lines."""


def wrong_tables(directory: Path, runs: list[RunSummary], manifest: dict[str, Any]) -> Iterator[str]:
    """Sentences on cells of ``directory``'s tables that do not follow from the bundle's runs."""
    try:
        entered, missing = _read_entered(directory / "runs.csv", {run.run_id for run in runs})
        tables = _read_tables(
            [directory / f"{name}.csv" for name in CHECKED_TABLES if (directory / f"{name}.csv").exists()]
        )
    except (OSError, ValueError, csv.Error, KeyError) as exc:
        yield f"report: its tables cannot be read: {exc}"
        return
    if missing is not None:
        yield f"report/runs.csv: {missing[:80]} enters a mean, but is not among the runs"
    selection = manifest.get("selection")
    pool = selection.get("pool") if isinstance(selection, dict) else None
    pooled = [name for name in pool if isinstance(name, str)] if isinstance(pool, list) else []
    yield from wrong_cells(tables, (run for run in runs if run.run_id in entered), pooled, runs)


def _read_entered(path: Path, known: set[str]) -> tuple[set[str], str | None]:
    """The known runs that enter a mean according to this table, and the id of the first unknown run, or None."""
    entered: set[str] = set()
    missing: str | None = None
    for row in read_rows(path):
        if row.get("enters") == "True":
            run_id = row["run_id"]
            if run_id in known:
                entered.add(run_id)
            else:
                missing = run_id if missing is None else min(missing, run_id)
    return entered, missing


def _read_tables(paths: list[Path]) -> dict[str, list[dict[str, str]]]:
    tables: dict[str, list[dict[str, str]]] = {}
    cells = 0
    for path in paths:
        rows = tables.setdefault(path.stem, [])
        for row in read_rows(path):
            cells += len(row)
            if cells > MAX_CELLS:
                raise ValueError(f"{path.name}: the tables have more than {MAX_CELLS} cells")
            rows.append(row)
    return tables


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file by column.

    Raises ValueError for a row that is not as wide as the head, for more than ``MAX_COLUMNS`` columns, and for a row of
    more than ``MAX_ROW_CHARACTERS``. OSError and csv.Error pass through.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        characters_left = MAX_ROW_CHARACTERS

        def lines() -> Iterator[str]:
            nonlocal characters_left
            while line := stream.readline(characters_left + 1):
                characters_left -= len(line)
                if characters_left < 0:
                    raise ValueError(f"{path.name}: a row has more than {MAX_ROW_CHARACTERS} characters")
                yield line

        reader = csv.reader(lines())
        head = next(reader, [])
        if len(head) > MAX_COLUMNS:
            raise ValueError(f"{path.name}: has {len(head)} columns; allowed: {MAX_COLUMNS}")
        for row in reader:
            characters_left = MAX_ROW_CHARACTERS
            if len(row) != len(head):
                raise ValueError(f"{path.name}: line {reader.line_num} has {len(row)} cells, the head has {len(head)}")
            yield dict(zip(head, row, strict=True))
