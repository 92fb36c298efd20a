"""The papers' evaluation from runs: throughput over offered load, maxima, relative changes. Pure; method.md section 4.

Runs of one design point are its repetitions. A maximum is over all offered loads, because a platform can collapse
beyond it; it is the design point with the highest mean, and carries that point's interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from labconsole.measure.statistics import Ratio, Summary, ratio, summarize

DEDICATED = "none"
"""The background of the dedicated scenario: no second guest."""

IDLE = "idle"
"""A second guest that does nothing: the paper's baseline for background load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPoint:
    """One design point and its repetitions. Rates are sums over the streams; ``*_bps`` is bandwidth on the wire."""

    platform: str
    frame_size_bytes: int
    frame_size_includes_fcs: bool
    sources: int
    target_bps: int | None
    background: str
    offered_bps: Summary
    measured_bps: Summary
    measured_pps: Summary
    loss_ratio: Summary | None
    measured_values_bps: tuple[float, ...]
    run_ids: tuple[str, ...]

    @property
    def n(self) -> int:
        """Repetitions that entered."""
        return self.measured_bps.n

    @property
    def key(self) -> tuple[str, int, bool, int, str]:
        """All factors but the target."""
        return (self.platform, self.frame_size_bytes, self.frame_size_includes_fcs, self.sources, self.background)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The maximum of one setting relative to another's; the relative change is ``value`` - 1."""

    subject: DesignPoint
    baseline: DesignPoint
    ratio: Ratio

    @property
    def value(self) -> float:
        """Mean over mean. ``changes`` makes none where the baseline's mean is zero."""
        return self.subject.measured_bps.mean / self.baseline.measured_bps.mean

    @property
    def detectable(self) -> bool | None:
        """Whether the interval of the ratio excludes 1; None where there is no interval."""
        if self.ratio.ci_low is None or self.ratio.ci_high is None:
            return None
        return not self.ratio.ci_low <= 1 <= self.ratio.ci_high


def design_points(runs: pd.DataFrame) -> list[DesignPoint]:
    """Every design point of the runs (as frame.sample keeps them), ordered by its factors."""
    return sorted(_points(runs), key=lambda p: (*p.key[1:], p.platform, p.target_bps is None, p.target_bps or 0))


def _points(runs: pd.DataFrame) -> Iterator[DesignPoint]:
    factors = ["platform", "frame_size_bytes", "frame_size_includes_fcs", "sources", "target_bps", "background"]
    # dropna=False: the target max is a missing number, not a missing group.
    for key, group in runs.groupby(factors, observed=True, dropna=False, sort=False):
        platform, size, fcs, sources, target, background = key
        losses = group["loss_ratio"].dropna()
        measured = tuple(float(value) for value in group["measured_bps"])
        yield DesignPoint(
            platform=str(platform),
            frame_size_bytes=int(size),
            frame_size_includes_fcs=bool(fcs),
            sources=int(sources),
            target_bps=None if pd.isna(target) else int(target),
            background=str(background),
            offered_bps=summarize([float(v) for v in group["offered_bps"]]),
            measured_bps=summarize(measured),
            measured_pps=summarize([float(v) for v in group["measured_pps"]]),
            loss_ratio=summarize([float(v) for v in losses]) if len(losses) else None,
            measured_values_bps=measured,
            run_ids=tuple(group["run_id"]),
        )


def maxima(points: Sequence[DesignPoint]) -> dict[tuple[str, int, bool, int, str], DesignPoint]:
    """For every setting (all factors but the target) the point with the highest mean measured rate."""
    best: dict[tuple[str, int, bool, int, str], DesignPoint] = {}
    for point in points:
        held = best.get(point.key)
        if held is None or point.measured_bps.mean > held.measured_bps.mean:
            best[point.key] = point
    return best


def changes(points: Sequence[DesignPoint], backgrounds: Sequence[str], baselines: Sequence[str]) -> list[Change]:
    """Maxima under each background relative to the first of ``baselines`` that was measured for the same setting."""
    best = maxima(points)
    found = []
    for (platform, size, fcs, sources, background), subject in best.items():
        if background not in backgrounds:
            continue
        for name in baselines:
            baseline = best.get((platform, size, fcs, sources, name))
            if baseline is not None and baseline.measured_bps.mean > 0:
                compared = ratio(subject.measured_values_bps, baseline.measured_values_bps)
                found.append(Change(subject=subject, baseline=baseline, ratio=compared))
                break
    return found
