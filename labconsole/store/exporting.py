"""What the formats of ``exporters`` share: the runs that were chosen, and the columns of a table with a row per run.

A table has the columns of COLUMNS, always all of them and in that order. What a reader would guess wrongly is spelt
out: the target ``max`` is a column of its own, so that ``target_bps`` is a column of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from labconsole.errors import StoreError
from labconsole.measure.drop_causes import drops_of_run
from labconsole.measure.packet_times import QUANTILES, TIMES_OF_RUNS, column_of, times_of_run
from labconsole.model.design_point import INCLUDES_FCS
from labconsole.model.record.kernel_drops import EXTENSION as KERNEL_DROPS
from labconsole.model.record.packet_times import EXTENSION as PACKET_TIMES
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
"""Of a row. docs/data-format.md explains them; what is not known is an empty cell, and a null in Parquet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfKernels(RunSummary):
    """A run of which kernels told: when every packet came, or why some were dropped. ``told``: the columns of it."""

    told: Mapping[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """What is exported of a store."""

    store: StoredRuns
    chosen: Sequence[RunSummary] | None
    """Newest first; None: all."""
    unreadable: Callable[[StoreError], None]
    """Is told what had to be left out."""

    def rows(self) -> list[RunSummary]:
        """Oldest first; those of which kernels told have it."""
        told = self._told()
        rows = reversed(self.store.list() if self.chosen is None else self.chosen)
        return [_add_kernel_columns(row, told[row.run_id]) if row.run_id in told else row for row in rows]

    def _told(self) -> dict[str, dict[str, int | bool | str]]:
        """By run. Only records that have some of it are read."""
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
            told = {**(times_of_run(record.streams) or {}), **(drops_of_run(record) or {})}
            if told:
                found[run_id] = told
        return found


def _add_kernel_columns(row: RunSummary, told: Mapping[str, int | bool | str]) -> RunOfKernels:
    return RunOfKernels(**{field.name: getattr(row, field.name) for field in fields(RunSummary)}, told=told)


def row_values(row: RunSummary) -> dict[str, Any]:
    """The value of every column, None where it is not known."""
    values: dict[str, Any] = {name: getattr(row, name, None) for name in COLUMNS}
    values |= row.told if isinstance(row, RunOfKernels) else {}
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
