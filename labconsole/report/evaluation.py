"""The papers' evaluation from runs: throughput over offered load, maxima, relative changes. Pure; method.md section 4.

What a design point is, which runs enter it and where a maximum lies is measure/design_points.py's, as for the console's
curves; here a point gets the report's intervals. A maximum carries the interval of the point at which it lies: that the
point was chosen for being the highest is not in the interval, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from labconsole.measure import design_points as grouping
from labconsole.measure.design_points import DesignPoint, DesignPoints, Repetitions, RunLike
from labconsole.measure.statistics import Ratio, Summary, ratio, summarize

DEDICATED = "none"
"""The background of the dedicated scenario: no second guest."""

IDLE = "idle"
"""A second guest that does nothing: the paper's baseline for background load."""

CPU_LOADS = ("light", "heavy")
FORWARDING = ("forwarding-50", "forwarding-95")

CPU_BASELINES = (IDLE, DEDICATED)
"""Of table 1: section 3.4 of the paper starts from a second guest without load. Without one, no second guest."""

NETWORK_BASELINES = (DEDICATED, IDLE)
"""Of figure 5: the dedicated maximum. Where there is none, beside an idle second guest."""

Setting = tuple[str, int, bool, int, str]
"""Platform, frame size, whether it includes the FCS, sources, background: all factors but the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
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
    def key(self) -> Setting:
        """All factors but the target."""
        return (self.platform, self.frame_size_bytes, self.frame_size_includes_fcs, self.sources, self.background)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The maximum of one setting relative to another's; the relative change is ``value`` - 1.

    ``loads``: at how many of them both were measured; the maxima are over these.
    """

    subject: Point
    baseline: Point
    ratio: Ratio
    loads: int

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGuestRun:
    """What the second guest's own streams did in one run, summed; None where a stream is not known.

    ``wire_bytes``: what one of its frames takes on the wire; None where they differ.
    """

    run_id: str
    offered_bps: float | None
    measured_bps: float | None
    wire_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGuest:
    """The second guest beside one setting of the first. ``target_bps`` None with ``all_loads``: over all of them."""

    platform: str
    frame_size_bytes: int
    frame_size_includes_fcs: bool
    sources: int
    target_bps: int | None
    all_loads: bool
    background: str
    offered_bps: Summary
    measured_bps: Summary
    run_ids: tuple[str, ...]

    @property
    def lost_ratio(self) -> float | None:
        """Of the means; None where nothing was offered."""
        return 1 - self.measured_bps.mean / self.offered_bps.mean if self.offered_bps.mean else None


def design_points(runs: pd.DataFrame) -> list[Point]:
    """Every design point of the runs (as frame.sample keeps them), ordered by its factors, raw first."""
    grouped = DesignPoints(_rows(runs)).points.items()
    return sorted((_point(*item) for item in grouped), key=_order)


def _rows(runs: pd.DataFrame) -> Iterable[RunLike]:
    """The frame's rows as the grouping reads them: None where pandas has a missing number."""
    bare = runs.assign(**{name: _with_none(runs[name]) for name in ("target_bps", *grouping.QUANTITIES)})
    return cast("Iterable[RunLike]", bare.itertuples(index=False, name="Run"))


def _with_none(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(object).where(column.notna(), None)


def _point(design: DesignPoint, repetitions: Repetitions) -> Point:
    offered, measured, packets = (
        summarize(repetitions.known(name)) for name in ("offered_bps", "measured_bps", "measured_pps")
    )
    return Point(
        platform=design.platform,
        frame_size_bytes=int(design.frame_size_bytes),
        frame_size_includes_fcs=bool(design.includes_fcs),
        sources=int(design.sources),
        target_bps=None if design.target_bps == "max" else int(design.target_bps),
        background=design.background,
        offered_bps=offered,
        measured_bps=measured,
        measured_pps=packets,
        loss_ratio=repetitions.summary("loss_ratio"),
        measured_values_bps=tuple(repetitions.known("measured_bps")),
        run_ids=tuple(repetitions.run_ids),
    )


def platform_order(name: str) -> tuple[bool, str]:
    """The bare host first, as in the papers, then by name: the same order in every selection of runs."""
    return (not name.startswith("raw"), name)


def background_order(kind: str) -> tuple[int, str]:
    """From nothing beside the guest to the heaviest."""
    kinds = (DEDICATED, IDLE, *CPU_LOADS, *FORWARDING)
    return (kinds.index(kind) if kind in kinds else len(kinds), kind)


def _order(p: Point) -> tuple[object, ...]:
    _, size, fcs, sources, background = p.key
    where = (size, fcs, platform_order(p.platform), sources, background_order(background))
    return (*where, p.target_bps is None, p.target_bps or 0)


def maxima(points: Iterable[Point]) -> dict[Setting, Point]:
    """For every setting (all factors but the target) the point with the highest mean measured rate."""
    return grouping.maxima(points, lambda point: point.key, lambda point: point.measured_bps.mean)


def changes(points: Sequence[Point], backgrounds: Sequence[str], baselines: Sequence[str]) -> list[Change]:
    """Maxima under each background relative to the first of ``baselines`` that was measured for the same setting.

    Over the loads at which both were measured: a platform that collapses beyond its maximum would else seem slowed by
    a background that was only tried at the highest load.
    """
    settings: dict[Setting, list[Point]] = {}
    for point in points:
        settings.setdefault(point.key, []).append(point)
    found = []
    for (platform, size, fcs, sources, background), held in settings.items():
        if background not in backgrounds:
            continue
        for name in baselines:
            change = _compared(held, settings.get((platform, size, fcs, sources, name), ()))
            if change is not None:
                found.append(change)
                break
    return found


def _compared(subjects: Sequence[Point], baselines: Sequence[Point]) -> Change | None:
    """None where no load was measured under both, or where nothing came through the baseline."""
    common = {point.target_bps for point in subjects} & {point.target_bps for point in baselines}
    best = [
        max((point for point in group if point.target_bps in common), key=lambda p: p.measured_bps.mean, default=None)
        for group in (subjects, baselines)
    ]
    subject, baseline = best
    if subject is None or baseline is None or baseline.measured_bps.mean <= 0:
        return None
    compared = ratio(subject.measured_values_bps, baseline.measured_values_bps)
    return Change(subject=subject, baseline=baseline, ratio=compared, loads=len(common))


def second_guests(points: Sequence[Point], seen: Iterable[SecondGuestRun], *, all_loads: bool) -> list[SecondGuest]:
    """Offered and measured of the second guest beside each point of the first, or beside all its loads together.

    The papers' tables 2 and 3 average over the loads. Runs whose second guest sent nothing known do not enter.
    """
    held = {run.run_id: run for run in seen}
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        if point.background in FORWARDING:
            groups.setdefault((*point.key, None if all_loads else (point.target_bps,)), []).append(point)
    return list(_second(groups.values(), held, all_loads))


def _second(groups: Iterable[list[Point]], held: dict[str, SecondGuestRun], all_loads: bool) -> Iterator[SecondGuest]:
    for group in groups:
        known = [
            (run.run_id, run.offered_bps, run.measured_bps)
            for point in group
            for run in (held.get(run_id) for run_id in point.run_ids)
            if run is not None and run.offered_bps is not None and run.measured_bps is not None
        ]
        if not known:
            continue
        first = group[0]
        yield SecondGuest(
            platform=first.platform,
            frame_size_bytes=first.frame_size_bytes,
            frame_size_includes_fcs=first.frame_size_includes_fcs,
            sources=first.sources,
            target_bps=None if all_loads else first.target_bps,
            all_loads=all_loads,
            background=first.background,
            offered_bps=summarize(offered for _, offered, _ in known),
            measured_bps=summarize(measured for _, _, measured in known),
            run_ids=tuple(run_id for run_id, _, _ in known),
        )
