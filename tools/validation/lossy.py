"""How often the interval of a loss holds the true loss: from 1 in a million to half, few lost and many, alike or not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from simulating import COVERAGE, Cell, band_text, counted, within
from tables import NO, YES, Table

from labconsole.measure.statistics.bounded_means import loss_over_set_ups

RATIOS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5)
SET_UPS = (3, 5, 9, 27)
TOO_FEW = (1,)
"""Set-ups: the bounds are of this run's packets alone (Clopper and Pearson), which cover more than they say, and
take fifty times as long: a tenth of the simulations, and fewer cells. Two have no interval."""

FEWER, FEWER_LOST = (1e-6, 0.01, 0.5), 1000
EXPECTED_LOST = (0.3, 1, 3, 5, 10, 30, 100, 1000, 10_000)
"""In each set-up; the packets follow from the ratio."""

ENOUGH_LOST = 10
FEW = (0.93, 1.0)
VARIATION = {"independent packets": 0.0, "set-ups differ by 30 %": 0.3}
SIMULATIONS = 10_000
COLUMNS = (
    "packets are lost by",
    "set-ups",
    "lost in each set-up",
    "loss ratios",
    "intervals",
    "held the truth, least",
    "at",
    "most",
    "at",
    "must be",
    "is",
)


def held(
    rng: np.random.Generator, simulations: int, ratio: float, set_ups: int, packets: int, cv: float
) -> Counter[Any]:
    """Of so many measurements, how many intervals hold ``ratio``; ``cv``: of the set-ups' own ratios (beta)."""
    shares: Any = ratio
    if cv:
        size = (1 - ratio) / (cv * cv * ratio) - 1  # alpha + beta of a beta distribution with this mean and deviation
        shares = rng.beta(ratio * size, (1 - ratio) * size, (simulations, set_ups))
    lost = rng.binomial(packets, shares, (simulations, set_ups)).tolist()
    found = Counter(intervals=simulations, held=0)
    for counts in lost:
        estimate = loss_over_set_ups(counts, [packets] * set_ups)
        assert estimate.low is not None and estimate.high is not None
        assert 0 <= estimate.low <= estimate.high <= 1
        found["held"] += estimate.low <= ratio <= estimate.high
    return found


def coverage(simulations: int = SIMULATIONS, processes: int = 1) -> Table:
    """The table: one row for each kind of set-ups, their number, and whether enough is lost for a band on both sides."""
    table = Table("7. Coverage of the interval of a loss", COLUMNS)
    table.summary = (
        "Each row is the least and the most of its cells, one cell a loss ratio and a number of packets. Where fewer "
        f"than {ENOUGH_LOST} packets are expected to be lost in each set-up, no interval covers exactly 95 %: counts are "
        "whole numbers (Brown, Cai and DasGupta, Statist. Sci. 16, 2001), and the band has no upper end."
    )
    cells = {
        (word, set_ups, expected, ratio): Cell(
            1,
            held,
            (ratio, set_ups, round(expected / ratio), cv),
            _simulations(set_ups, simulations),
            chunk=simulations,
        )
        for word, cv in VARIATION.items()
        for set_ups in (SET_UPS if cv else TOO_FEW + SET_UPS)
        for expected in EXPECTED_LOST
        for ratio in RATIOS
        if expected / ratio >= 20 and (set_ups not in TOO_FEW or (ratio in FEWER and expected <= FEWER_LOST))
    }
    shares = {
        key: found["held"] / found["intervals"]
        for key, found in zip(cells, counted(list(cells.values()), processes), strict=True)
    }
    for word, cv in VARIATION.items():
        for set_ups in SET_UPS if cv else TOO_FEW + SET_UPS:
            for enough in (True, False):
                part = {
                    key[2:]: share
                    for key, share in shares.items()
                    if key[:2] == (word, set_ups) and (key[2] >= ENOUGH_LOST) == enough
                }
                _row(table, word, set_ups, part, simulations, enough=enough)
    return table


def _row(
    table: Table, word: str, set_ups: int, part: dict[tuple[float, float], float], simulations: int, *, enough: bool
) -> None:
    least, most = min(part, key=part.__getitem__), max(part, key=part.__getitem__)
    band = COVERAGE if enough and set_ups not in TOO_FEW else FEW
    right = within(part[least], band) and within(part[most], band)
    table.add(
        word,
        set_ups,
        f"{ENOUGH_LOST} to {max(expected for expected, _ in part)}" if enough else f"{EXPECTED_LOST[0]} to 5",
        f"{RATIOS[0]:g} to {RATIOS[-1]:g}",
        len(part) * _simulations(set_ups, simulations),
        f"{part[least]:.2%}",
        _cell(least),
        f"{part[most]:.2%}",
        _cell(most),
        band_text(band),
        YES if right else NO,
        failure=None if right else f"{part[least]:.2%} to {part[most]:.2%} of the intervals held the truth",
    )


def _simulations(set_ups: int, simulations: int) -> int:
    return max(1, simulations // 10) if set_ups in TOO_FEW else simulations


def _cell(key: tuple[float, float]) -> str:
    expected, ratio = key
    return f"{expected:g} of {round(expected / ratio):.3g}"
