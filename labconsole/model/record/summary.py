"""Rows of run lists, their filters and their order: the factor columns, without the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from labconsole.model.design_point import FrameSize

# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One row of the list of runs. Rates and counts are sums over the streams; None is "not known".

    Except for conditions and counts, only records of format 2 have the fields after ``note``: ``set_up`` is the id of
    the set-up that the run was taken in, ``set_up_trials`` its number of trials when complete.
    """

    run_id: str
    started_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    generator: str
    platform: str
    frame_size_bytes: int | None
    frame_size_includes_fcs: bool
    sources: int
    target_bps: int | Literal["max"]
    background: str
    duration_s: float
    plan_name: str | None
    plan_hash: str | None
    plan_point: int | None
    repetition: int | None
    verdict: str
    reason_codes: tuple[str, ...]
    offered_pps: float | None
    offered_bps: float | None
    measured_pps: float | None
    measured_bps: float | None
    loss_packets: int | None
    loss_ratio: float | None
    has_series: bool
    note: str | None = None
    format: int | None = None
    role: str | None = None
    method: int | None = None
    set_up: str | None = None
    block: int | None = None
    attempt: int | None = None
    attempts: int | None = None
    set_up_trials: int | None = None
    uut_kernel: str | None = None
    hypervisor: str | None = None
    boot_id: str | None = None
    offered_packets: int | None = None
    forwarding_pps: float | None = None
    forwarding_bps: float | None = None
    source_lost_packets: int | None = None
    uut_lost_packets: int | None = None
    sink_lost_packets: int | None = None
    late_packets: int | None = None

    @property
    def frame(self) -> FrameSize | None:
        """The frame size in its convention, or None for frames of several sizes."""
        return None if self.frame_size_bytes is None else FrameSize(self.frame_size_bytes, self.frame_size_includes_fcs)


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs, the last saved first. ``first`` and ``last`` are positions in the order of saving."""

    runs: list[RunSummary]
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A filter for runs: every field that is not None must match one of its values.

    ``since`` <= start < ``until``, both RFC 3339.
    """

    testbed: str | Collection[str] | None = None
    testbed_fingerprint: str | Collection[str] | None = None
    emulated: bool | None = None
    generator: str | Collection[str] | None = None
    platform: str | Collection[str] | None = None
    frame_size_bytes: int | Collection[int] | None = None
    frame_size_includes_fcs: bool | None = None
    sources: int | Collection[int] | None = None
    target_bps: int | str | Collection[int | str] | None = None
    background: str | Collection[str] | None = None
    plan_name: str | Collection[str] | None = None
    plan_hash: str | Collection[str] | None = None
    verdict: str | Collection[str] | None = None
    since: str | None = None
    until: str | None = None


EVERYTHING = RunFilter()


# -- order -------------------------------------------------------------------------------------------------------------
# Sort orders of runs.

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
