"""Results of one design point over its occasions, where they change, and what else changed then. Pure.

An occasion is one measurement of a plan on a testbed. Its result at a design point is the mean of its set-ups. The
spread therefore includes what differs between occasions, such as the boot of the machine, and a change has to exceed
it. Results are forwarding rates of runs, and the quantities of searches, jobs, starts, flows and routers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from labconsole.comparison.changes import (
    DIFFERENT_PROGRAMS,
    NONE_REACHED,
    UNKNOWN_SET_UPS,
    Side,
    declared_margin,
    find_cache_objection,
    find_differences,
)
from labconsole.comparison.effects import LOSS_UNKNOWN
from labconsole.comparison.points import RUN, UNIFORM, ComparedPoint, QuantityKey
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

ALL_CARRIED: Final = "all that was offered was forwarded each time: the rate is the sender's"
SOME_CARRIED: Final = "in some trials all that was offered was forwarded: their rates are the sender's"
NOTHING_FORWARDED: Final = "nothing was forwarded on one occasion at least"
ALL_FULL: Final = "nothing was lost of all that could be offered each time"
SOME_FULL: Final = "on some occasions nothing was lost of all that could be offered"
NOTHING_MEASURED: Final = "it was 0 or less on one occasion at least"
TOO_FEW: Final = f"fewer than {MINIMUM_RESULTS} occasions"

LEAST_STEPS: Final = 1.5
"""Least change, in steps, of values that move in steps, such as counts and bounds of searches: a smaller change may be
the next step alone. Without it up to 3 in 4 series without a change were cut (simulated: 5 to 24 occasions of one
search each, whose loads vary by 0.1 to 2 steps), with it 1 in 20 at most.
"""


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
    series = _collect_series(ordered, places)
    return [_trend(each, complete, margin_ratio) for each in sorted(series, key=lambda each: not each.is_of_runs)]


def _collect_series(ordered: Sequence[Side], places: Mapping[int, str]) -> list[_Series]:
    """The same point on each side that has it."""
    found: dict[tuple[QuantityKey, str], list[tuple[Side, ComparedPoint]]] = {}
    for side in ordered:
        for point in side.points:
            found.setdefault((point.key, places[id(side)]), []).append((side, point))
    testbeds: dict[bool, set[str]] = {}
    for key, testbed in found:
        testbeds.setdefault(key.kind == RUN, set()).add(testbed)
    return [
        _Series(
            sides=[side for side, _ in of_key],
            points=[point for _, point in of_key],
            where=f" on {testbed}" if len(testbeds[key.kind == RUN]) > 1 else "",
        )
        for (key, testbed), of_key in found.items()
    ]


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
    """The data of a trend. ``where``: the testbed, if there are several."""

    sides: Sequence[Side]
    points: Sequence[ComparedPoint]
    where: str

    @property
    def is_of_runs(self) -> bool:
        return self.points[0].key.kind == RUN

    @property
    def resolution(self) -> float:
        """The smallest difference of values, in their unit."""
        return max(point.step for point in self.points)

    def is_at_least(self, place: int) -> bool:
        """Whether more than this result may have been possible."""
        return "at least" in self.points[place].bounds

    def is_level_at_least(self, level: Level, outliers: Collection[int]) -> bool:
        """Whether that is so of a result of this level, without outliers."""
        return any(self.is_at_least(each) for each in range(level.first, level.last + 1) if each not in outliers)

    def find_objection(self) -> str | None:
        """Why no change is searched for."""
        points, few = self.points, len(self.points) < MINIMUM_RESULTS
        bounds = set().union(*(point.bounds for point in points))
        if (cached := find_cache_objection(bounds, [point.from_memory for point in points])) is not None:
            return cached
        if HELD in bounds:
            return HELD
        if "none" in bounds:
            return NONE_REACHED
        if "unknown" in bounds:
            return TOO_FEW if self.is_of_runs and few else LOSS_UNKNOWN
        if bounds == {"at least"}:
            return ALL_CARRIED if self.is_of_runs else ALL_FULL
        if len(set().union(*(point.work for point in points))) > 1:
            return DIFFERENT_PROGRAMS
        if any(None in point.boots for point in points):
            return UNKNOWN_SET_UPS
        if few:
            return TOO_FEW
        if not all((mean := point.mean) is not None and mean.mean > 0 for point in points):
            return NOTHING_FORWARDED if self.is_of_runs else NOTHING_MEASURED
        return None


def _trend(series: _Series, complete: Callable[[Side], Side], margin_ratio: float | None) -> Trend:
    """Find the changes and outliers of a series.

    Every result may hit the same steps, so that a mean is taken to be no more certain than one value within its step.
    """
    means, why = [point.mean for point in series.points], series.find_objection()
    known = [mean.mean for mean in means if mean is not None]
    step = series.resolution
    resolution = Resolution(step / UNIFORM, LEAST_STEPS * step, margin_ratio or 0.0)
    cut = segment(known if why is None else (), resolution)
    steps, outliers = tuple(_steps(series, cut, complete)), tuple(_outliers(series, cut))
    if why is None and any(map(series.is_at_least, range(len(means)))) and not steps and not outliers:
        why, cut = SOME_CARRIED if series.is_of_runs else SOME_FULL, Segmentation()
    first = series.points[0]
    return Trend(
        kind=first.key.kind,
        quantity=first.key.quantity,
        words=first.name + series.where,
        levels=cut.levels,
        steps=steps,
        outliers=outliers,
        smallest=smallest_steps(cut),
        margin_ratio=margin_ratio,
        why=why,
        results=tuple(
            TrendResult(side.words, _start_time(side), mean) for side, mean in zip(series.sides, means, strict=True)
        ),
    )


def _steps(series: _Series, cut: Segmentation, complete: Callable[[Side], Side]) -> Iterator[TrendStep]:
    """Changes between levels; if the lower level is a lower bound, it is not shown to be lower."""
    for before, after in pairwise(cut.levels):
        lower, higher = sorted((before, after), key=lambda level: level.mean)
        if series.is_level_at_least(lower, cut.outliers):
            continue
        side, ratio = series.sides[after.first], after.mean / before.mean - 1
        yield TrendStep(
            first=after.first,
            occasion=side.words,
            started_at=_start_time(side),
            change_ratio=ratio,
            better=(ratio > 0) is (series.points[0].key.quantity.better == "higher"),
            at_least=series.is_level_at_least(higher, cut.outliers),
            differences=tuple(find_differences(complete(series.sides[before.last]), complete(side))),
        )


def _outliers(series: _Series, cut: Segmentation) -> Iterator[TrendOutlier]:
    """Outliers, except a lower bound that is below its level, and a value above a level that is a lower bound."""
    for place in cut.outliers:
        side, mean = series.sides[place], series.points[place].mean
        level = next(each for each in cut.levels if each.first <= place <= each.last)
        assert mean is not None
        is_below = mean.mean < level.mean
        if series.is_at_least(place) if is_below else series.is_level_at_least(level, cut.outliers):
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
