"""Results of one design point over its occasions, where they change, and what else changed then. Pure.

An occasion is one measurement of a plan on a testbed. Its result at a design point is the mean of its set-ups. The
spread therefore includes what differs between occasions, such as the boot of the machine, and a change has to exceed
it. Results are forwarding rates of runs, and the quantities of searches, jobs, starts, flows and routers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from labconsole.contracts.measured import HELD, Quantity
from labconsole.measure.comparison import Pair
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.measure.trend import (
    MINIMUM_RESULTS,
    Level,
    Resolution,
    Segmentation,
    SmallestSteps,
    segment,
    smallest_steps,
)
from labconsole.report.changes import Side, declared_margin, design_key, find_differences
from labconsole.report.compared_effect import LOSS_UNKNOWN, UNIFORM, MeasuredPoint
from labconsole.report.formatting import format_design_point
from labconsole.report.points import PointSummary
from labconsole.report.quantity_changes import DIFFERENT_PROGRAMS, NONE_REACHED, UNKNOWN_SET_UPS, find_cache_objection

ALL_CARRIED: Final = "all that was offered was forwarded each time: the rate is the sender's"
SOME_CARRIED: Final = "in some trials all that was offered was forwarded: their rates are the sender's"
NOTHING_FORWARDED: Final = "nothing was forwarded on one occasion at least"
ALL_FULL: Final = "nothing was lost of all that could be offered each time"
SOME_FULL: Final = "on some occasions nothing was lost of all that could be offered"
NOTHING_MEASURED: Final = "it was 0 or less on one occasion at least"
TOO_FEW: Final = f"fewer than {MINIMUM_RESULTS} occasions"

RUN: Final = "run"
"""The kind of a trend of runs; other trends have the kind of their records."""

RATE: Final = Quantity(name="forwarding rate", unit="bps", better="higher", shown_unit="Mbit/s", scale=1e6)

LEAST_STEPS: Final = 1.5
"""Least change, in steps, of values that move in steps, such as counts and bounds of searches: a smaller change may be
the next step alone. Without it up to 3 in 4 series without a change were cut (simulated: 5 to 24 occasions of one
search each, whose loads vary by 0.1 to 2 steps), with it 1 in 20 at most.
"""

P = TypeVar("P")
"""A design point of one side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendStep:
    """A change between two neighbouring occasions. ``first``: the index of the first result after it. ``occasion``:
    that result's occasion. ``change_ratio``: of levels. ``better``: the direction, by its quantity. ``at_least``: the
    higher level may be higher still, as trials of it lost nothing.
    """

    first: int
    occasion: str
    started_at: str
    change_ratio: float
    better: bool
    at_least: bool
    differences: tuple[Pair, ...]


class TrendOutlier(NamedTuple):
    """An occasion that is apart; there are too few for a level. ``place``: the index of its result. ``change_ratio``:
    from the level around it. ``can_be_change``: only outliers follow it.
    """

    place: int
    occasion: str
    started_at: str
    change_ratio: float
    can_be_change: bool


class TrendResult(NamedTuple):
    """The result of one occasion. ``mean``: None if its trials have no value."""

    occasion: str
    started_at: str
    mean: SetUpMean | None

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """95 % interval over set-ups; that of a single one would not represent others."""
        mean = self.mean
        return (mean.ci_low, mean.ci_high) if mean is not None and mean.scope == "set-ups" else (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One quantity of one design point. ``results``: by the start of their occasions. ``steps``: where it changes.

    ``why``: the reason for not searching for a change. ``smallest``: the change that would be found 8 times of 10.
    ``margin_ratio``: smaller changes do not count, or None if no margin is declared.
    """

    kind: str
    quantity: Quantity
    words: str
    results: tuple[TrendResult, ...]
    levels: tuple[Level, ...]
    steps: tuple[TrendStep, ...]
    outliers: tuple[TrendOutlier, ...]
    smallest: SmallestSteps
    margin_ratio: float | None
    why: str | None

    @property
    def title(self) -> str:
        """The point, and the measured quantity if it is not the same for all of its kind."""
        return self.words if self.kind == RUN else f"{self.words}: {self.quantity.name}"

    @property
    def first_level(self) -> float | None:
        """The level that changes are relative to: the first level, or the first result; None if unknown."""
        if self.levels:
            return self.levels[0].mean
        mean = self.results[0].mean
        return None if mean is None else mean.mean


def find_trends(
    sides: Sequence[Side], complete: Callable[[Side], Side] = lambda side: side, margin_ratio: float | None = None
) -> list[Trend]:
    """``sides``: for each occasion one side of its runs alone, and one of its other trials.

    ``complete``: adds to a side all its known facts; called for occasions where something changed. ``margin_ratio``:
    the smallest change that matters, or None for the one that all their plans declare.
    """
    ordered = sorted(sides, key=_start_time)
    places = _testbeds(ordered)
    if margin_ratio is None:
        margin_ratio = declared_margin(ordered)
    runs = _series(ordered, places, lambda side: side.points, design_key)
    quantities = _series(ordered, places, lambda side: side.quantities, lambda point: point.key)
    found = [_run_series(points, where) for points, where in runs]
    found += [_quantity_series(points, where) for points, where in quantities]
    return [_trend(each, complete, margin_ratio) for each in found]


def _series(
    ordered: Sequence[Side],
    places: dict[int, str],
    points_of: Callable[[Side], Sequence[P]],
    key_of: Callable[[P], Hashable],
) -> list[tuple[list[tuple[Side, P]], str]]:
    """The same point on each side that has it, with its testbed if there are several."""
    found: dict[tuple[Hashable, str], list[tuple[Side, P]]] = {}
    for side in ordered:
        for point in points_of(side):
            found.setdefault((key_of(point), places[id(side)]), []).append((side, point))
    testbeds = {testbed for _, testbed in found}
    return [(points, f" on {testbed}" if len(testbeds) > 1 else "") for (_, testbed), points in found.items()]


def _testbeds(ordered: Sequence[Side]) -> dict[int, str]:
    """The testbed of each side, by name; by name and fingerprint if two of one name alternate."""
    testbeds = {id(side): _testbed(side) for side in ordered}
    found = {}
    for side in ordered:
        name, fingerprint = testbeds[id(side)]
        own = [each[1] for each in testbeds.values() if each[0] == name]
        changes = sum(before != after for before, after in pairwise(own))
        found[id(side)] = name if changes < len(set(own)) else f"{name} ({fingerprint})"
    return found


def _testbed(side: Side) -> tuple[str, str]:
    of = side.kept.entered[0] if side.kept.entered else side.trials[0]
    return of.testbed, of.testbed_fingerprint


def _start_time(side: Side) -> str:
    began = [run.started_at for run in side.kept.entered] + [each.started_at for each in side.trials if each.values]
    return min(began, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """The data of a trend. ``at_least``: for each result whether more may have been possible. ``bound_reason``: why
    such results leave no change. ``step``: the smallest difference of values, in their unit.
    """

    kind: str
    quantity: Quantity
    words: str
    results: Sequence[tuple[Side, SetUpMean | None]]
    at_least: Sequence[bool]
    bound_reason: str
    why: str | None
    step: float


def _run_series(side_points: Sequence[tuple[Side, PointSummary]], where: str) -> _Series:
    points = [point for _, point in side_points]
    why = (
        ALL_CARRIED
        if all(point.carries_all for point in points)
        else TOO_FEW
        if len(points) < MINIMUM_RESULTS
        else LOSS_UNKNOWN
        if None in [point.missing_ratio for point in points]
        else NOTHING_FORWARDED
        if not min(point.rate_bps.mean for point in points) > 0
        else None
    )
    return _Series(
        kind=RUN,
        quantity=RATE,
        words=format_design_point(points[0].design) + where,
        results=[(side, point.rate_bps) for side, point in side_points],
        bound_reason=SOME_CARRIED,
        why=why,
        at_least=[bool(point.full_run_ids) for point in points],
        step=max((point.rate_bps.mean / point.packets for point in points if point.packets), default=0.0),
    )


def _quantity_series(side_points: Sequence[tuple[Side, MeasuredPoint]], where: str) -> _Series:
    points = [point for _, point in side_points]
    means = [point.mean for point in points]
    said = set().union(*(point.bounds for point in points))
    work = set().union(*(point.seen(lambda trial: trial.work) for point in points))
    cached = find_cache_objection(said, [point.from_memory for point in points])
    why = (
        cached
        if cached is not None
        else HELD
        if HELD in said
        else NONE_REACHED
        if "none" in said
        else LOSS_UNKNOWN
        if "unknown" in said
        else ALL_FULL
        if said == {"at least"}
        else DIFFERENT_PROGRAMS
        if len(work) > 1
        else UNKNOWN_SET_UPS
        if any(None in point.boots for point in points)
        else TOO_FEW
        if len(points) < MINIMUM_RESULTS
        else NOTHING_MEASURED
        if not all(mean is not None and mean.mean > 0 for mean in means)
        else None
    )
    values = [value for point in points for value in point.values if value.value is not None]
    steps = [value.value * value.width_ratio for value in values if value.value and value.width_ratio]
    steps += [value.resolution for value in values if value.resolution]
    key = points[0].key
    return _Series(
        kind=key.kind,
        quantity=key.quantity,
        words=points[0].words + where,
        results=[(side, mean) for (side, _), mean in zip(side_points, means, strict=True)],
        at_least=["at least" in point.bounds for point in points],
        bound_reason=SOME_FULL,
        why=why,
        step=max(steps, default=0.0),
    )


def _trend(series: _Series, complete: Callable[[Side], Side], margin_ratio: float | None) -> Trend:
    """Find the changes and outliers of a series.

    Every result may hit the same steps, so that a mean is taken to be no more certain than one value within its step.
    """
    known = [mean.mean for _, mean in series.results if mean is not None]
    resolution = Resolution(series.step / UNIFORM, LEAST_STEPS * series.step, margin_ratio or 0.0)
    cut = segment(known if series.why is None else (), resolution)
    steps, outliers, why = tuple(_steps(series, cut, complete)), tuple(_outliers(series, cut)), series.why
    if why is None and any(series.at_least) and not steps and not outliers:
        why, cut = series.bound_reason, Segmentation()
    return Trend(
        kind=series.kind,
        quantity=series.quantity,
        words=series.words,
        levels=cut.levels,
        steps=steps,
        outliers=outliers,
        smallest=smallest_steps(cut),
        margin_ratio=margin_ratio,
        why=why,
        results=tuple(TrendResult(side.words, _start_time(side), mean) for side, mean in series.results),
    )


def _steps(series: _Series, cut: Segmentation, complete: Callable[[Side], Side]) -> Iterator[TrendStep]:
    """Changes between levels; if the lower level is a lower bound, it is not shown to be lower."""

    def at_least(level: Level) -> bool:
        return any(series.at_least[place] for place in range(level.first, level.last + 1) if place not in cut.outliers)

    for before, after in pairwise(cut.levels):
        lower, higher = sorted((before, after), key=lambda level: level.mean)
        if at_least(lower):
            continue
        side, ratio = series.results[after.first][0], after.mean / before.mean - 1
        yield TrendStep(
            first=after.first,
            occasion=side.words,
            started_at=_start_time(side),
            change_ratio=ratio,
            better=(ratio > 0) is (series.quantity.better == "higher"),
            at_least=at_least(higher),
            differences=tuple(find_differences(complete(series.results[before.last][0]), complete(side))),
        )


def _outliers(series: _Series, cut: Segmentation) -> Iterator[TrendOutlier]:
    """Outliers, except a lower bound that is below its level, and a value above a level that is a lower bound."""
    for place in cut.outliers:
        side, mean = series.results[place]
        level = next(each for each in cut.levels if each.first <= place <= each.last)
        assert mean is not None
        bounds = {series.at_least[each] for each in range(level.first, level.last + 1) if each not in cut.outliers}
        if series.at_least[place] if mean.mean < level.mean else True in bounds:
            continue
        last = cut.levels[-1].last
        can_be_change = all(each in cut.outliers for each in range(place, last + 1))
        yield TrendOutlier(place, side.words, _start_time(side), mean.mean / level.mean - 1, can_be_change)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTrends:
    """One plan of a store, to look at. ``plans``: the number of occasions of each plan, the newest first. ``plan``:
    None if no plan has several.
    """

    plans: Mapping[str, int]
    plan: str | None = None
    trends: Sequence[Trend] = ()
    told: Sequence[str] = ()
    """Messages on data that was left out or could not be read."""
