"""Rows of run lists, and their filters: the factor columns, without the record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from labconsole.model.design_point import FrameSize


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
