"""A bundle's tables held against its runs by a path of their own: the files are read here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labconsole.measure.recompute.tables import ABSTRACTS, CLAIMING, OF_GUESTS, wrong_cells
from labconsole.model.record.summary import RunSummary

READ = ("results", *CLAIMING, *OF_GUESTS, *ABSTRACTS)


def wrong_tables(directory: Path, runs: list[RunSummary], manifest: dict[str, Any]) -> Iterator[str]:
    """Sentences about cells of ``directory``'s tables that the bundle's runs do not give."""
    try:
        entered = {row["run_id"] for row in _rows(directory / "runs.csv") if row.get("enters") == "True"}
        tables = {name: _rows(directory / f"{name}.csv") for name in READ if (directory / f"{name}.csv").exists()}
    except (OSError, ValueError, csv.Error, KeyError) as exc:
        yield f"report: its tables cannot be read: {exc}"
        return
    missing = sorted(entered - {run.run_id for run in runs})
    if missing:
        yield f"report/runs.csv: {missing[0][:80]} enters a mean, but is not among the runs"
    selection = manifest.get("selection")
    pool = selection.get("pool") if isinstance(selection, dict) else None
    pooled = [name for name in pool if isinstance(name, str)] if isinstance(pool, list) else []
    yield from wrong_cells(tables, (run for run in runs if run.run_id in entered), pooled, runs)


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
