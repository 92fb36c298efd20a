"""How often a series of occasions without a change is cut, and which changes are found: what `trend` does with them.

The functions that the command calls, on results whose truth is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.signal import lfilter
from simulating import Cell, counted, tolerable, within
from tables import NO, YES, Table

from labconsole.comparison.points import UNIFORM
from labconsole.comparison.trends import LEAST_STEPS
from labconsole.measure.trend import FOUND_STEPS, LATEST_STEPS, Resolution, segment

Floats = np.ndarray[Any, np.dtype[np.float64]]

RESULTS = (4, 5, 6, 10, 30, 100)
FEW_RESULTS = (4, 5, 6, 7, 8, 9, 10)
"""That nights of two kinds part by chance."""

SERIES = 2000
OF_LONG = {30: 0.5, 100: 0.2}
"""Of the simulations, where a series takes long."""

MOST_CUT = 0.025
MOST_CUT_OF_TWO_KINDS = 0.05
FOUND = (0.75, 0.90)
MEAN, SD = 100.0, 1.0
PACKETS = 3200
COLUMNS = ("results of an occasion", "occasions", "true", "series", "what is told", "share", "must be", "is")


@dataclass(frozen=True)
class Results:
    """``draw``: so many in a row without a change; ``known``: what each is known to."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    known: Resolution = field(default_factory=Resolution)


def _normal(rng: np.random.Generator, count: int) -> Floats:
    return MEAN + SD * rng.standard_normal(count)


def _autocorrelated(rng: np.random.Generator, count: int, r: float = 0.5, settle: int = 50) -> Floats:
    noise = rng.standard_normal(count + settle) * math.sqrt(1 - r * r)
    return MEAN + SD * np.asarray(lfilter([1.0], [1.0, -r], noise)[settle:])


def _heavy_tailed(rng: np.random.Generator, count: int) -> Floats:
    return MEAN + SD * rng.standard_t(3, count)


def _counts(rng: np.random.Generator, count: int, chance: float) -> Floats:
    return PACKETS - rng.binomial(3, chance, count) / 3


def _held(rng: np.random.Generator, count: int) -> Floats:
    return np.where(rng.random(count) < 0.05, MEAN * (1 - 0.001 * rng.uniform(0.2, 1.0, count)), MEAN)


def _one_apart(rng: np.random.Generator, count: int, last: bool) -> Floats:
    found = _normal(rng, count)
    found[-1 if last else rng.integers(count)] -= 8 * SD
    return found


def _two_kinds(rng: np.random.Generator, count: int, lower: float, noise: float) -> Floats:
    return MEAN - 5 * SD * (rng.random(count) < lower) + noise * SD * rng.standard_normal(count)


ONE_PACKET = Resolution(1 / UNIFORM, LEAST_STEPS)
SCENARIOS = (
    Results("normal", _normal),
    Results("AR(1), 0.5", _autocorrelated),
    Results("t, 3 degrees", _heavy_tailed),
    Results(
        "counts: of three set-ups of 3200 packets each lacks one in 5 %", partial(_counts, chance=0.05), ONE_PACKET
    ),
    Results("the same in 2 %", partial(_counts, chance=0.02), ONE_PACKET),
    Results("equal, but for 5 % that are 0.02 to 0.1 % lower", _held),
    Results("normal, one off by 8 deviations", partial(_one_apart, last=False)),
    Results("normal, the latest off by 8 deviations", partial(_one_apart, last=True)),
)
TWO_KINDS = (
    Results("of two values, about as often either", partial(_two_kinds, lower=0.5, noise=0.0)),
    Results("of two kinds 5 deviations apart, about as often either", partial(_two_kinds, lower=0.5, noise=1.0)),
    Results("of two values, one in five the lower", partial(_two_kinds, lower=0.2, noise=0.0)),
    Results("of two kinds 50 deviations apart, one in three the lower", partial(_two_kinds, lower=1 / 3, noise=0.1)),
)
WAYS = ("down", "up", "down, read backwards")


def trends(series: int = SERIES, processes: int = 1) -> Table:
    """The table."""
    table = Table("24. Trends", COLUMNS)
    table.summary = (
        f"Series of results without a change may be cut in {MOST_CUT:.1%}: a share passes when its lower 99 % bound is at "
        "most that (of nights of two kinds, which can part by chance, 5 %). Of a step of the size that the command prints for a series of its spread, 8 in 10 are to be found; "
        "what is printed for the latest occasion is that it alone is off."
    )
    null = [(each, count) for each in SCENARIOS for count in RESULTS]
    two_kinds = [(each, count) for each in TWO_KINDS for count in FEW_RESULTS]
    steps = [(way, count) for way in WAYS for count in RESULTS if count in FOUND_STEPS]
    latest = [(way, count) for way in WAYS[:2] for count in RESULTS]

    def some(count: int) -> int:
        return max(1, round(series * OF_LONG.get(count, 1.0)))

    cells = [
        *(Cell(241, without_change, (each, count), some(count)) for each, count in null),
        *(Cell(244, without_change, (each, count), some(count)) for each, count in two_kinds),
        *(Cell(242, with_step, (way, count), some(count)) for way, count in steps),
        *(Cell(243, with_latest, (way, count), some(count)) for way, count in latest),
    ]
    found = iter(counted(cells, processes))
    for each, count in null:
        _null_row(table, each.name, count, next(found), MOST_CUT)
    for each, count in two_kinds:
        _null_row(table, each.name, count, next(found), MOST_CUT_OF_TWO_KINDS)
    for way, count in steps:
        true = f"step in the middle, {way}, {FOUND_STEPS[count]} deviations"
        _power_row(table, count, true, "a change", next(found))
    for way, count in latest:
        true = f"the latest off, {way}, {LATEST_STEPS[count]} deviations"
        _power_row(table, count, true, "the latest is off", next(found))
    return table


def _null_row(table: Table, name: str, count: int, found: Counter[Any], most: float) -> None:
    of, cut = found["series"], found["told"]
    right = tolerable(cut, of, most)
    table.add(
        name,
        count,
        "no change",
        of,
        "a change",
        f"{cut / of:.1%}",
        f"at most {most:.1%}",
        YES if right else NO,
        failure=None if right else f"{cut} of {of} series are cut",
    )


def _power_row(table: Table, count: int, true: str, told: str, found: Counter[Any]) -> None:
    share = found["told"] / found["series"]
    right = within(share, FOUND)
    table.add(
        "normal",
        count,
        true,
        found["series"],
        told,
        f"{share:.1%}",
        f"{FOUND[0]:.0%} to {FOUND[1]:.0%}",
        YES if right else NO,
        failure=None if right else f"{share:.1%} are told, 80 % are printed",
    )


def without_change(rng: np.random.Generator, series: int, results: Results, count: int) -> Counter[Any]:
    """Of series without a change, how many are cut."""
    cut = sum(len(segment(results.draw(rng, count).tolist(), results.known).levels) > 1 for _ in range(series))
    return Counter(series=series, told=cut)


def with_step(rng: np.random.Generator, series: int, way: str, count: int) -> Counter[Any]:
    """Of series with a step in the middle, in how many one is found."""
    found = 0
    for _ in range(series):
        values = _normal(rng, count)
        values[count // 2 :] += FOUND_STEPS[count] * SD * (1 if way == "up" else -1)
        found += len(segment((values[::-1] if "backwards" in way else values).tolist()).levels) > 1
    return Counter(series=series, told=found)


def with_latest(rng: np.random.Generator, series: int, way: str, count: int) -> Counter[Any]:
    """Of series whose latest result is off, in how many that is told."""
    found = 0
    for _ in range(series):
        values = _normal(rng, count)
        values[-1] += LATEST_STEPS[count] * SD * (1 if way == "up" else -1)
        found += segment(values.tolist()).is_latest_outlier
    return Counter(series=series, told=found)
