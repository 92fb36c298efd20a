"""Maxima on a plateau of ten loads: is the highest of several noisy means told too high, or a collapse claimed where there is none?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from scipy.stats import nct, t
from simulating import COVERAGE, Cell, band_text, counted, tolerable, within
from tables import NO, YES, Table

from labconsole.measure.maximum import choose_maximum, collapse
from labconsole.measure.statistics.effects import paired_effect
from labconsole.measure.statistics.set_ups import mean_over_set_ups, set_up_means

TRUE_RATE = 1000.0
LOADS = tuple(float(load) for load in range(1, 11))
TRIALS_SD, SET_UPS_SD = 0.02, 0.01
BIAS = 0.002
COLLAPSED = 0.98
"""The fall of the highest load up to which no collapse may be said."""

FALLEN = 0.9
FALL = f"fall of {1 - FALLEN:.0%}"
POINTS = 0.03
PILOT, BLOCK_1 = "by the pilot", "on block 1"
CASES = ((PILOT, 3, 1), (PILOT, 3, 3), (PILOT, 5, 1), (PILOT, 9, 1), (BLOCK_1, 5, 1), (BLOCK_1, 9, 1))
SIMULATIONS = 10_000
COLUMNS = ("what", "the load is chosen", "set-ups × trials", "simulations", "found", "must be", "is")

Loads = Mapping[float, Mapping[Any, list[float]]]


def plateau(simulations: int = SIMULATIONS, processes: int = 1) -> Table:
    """The table."""
    table = Table("8. Maxima on a plateau", COLUMNS)
    table.summary = (
        f"{len(LOADS)} loads that carry the same rate; trials scatter by {TRIALS_SD:.0%}, set-ups by {SET_UPS_SD:.0%} "
        "(sd). The baseline of the changes has a tenth of that scatter. A collapse is false on a plateau, and where the "
        f"highest load carries {COLLAPSED:.0%} of the others: beyond that it may be said."
    )
    cells = [
        Cell(3, maximum, (chosen == PILOT, set_ups, trials), simulations, chunk=simulations)
        for chosen, set_ups, trials in CASES
    ]
    for (chosen, set_ups, trials), found in zip(CASES, counted(cells, processes), strict=True):
        _rows(table, chosen, f"{set_ups} × {trials}", found)
    return table


def _rows(table: Table, chosen: str, plan: str, found: Counter[Any]) -> None:
    of = int(found["simulations"])
    for word in ("maximum", "change of the maximum"):
        bias, share = found[word, "error"] / of, found[word, "held"] / of
        right = abs(bias) <= BIAS
        table.add(
            f"{word}: bias",
            chosen,
            plan,
            of,
            f"{bias:+.3%}",
            f"within {BIAS:.1%}",
            YES if right else NO,
            failure=None if right else f"a bias of {bias:+.3%}",
        )
        right = within(share, COVERAGE)
        table.add(
            f"{word}: interval holds it",
            chosen,
            plan,
            of,
            f"{share:.2%}",
            band_text(COVERAGE),
            YES if right else NO,
            failure=None if right else f"{share:.2%} of the intervals held the truth",
        )
    for word in ("plateau", f"fall of {1 - COLLAPSED:.0%}"):
        right = tolerable(found[word, "collapses"], of)
        share = found[word, "collapses"] / of
        table.add(
            f"{word}: called a collapse",
            chosen,
            plan,
            of,
            f"{share:.2%}",
            "at most 5%",
            YES if right else NO,
            failure=None if right else f"{share:.2%} are falsely called a collapse",
        )

    share, chance = found[FALL, "collapses"] / of, found["chance of a collapse"] / of
    right = abs(share - chance) <= POINTS
    table.add(
        f"{FALL}: called a collapse",
        chosen,
        plan,
        of,
        f"{share:.2%}",
        f"{chance:.1%} ± {POINTS:.0%}",
        YES if right else NO,
        failure=None if right else f"{share:.2%} of true collapses are seen, {chance:.2%} by the noncentral t",
    )


def chance_of_collapse(blocks: int, trials: int) -> float:
    """By the noncentral t, one-sided: that a fall to ``FALLEN`` is told from one to ``COLLAPSED``."""
    error = math.sqrt(2 / (trials * blocks)) * TRIALS_SD
    delta = (math.log(FALLEN) - math.log(COLLAPSED)) / error
    return float(nct.cdf(t.ppf(0.05, blocks - 1), blocks - 1, delta))


def drawn(rng: np.random.Generator, set_ups: int, trials: int, times: float = 1.0, last: float = 1.0) -> Loads:
    """Values of the trials by load and block; ``last``: what the highest load carries of the others' rate."""
    noise = rng.normal(size=(len(LOADS), set_ups, trials))
    shared = rng.normal(size=(1, set_ups, 1))
    values = TRUE_RATE * (1 + times * (TRIALS_SD * noise + SET_UPS_SD * shared))
    values[-1] *= last
    return {load: dict(enumerate(held, 1)) for load, held in zip(LOADS, values.tolist(), strict=True)}


def pilot(rng: np.random.Generator, times: float = 1.0, last: float = 1.0) -> float:
    """The load that one trial of each makes look best."""
    return max((value, load) for load, held in drawn(rng, 1, 1, times, last).items() for value in held[1])[1]


def maximum(rng: np.random.Generator, simulations: int, by_pilot: bool, set_ups: int, trials: int) -> Counter[Any]:
    """Sums of errors and of intervals that hold the truth, and how many collapses are seen where there is none."""
    found: Any = Counter(simulations=simulations)  # of fractions too, which its annotations do not know
    for _ in range(simulations):
        noisy = choose_maximum(drawn(rng, set_ups, trials), pilot(rng) if by_pilot else None)
        quiet = choose_maximum(drawn(rng, set_ups, trials, times=0.1), pilot(rng, 0.1) if by_pilot else None)
        estimate = mean_over_set_ups(noisy.values)
        assert estimate.ci_low is not None and estimate.ci_high is not None and noisy.is_maximum
        found["maximum", "error"] += estimate.mean / TRUE_RATE - 1
        found["maximum", "held"] += estimate.ci_low <= TRUE_RATE <= estimate.ci_high
        change = paired_effect(set_up_means(noisy.values), set_up_means(quiet.values))
        assert change.mean_log is not None and change.ci_low is not None and change.ci_high is not None
        found["change of the maximum", "error"] += change.mean_log
        found["change of the maximum", "held"] += change.ci_low <= 0 <= change.ci_high
        for word, last in (("plateau", 1.0), (f"fall of {1 - COLLAPSED:.0%}", COLLAPSED), (FALL, FALLEN)):
            loads = drawn(rng, set_ups, trials, last=last)
            seen = collapse(choose_maximum(loads, pilot(rng, last=last) if by_pilot else None), loads[LOADS[-1]])
            found[word, "collapses"] += seen is not None and seen.p is not None and seen.p <= 0.05
    found["chance of a collapse"] = simulations * chance_of_collapse(set_ups if by_pilot else set_ups - 1, trials)
    return cast(Counter[Any], found)
