"""What the formats of ``exporters`` share: the runs that were chosen, and the columns of a table with a row per run.

A table has the columns of COLUMNS, always all of them and in that order. What a reader would guess wrongly is spelt
out: the target ``max`` is a column of its own, so that ``target_bps`` is a column of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from labconsole.errors import StoreError
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.model.record.summary import RunSummary
from labconsole.store.reading import StoredRuns

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
    INCLUDES_FCS: "boolean",
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
    "role": "text",
}
"""Of a row. docs/data-format.md explains them; what is not known is an empty cell, and a null in Parquet."""


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """What is exported of a store."""

    store: StoredRuns
    chosen: Sequence[RunSummary] | None
    """Newest first; None: all."""
    unreadable: Callable[[StoreError], None]
    """Is told what had to be left out."""

    def rows(self) -> list[RunSummary]:
        """Oldest first."""
        return list(reversed(self.store.list() if self.chosen is None else self.chosen))


def row_values(row: RunSummary) -> dict[str, Any]:
    """The value of every column, None where it is not known."""
    values: dict[str, Any] = {name: getattr(row, name, None) for name in COLUMNS}
    values["target_is_max"] = row.target_bps == "max"
    values["target_bps"] = None if row.target_bps == "max" else row.target_bps
    return values


def text_values(row: RunSummary) -> dict[str, Any]:
    """The same for a file of text: unknown is empty, truth ``true`` or ``false``, codes are joined by semicolons."""
    values: dict[str, Any] = {name: _text(value) for name, value in row_values(row).items()}
    values["reason_codes"] = ";".join(row.reason_codes)
    return values


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value
