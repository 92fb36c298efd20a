"""Checks the runs that other runs rest on: a pilot's trials, and the maximum that a load is a share of. Pure; format 2.

A few fields of every run are kept. A pilot belongs to its plan, so it must be there and must have given the results
that others derive from it. A maximum that was stored before may be elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labconsole.measure.recompute.discrepancy import Discrepancy, against, same
from labconsole.model.design_point import BACKGROUND_FRAME_BYTES
from labconsole.model.record.run import RunRecord

RecordDiscrepancy = tuple[str, Discrepancy]

IDLE_BACKGROUND = "idle"
"""The background of the second guest when the maximum for a forwarding guest's load is measured."""


def setting_of(record: RunRecord) -> str:
    """The request without the load."""
    return record.requested.model_dump_json(exclude={"target_bps"})


@dataclass(frozen=True, slots=True)
class _ReferenceRun:
    """One run, as others may rest on it."""

    role: str
    testbed: str
    platform: str
    is_idle_reference: bool
    setting: int
    target_bps: int | str
    rates_pps: tuple[float | None, float | None]
    """Forwarding rate, measured rate."""

    @property
    def rate_pps(self) -> float | None:
        """The rate that the pilot compares."""
        return self.rates_pps[0] if self.rates_pps[0] is not None else self.rates_pps[1]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """One run's values that the pilot, or runs stored before, fixed for it."""

    run_id: str
    role: str
    run_ids: tuple[str, ...]
    testbed: str
    platform: str
    setting: int
    maximum_target_bps: int | str | None
    reference_pps: float | None


@dataclass(frozen=True, slots=True)
class _Share:
    """The maximum of which one run's second guest forwarded a share."""

    run_id: str
    of: str
    testbed: str
    platform: str
    runs: Any
    measured_pps: Any
    target_bps: Any


class ReferenceCheck:
    """Takes record after record; when all are there, ``ending`` yields wrong references."""

    def __init__(self) -> None:
        self.elsewhere = 0
        self._runs: dict[str, _ReferenceRun] = {}
        self._fixed: list[_Fixed] = []
        self._shares: list[_Share] = []

    def add(self, record: RunRecord) -> None:
        """Add one more record."""
        requested, total, bed = record.requested, record.total, record.testbed_fingerprint
        setting = hash(setting_of(record))
        idle = (requested.background, requested.frame_size_bytes, requested.sources) == (
            IDLE_BACKGROUND,
            BACKGROUND_FRAME_BYTES,
            1,
        )
        rates = (total.forwarding_pps, total.measured_pps)
        self._runs[record.run_id] = _ReferenceRun(
            record.role, bed, requested.platform, idle, setting, requested.target_bps, rates
        )
        fixed = record.plan.fixed if record.plan is not None else None
        if fixed is not None and fixed.run_ids and record.role != "pilot":
            role = "pilot" if fixed.source == "pilot" else ""
            self._fixed.append(
                _Fixed(
                    record.run_id,
                    role,
                    fixed.run_ids,
                    bed,
                    requested.platform,
                    setting,
                    fixed.maximum_target_bps,
                    fixed.reference_pps,
                )
            )
        reference = record.background.reference if record.background is not None else None
        if reference is not None and isinstance(reference.get("run_id"), str):
            figures = [reference.get(name) for name in ("runs", "measured_pps", "target_bps")]
            self._shares.append(_Share(record.run_id, str(reference["run_id"]), bed, requested.platform, *figures))

    def ending(self) -> Iterator[RecordDiscrepancy]:
        """Yield references to missing runs, and references whose values do not follow."""
        for fixed in self._fixed:
            for found in self._check_pilot(fixed):
                yield fixed.run_id, found
        for share in self._shares:
            for found in self._check_share(share):
                yield share.run_id, found

    def _check_pilot(self, fixed: _Fixed) -> Iterator[Discrepancy]:
        where = "plan.fixed.run_ids"
        absent = [each for each in fixed.run_ids if each not in self._runs]
        if absent:
            if fixed.role:
                yield against(where, f"{absent[0][:80]} is not among these runs")
            else:
                self.elsewhere += 1
            return
        runs = {each: self._runs[each] for each in fixed.run_ids}
        for name, run in runs.items():
            if (run.testbed, run.platform) != (fixed.testbed, fixed.platform):
                yield against(where, f"{name} was measured on another testbed or platform")
            elif fixed.role and run.role != fixed.role:
                yield against(where, f"{name} is not a trial of the pilot but {run.role}")
        known = [run for run in runs.values() if run.setting == fixed.setting and run.rate_pps is not None]
        best = min(known, key=lambda run: (-(run.rate_pps or 0.0), _load(run.target_bps)), default=None)
        if best is not None and fixed.maximum_target_bps not in (None, best.target_bps):
            says = f"is {fixed.maximum_target_bps}, and these runs forwarded most at {best.target_bps}"
            yield against("plan.fixed.maximum_target_bps", says, fixed.maximum_target_bps)
        rates = [run.rate_pps for run in runs.values() if run.is_idle_reference and run.rate_pps is not None]
        if fixed.reference_pps is not None and rates and not same(fixed.reference_pps, max(rates)):
            says = f"is {fixed.reference_pps}, and the highest of these runs with an idle guest is {max(rates)}"
            yield against("plan.fixed.reference_pps", says, fixed.reference_pps)

    def _check_share(self, share: _Share) -> Iterator[Discrepancy]:
        run, where = self._runs.get(share.of), "background.reference"
        if run is None:
            self.elsewhere += 1
            return
        if (run.testbed, run.platform) != (share.testbed, share.platform):
            yield against(f"{where}.run_id", f"{share.of[:80]} was measured on another testbed or platform")
        elif not run.is_idle_reference:
            yield against(f"{where}.run_id", f"{share.of[:80]} was not one stream of 64 B with an idle second guest")
        elif run.target_bps != share.target_bps:
            yield against(f"{where}.target_bps", f"is not the load of {share.of[:80]}, {run.target_bps}")
        elif share.runs == 1 and not any(same(share.measured_pps, rate) for rate in run.rates_pps):
            yield against(f"{where}.measured_pps", f"is {share.measured_pps}, which {share.of[:80]} did not forward")


def _load(target_bps: int | str) -> float:
    return target_bps if isinstance(target_bps, int) else float("inf")
