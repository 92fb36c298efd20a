"""Results of one design point over its occasions, where they change, and what else changed then. Pure.

An occasion is one measurement of a plan on a testbed. Its result at a design point is the mean of its set-ups: so what
differs between occasions, such as the boot of the machine, is in the spread that a change has to stand out from.
Results are forwarding rates of runs, and what searches, jobs, starts, flows and routers come to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from labconsole.contracts.measured import HELD, Quantity
from labconsole.measure.comparison import Pair
from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.measure.trend import MINIMUM_RESULTS, Level, levels, smallest_step_ratio
from labconsole.report.changes import Side, design_key, differences
from labconsole.report.compared_effect import LOSS_UNKNOWN
from labconsole.report.measured_points import MeasuredPoint
from labconsole.report.points import PointSummary
from labconsole.report.quantity_changes import NONE_REACHED, OTHER_WORK, UNIFORM, UNKNOWN_SET_UPS, why_from_memory
from labconsole.report.words import asked_words

ALL_CARRIED: Final = "all that was offered was forwarded each time: the rate is the sender's"
SOME_CARRIED: Final = "on some occasions all that was offered was forwarded: their rates are the sender's"
NOTHING_FORWARDED: Final = "nothing was forwarded on one occasion at least"
ALL_FULL: Final = "nothing was lost of all that could be offered each time"
SOME_FULL: Final = "on some occasions nothing was lost of all that could be offered"
NOTHING_MEASURED: Final = "it was 0 or less on one occasion at least"
TOO_FEW: Final = f"fewer than {MINIMUM_RESULTS} occasions"

RUN: Final = "run"
"""The kind of a trend that is of runs; of others it is that of their records."""

RATE: Final = Quantity(name="forwarding rate", unit="bps", better="higher", shown_unit="Mbit/s", scale=1e6)

LEAST_STEPS: Final = 1.5
"""Of values that move in steps, such as bounds of searches: a smaller change may be the next step for the same load.
Without it up to 3 in 4 series without a change were cut (simulated: 5 to 24 occasions of one search each, whose loads
vary by 0.1 to 2 steps), with it 1 in 20 at most.
"""

P = TypeVar("P")
"""A design point of one side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendStep:
    """A change between two neighbouring occasions. ``first``: the number, from 0, of the result that is the first after
    it; ``occasion``: on which; ``change_ratio``: of levels; ``better``: which way, by its quantity.
    """

    first: int
    occasion: str
    started_at: str
    change_ratio: float
    better: bool
    differences: tuple[Pair, ...]


class TrendResult(NamedTuple):
    """What one occasion came to. ``mean``: None, its trials have no value."""

    occasion: str
    started_at: str
    mean: SetUpMean | None

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Of 95 %, over set-ups: of a single one it would speak for no other."""
        held = self.mean
        return (held.ci_low, held.ci_high) if held is not None and held.scope == "set-ups" else (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One quantity of one design point. ``results``: by when the occasions began; ``steps``: where it changes.

    ``why``: no change is looked for. ``smallest_ratio``: the smallest step that would be found 8 times of 10.
    """

    kind: str
    quantity: Quantity
    words: str
    results: tuple[TrendResult, ...]
    levels: tuple[Level, ...]
    steps: tuple[TrendStep, ...]
    smallest_ratio: float | None
    why: str | None

    @property
    def title(self) -> str:
        """The point, and what is measured where that is not the same of all of its kind."""
        return self.words if self.kind == RUN else f"{self.words}: {self.quantity.name}"

    @property
    def first_level(self) -> float | None:
        """What changes are shown from: the first level, or the first result; None: it is not known."""
        if self.levels:
            return self.levels[0].mean
        held = self.results[0].mean
        return None if held is None else held.mean


def find_trends(sides: Sequence[Side], told: Callable[[Side], Side] = lambda side: side) -> list[Trend]:
    """``sides``: for each occasion one of its runs alone, and one of its other trials.

    ``told``: the same side with all that there is to know of it, which is asked for where something changed.
    """
    ordered = sorted(sides, key=_began)
    places = _testbeds(ordered)
    runs = _series(ordered, places, lambda side: side.points, design_key)
    beside = _series(ordered, places, lambda side: side.quantities, lambda point: point.key)
    found = [_trend_of_runs(held, where, told) for held, where in runs]
    return found + [_trend_of_quantity(held, where, told) for held, where in beside]


def _series(
    ordered: Sequence[Side],
    places: dict[int, str],
    points_of: Callable[[Side], Sequence[P]],
    key_of: Callable[[P], Hashable],
) -> list[tuple[list[tuple[Side, P]], str]]:
    """The same point on each side that has it, and where that is if there are several testbeds."""
    found: dict[tuple[Hashable, str], list[tuple[Side, P]]] = {}
    for side in ordered:
        for point in points_of(side):
            found.setdefault((key_of(point), places[id(side)]), []).append((side, point))
    testbeds = {testbed for _, testbed in found}
    return [(held, f" on {testbed}" if len(testbeds) > 1 else "") for (_, testbed), held in found.items()]


def _testbeds(ordered: Sequence[Side]) -> dict[int, str]:
    """The testbed of each side, by its name; by name and fingerprint where two of one name were used by turns."""
    told = {id(side): _testbed(side) for side in ordered}
    found = {}
    for side in ordered:
        name, fingerprint = told[id(side)]
        own = [each[1] for each in told.values() if each[0] == name]
        changes = sum(before != after for before, after in pairwise(own))
        found[id(side)] = name if changes < len(set(own)) else f"{name} ({fingerprint})"
    return found


def _testbed(side: Side) -> tuple[str, str]:
    of = side.kept.entered[0] if side.kept.entered else side.trials[0]
    return of.testbed, of.testbed_fingerprint


def _began(side: Side) -> str:
    began = [run.started_at for run in side.kept.entered] + [each.started_at for each in side.trials if each.values]
    return min(began, default="")


def _trend_of_runs(held: Sequence[tuple[Side, PointSummary]], where: str, told: Callable[[Side], Side]) -> Trend:
    points = [point for _, point in held]
    carried = [each.missing_ratio is not None and each.missing_ratio < REACHED_LOSS_RATIO for each in points]
    why = (
        ALL_CARRIED if all(carried)
        else SOME_CARRIED if any(carried)
        else TOO_FEW if len(points) < MINIMUM_RESULTS
        else LOSS_UNKNOWN if None in [point.missing_ratio for point in points]
        else NOTHING_FORWARDED if not min(point.rate_bps.mean for point in points) > 0
        else None
    )  # fmt: skip
    results = [(side, point.rate_bps) for side, point in held]
    return _trend(RUN, RATE, asked_words(points[0].design) + where, results, why, told)


def _trend_of_quantity(held: Sequence[tuple[Side, MeasuredPoint]], where: str, told: Callable[[Side], Side]) -> Trend:
    points = [point for _, point in held]
    means = [point.mean for point in points]
    bounds = [point.bounds for point in points]
    said = set().union(*bounds)
    work = set().union(*(point.seen(lambda trial: trial.work) for point in points))
    cached = why_from_memory(said, [point.from_memory for point in points])
    why = (
        cached if cached is not None
        else HELD if HELD in said
        else NONE_REACHED if "none" in said
        else LOSS_UNKNOWN if "unknown" in said
        else ALL_FULL if said == {"at least"}
        else SOME_FULL if "at least" in said
        else OTHER_WORK if len(work) > 1
        else UNKNOWN_SET_UPS if any(None in point.boots for point in points)
        else TOO_FEW if len(points) < MINIMUM_RESULTS
        else NOTHING_MEASURED if not all(mean is not None and mean.mean > 0 for mean in means)
        else None
    )  # fmt: skip
    steps = [value.value * value.width_ratio for point in points for value in point.values
             if value.value is not None and value.width_ratio]  # fmt: skip
    results = [(side, mean) for (side, _), mean in zip(held, means, strict=True)]
    key = points[0].key
    return _trend(key.kind, key.quantity, points[0].words + where, results, why, told, max(steps, default=0.0))


def _trend(
    kind: str, quantity: Quantity, words: str, held: Sequence[tuple[Side, SetUpMean | None]], why: str | None,
    told: Callable[[Side], Side], step: float = 0.0,
) -> Trend:  # fmt: skip
    """``step``: in which values move, in their unit; every result may meet the same ones, so that a mean is known no
    better than one value within its step.
    """
    known = [mean.mean for _, mean in held if mean is not None]
    least = step / UNIFORM, LEAST_STEPS * step
    cut = levels(known if why is None else (), *least)
    steps = []
    for before, after in pairwise(cut):
        side = held[after.first][0]
        ratio = after.mean / before.mean - 1
        steps.append(
            TrendStep(
                first=after.first, occasion=side.words, started_at=_began(side), change_ratio=ratio,
                better=(ratio > 0) is (quantity.better == "higher"),
                differences=tuple(differences(told(held[before.last][0]), told(side))),
            )
        )  # fmt: skip
    return Trend(
        kind=kind, quantity=quantity, words=words, levels=tuple(cut), steps=tuple(steps),
        results=tuple(TrendResult(side.words, _began(side), mean) for side, mean in held),
        smallest_ratio=smallest_step_ratio(cut, *least), why=why,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTrends:
    """One plan of a store, to look at. ``plans``: on how many occasions each was measured, the newest first; ``plan``:
    None, none was measured on several. ``told``: what was left out, and what could not be read.
    """

    plans: Mapping[str, int]
    plan: str | None = None
    trends: Sequence[Trend] = ()
    told: Sequence[str] = ()
