"""How often 95 % intervals hold the true value, by simulation with a fixed seed: the figures are the same everywhere."""

from __future__ import annotations

import random
from collections.abc import Callable

from tables import NO, YES, Table

from labconsole.measure.statistics.repetitions import difference, ratio, summarize

SEED = 20
COLUMNS = ("interval", "values are", "n", "simulations", "held the truth", "must be", "is")
Draw = Callable[[random.Random, float, float], float]
EXACT = (0.94, 0.96)
APPROXIMATE = (0.94, 0.97)
"""Of Welch and Fieller with three values a side (docs/statistics.md)."""


def normal(rng: random.Random, mean: float, sd: float) -> float:
    return rng.gauss(mean, sd)


def skewed(rng: random.Random, mean: float, sd: float) -> float:
    """Exponential, moved to this mean and deviation: most values a little below the mean, few far above it."""
    return mean + sd * (rng.expovariate(1.0) - 1.0)


def coverage(*, quick: bool) -> Table:
    """The table."""
    table = Table("2. Coverage of the 95 % intervals", COLUMNS)
    simulations = 2000 if quick else 10_000
    for n in (3, 5, 9):
        _row(table, "mean", "normal", n, simulations, _of_mean(normal, n), EXACT)
    for n in (3, 5, 9):
        _row(table, "mean", "skewed", n, simulations, _of_mean(skewed, n), None)
    if quick:
        return table
    for word, covers in (("difference (Welch)", _of_difference), ("ratio (Fieller)", _of_ratio)):
        for n in (3, 5, 9):
            bounds = APPROXIMATE if n == 3 else EXACT
            _row(table, word, "normal, deviations 1 : 3", n, simulations // 2, covers(normal, n), bounds)
        _row(table, word, "skewed, deviations 1 : 3", 9, simulations // 2, covers(skewed, 9), None)
    table.summary = (
        "Skewed values are exponential. What is printed for them is what happens, not a promise: Student's t "
        "takes values for normal, and with few skewed ones its interval holds the mean less often than it says."
    )
    return table


def _row(
    table: Table,
    word: str,
    values: str,
    n: int,
    simulations: int,
    covers: Callable[[random.Random], bool],
    bounds: tuple[float, float] | None,
) -> None:
    rng = random.Random(SEED)
    held = sum(covers(rng) for _ in range(simulations)) / simulations
    right = bounds is None or bounds[0] <= held <= bounds[1]
    table.add(
        word,
        values,
        n,
        simulations,
        f"{held:.2%}",
        "shown" if bounds is None else f"{bounds[0]:.0%} to {bounds[1]:.0%}",
        "" if bounds is None else YES if right else NO,
        failure=None if right else f"{held:.2%} of the intervals held the truth",
    )


def _of_mean(draw: Draw, n: int) -> Callable[[random.Random], bool]:
    def covers(rng: random.Random) -> bool:
        found = summarize([draw(rng, 100, 5) for _ in range(n)])
        assert found.ci_low is not None and found.ci_high is not None
        return found.ci_low <= 100 <= found.ci_high

    return covers


def _sides(rng: random.Random, draw: Draw, n: int) -> tuple[list[float], list[float]]:
    return [draw(rng, 100, 1) for _ in range(n)], [draw(rng, 90, 3) for _ in range(n)]


def _of_difference(draw: Draw, n: int) -> Callable[[random.Random], bool]:
    def covers(rng: random.Random) -> bool:
        found = difference(*_sides(rng, draw, n))
        assert found.ci_low is not None and found.ci_high is not None
        return found.ci_low <= 10 <= found.ci_high

    return covers


def _of_ratio(draw: Draw, n: int) -> Callable[[random.Random], bool]:
    def covers(rng: random.Random) -> bool:
        found = ratio(*_sides(rng, draw, n))
        assert found.ci_low is not None and found.ci_high is not None
        return found.ci_low <= 100 / 90 <= found.ci_high

    return covers
