"""The common parts of ``exporters``: the selected runs, and the columns of a table with one row per run.

A table has the columns of COLUMNS, always all of them and in that order. Easily misread values are spelt out: the
target ``max`` is a column of its own, so that ``target_bps`` is a column of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from labconsole.errors import StoreError
from labconsole.measure.drop_causes import drops_of_run
from labconsole.measure.packet_times import QUANTILES, TIMES_OF_RUNS, column_of, times_of_run
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.model.record.extensions import KERNEL_DROPS, PACKET_TIMES
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
    "timed_packets": "integer",
    **{column_of(name, each): "integer" for name in TIMES_OF_RUNS for each in (*QUANTILES, "max")},
    "kernel_drops_packets": "integer",
    "kernel_drops_complete": "boolean",
    "kernel_drops": "text",
}
"""The columns of a row, which docs/data-format.md explains.

An unknown value is an empty cell, and a null in Parquet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfKernels(RunSummary):
    """A run with the columns that kernels reported: when packets arrived, or why some were dropped."""

    told: Mapping[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """The runs of a store that are exported."""

    store: StoredRuns
    chosen: Sequence[RunSummary] | None
    """Newest first, or None for all."""
    unreadable: Callable[[StoreError], None]
    """Called with the error for each record that had to be left out."""

    def rows(self) -> list[RunSummary]:
        """The rows, oldest first, with the columns from kernels where there are any."""
        columns = self._read_kernel_columns()
        rows = reversed(self.store.list() if self.chosen is None else self.chosen)
        return [_add_kernel_columns(row, columns[row.run_id]) if row.run_id in columns else row for row in rows]

    def _read_kernel_columns(self) -> dict[str, dict[str, int | bool | str]]:
        """The columns from kernels, by run id. Reads only records that contain some."""
        only = None if self.chosen is None else {run.run_id for run in self.chosen}
        found = {}
        extensions = [f'"{name}"' for name in (PACKET_TIMES, KERNEL_DROPS)]
        for run_id, text in self.store.texts(holding=extensions) if only is None or only else ():
            if only is not None and run_id not in only:
                continue
            try:
                record = self.store.parsed(run_id, text)
            except StoreError as exc:
                self.unreadable(exc)
                continue
            columns = {**(times_of_run(record.streams) or {}), **(drops_of_run(record) or {})}
            if columns:
                found[run_id] = columns
        return found


def _add_kernel_columns(row: RunSummary, columns: Mapping[str, int | bool | str]) -> RunOfKernels:
    return RunOfKernels(**{field.name: getattr(row, field.name) for field in fields(RunSummary)}, told=columns)


def row_values(row: RunSummary) -> dict[str, Any]:
    """The value of every column, or None if it is not known."""
    values: dict[str, Any] = {name: getattr(row, name, None) for name in COLUMNS}
    values |= row.told if isinstance(row, RunOfKernels) else {}
    values["target_is_max"] = row.target_bps == "max"
    values["target_bps"] = None if row.target_bps == "max" else row.target_bps
    return values


def text_values(row: RunSummary) -> dict[str, Any]:
    """The values for a text file: unknown ones are empty, booleans true or false, lists joined by semicolons."""
    values: dict[str, Any] = {name: _text(value) for name, value in row_values(row).items()}
    values["reason_codes"] = ";".join(row.reason_codes)
    return values


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value
