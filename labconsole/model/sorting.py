"""By what runs can be sorted."""

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
"""What runs can be sorted by, under the names of the list's columns. ``store.run_queries`` has the same for a database."""


@dataclass(frozen=True, slots=True)
class Sorting:
    """By which column, and whether the largest comes first."""

    column: str = "started"
    descending: bool = True

    def apply(self, runs: list[RunSummary]) -> list[RunSummary]:
        """Sorted; what is not known comes last either way. ``runs`` are newest first, and so are equal ones."""
        if self == Sorting():
            return runs
        value = SORTS[self.column]
        known = [run for run in runs if value(run) is not None]
        known.sort(key=value, reverse=self.descending)
        return known + [run for run in runs if value(run) is None]

    @classmethod
    def by(cls, column: str) -> Sorting:
        """By a column, the larger first where that is a number."""
        return cls(column, column in ("started", "offered", "measured", "loss", "duration"))
