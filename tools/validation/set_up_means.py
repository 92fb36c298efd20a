"""How often the intervals of means and effects over set-ups hold the truth; set-ups differ, and trials within them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from simulating import COVERAGE, Cell, band_text, counted, within
from tables import NO, YES, Table

from labconsole.measure.statistics.effects import Effect, paired_effect, share_effect, unpaired_effect
from labconsole.measure.statistics.set_ups import mean_over_set_ups, set_up_means

TRUE_MEAN = 1000.0
TRUE_CHANGE = 0.03
BETWEEN, WITHIN = 0.01, 0.005
PLANS = ((3, 1), (3, 3), (5, 1), (5, 3), (9, 1))
SKEWED = "skewed"
SIMULATIONS = 10_000
COLUMNS = ("interval", "values are", "set-ups × trials", "intervals", "held the truth", "must be", "is")

Values = dict[int, list[float]]


def coverage(simulations: int = SIMULATIONS, processes: int = 1) -> Table:
    """The table."""
    table = Table("6. Coverage of the intervals over set-ups", COLUMNS)
    table.summary = (
        f"Set-ups differ by {BETWEEN:.1%} (sd), trials within one by {WITHIN:.1%}. What is printed for skewed values "
        "is what happens, not a promise: Student's t takes values for normal."
    )
    rows: list[tuple[str, str, str, Cell, bool]] = []
    for set_ups, trials in PLANS:
        for word, count in COUNTS.items():
            cell = Cell(2, count, (set_ups, trials, False), simulations, chunk=simulations)
            rows.append((word, "normal", f"{set_ups} × {trials}", cell, True))
    for word, count in COUNTS.items():
        cell = Cell(2, count, (9, 1, True), simulations, chunk=simulations)
        rows.append((word, SKEWED, "9 × 1", cell, False))
    for trials in (3, 9):
        cell = Cell(2, this_set_up_only, (1, trials, False), simulations, chunk=simulations)
        rows.append(("mean, this set-up only", "normal", f"1 × {trials}", cell, True))
    for row, found in zip(rows, counted([row[3] for row in rows], processes), strict=True):
        _row(table, row, found)
    return table


def _row(table: Table, row: tuple[str, str, str, Cell, bool], found: Counter[Any]) -> None:
    word, values, plan, _, judged = row
    share = found["held"] / found["intervals"]
    right = not judged or within(share, COVERAGE)
    table.add(
        word,
        values,
        plan,
        found["intervals"],
        f"{share:.2%}",
        band_text(COVERAGE) if judged else "shown",
        (YES if right else NO) if judged else "",
        failure=None if right else f"{share:.2%} of the intervals held the truth",
    )


def _drawn(
    rng: np.random.Generator, mean: float, set_ups: int, trials: int, *, skewed: bool = False, times: float = 1.0
) -> Values:
    """Values of the trials by block; ``times``: how much wider than usual set-ups and trials scatter."""
    noise = rng.exponential(size=(set_ups, 1 + trials)) - 1 if skewed else rng.normal(size=(set_ups, 1 + trials))
    values = mean * (1 + times * (BETWEEN * noise[:, :1] + WITHIN * noise[:, 1:]))
    return dict(enumerate(values.tolist(), 1))


def mean(rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool) -> Counter[Any]:
    found = Counter(intervals=simulations, held=0)
    for _ in range(simulations):
        estimate = mean_over_set_ups(_drawn(rng, TRUE_MEAN, set_ups, trials, skewed=skewed))
        assert estimate.ci_low is not None and estimate.ci_high is not None and estimate.scope == "set-ups"
        found["held"] += estimate.ci_low <= TRUE_MEAN <= estimate.ci_high
    return found


def this_set_up_only(
    rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool
) -> Counter[Any]:
    """The truth of an interval within one set-up is this set-up's own mean."""
    found = Counter(intervals=simulations, held=0)
    for _ in range(simulations):
        truth = TRUE_MEAN * (1 + BETWEEN * rng.normal())
        estimate = mean_over_set_ups({1: (truth + TRUE_MEAN * WITHIN * rng.normal(size=trials)).tolist()})
        assert estimate.ci_low is not None and estimate.ci_high is not None and estimate.scope == "this set-up only"
        found["held"] += estimate.ci_low <= truth <= estimate.ci_high
    return found


def _sides(
    rng: np.random.Generator, set_ups: int, trials: int, skewed: bool, times: float
) -> tuple[dict[Any, float], dict[Any, float]]:
    subject = _drawn(rng, TRUE_MEAN * (1 + TRUE_CHANGE), set_ups, trials, skewed=skewed, times=times)
    return set_up_means(subject), set_up_means(_drawn(rng, TRUE_MEAN, set_ups, trials, skewed=skewed))


def _holds(effect: Effect) -> bool:
    assert effect.ci_low is not None and effect.ci_high is not None
    return effect.ci_low <= TRUE_CHANGE <= effect.ci_high


def paired(rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool) -> Counter[Any]:
    held = sum(_holds(paired_effect(*_sides(rng, set_ups, trials, skewed, 1.0))) for _ in range(simulations))
    return Counter(intervals=simulations, held=held)


def uneven(rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool) -> Counter[Any]:
    """The subject scatters three times as wide."""
    held = sum(_holds(paired_effect(*_sides(rng, set_ups, trials, skewed, 3.0))) for _ in range(simulations))
    return Counter(intervals=simulations, held=held)


def unpaired_uneven(
    rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool
) -> Counter[Any]:
    return _unpaired(rng, simulations, set_ups, trials, skewed, 3.0)


def unpaired(rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool) -> Counter[Any]:
    return _unpaired(rng, simulations, set_ups, trials, skewed, 1.0)


def _unpaired(
    rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool, times: float
) -> Counter[Any]:
    held = 0
    for _ in range(simulations):
        subject, baseline = _sides(rng, set_ups, trials, skewed, times)
        held += _holds(unpaired_effect(list(subject.values()), list(baseline.values())))
    return Counter(intervals=simulations, held=held)


def share(rng: np.random.Generator, simulations: int, set_ups: int, trials: int, skewed: bool) -> Counter[Any]:
    """The first of three streams, which gets 3 % more than its fair share."""
    held = 0
    for _ in range(simulations):
        means = [set_up_means(_drawn(rng, TRUE_MEAN, set_ups, trials, skewed=skewed)) for _ in range(3)]
        factor = 2 * (1 + TRUE_CHANGE) / (2 - TRUE_CHANGE)  # factor / (factor + 2) is (1 + change) / 3 just here
        shares = {
            block: factor * means[0][block] / (factor * means[0][block] + means[1][block] + means[2][block])
            for block in means[0]
        }
        held += _holds(share_effect(shares, 3))
    return Counter(intervals=simulations, held=held)


COUNTS = {
    "mean": mean,
    "effect, paired by block": paired,
    "effect, paired, deviations 3 : 1": uneven,
    "effect, no shared blocks (Welch)": unpaired,
    "effect, no shared blocks, deviations 3 : 1": unpaired_uneven,
    "a stream's share": share,
}
