"""Sort orders of runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labconsole.model.record.summary import RunSummary

SORTS: dict[str, Callable[[RunSummary], Any]] = {
    "started": lambda run: (run.started_at, run.run_id),
    "verdict": lambda run: run.verdict,
    "platform": lambda run: run.platform,
    "size": lambda run: run.frame_size_bytes,
    "sources": lambda run: run.sources,
    "target": lambda run: math.inf if run.target_bps == "max" else run.target_bps,
    "background": lambda run: run.background,
    "duration": lambda run: run.duration_s,
    "offered": lambda run: run.offered_pps,
    "measured": lambda run: run.measured_pps,
    "loss": lambda run: run.loss_ratio,
    "note": lambda run: run.note,
}
"""Sort keys of runs, by the names of the list's columns. ``store.run_queries`` has the same for a database."""


@dataclass(frozen=True, slots=True)
class Sorting:
    """A sort column, and whether the largest comes first."""

    column: str = "started"
    descending: bool = True

    def apply(self, runs: list[RunSummary]) -> list[RunSummary]:
        """Sort runs; unknown values are last in either direction. ``runs`` are newest first, as equal ones stay."""
        if self == Sorting():
            return runs
        value = SORTS[self.column]
        known = [run for run in runs if value(run) is not None]
        known.sort(key=value, reverse=self.descending)
        return known + [run for run in runs if value(run) is None]

    @classmethod
    def by(cls, column: str) -> Sorting:
        """Sort by a column, the larger first for numbers."""
        return cls(column, column in ("started", "offered", "measured", "loss", "duration"))
