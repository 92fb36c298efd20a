"""Intervals of guests that share a link: rare events, the least guest, what weights give, and an index that ends at 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from simulating import COVERAGE, ERRORS, Cell, band_text, counted, tolerable
from tables import NO, YES, Table

from labconsole.measure.statistics.bounded_means import (
    deviation_over_set_ups,
    lower_bounded,
    lowest_mean,
    share_over_set_ups,
)
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups

SIMULATIONS = 4000
BINS = 10
EVENT_RATIOS = (0.002, 0.01, 0.03, 0.1)
SET_UPS = (3, 5)
GUESTS = (2, 4, 8, 16)
PACKETS = 256
STEPS = 9
COLUMNS = ("what", "how it is", "set-ups", "intervals", "held the truth", "must be", "besides", "is")

Drawn = Callable[[np.random.Generator, float, int], "NDArray[np.int64]"]


class Case(NamedTuple):
    """A row. ``band``: of the share that holds the truth; None: shown."""

    what: str
    how: str
    set_ups: int
    cell: Cell
    band: tuple[float, float] | None
    besides: Callable[[Counter[Any]], str] = lambda found: ""


def independent(rng: np.random.Generator, ratio: float, set_ups: int) -> NDArray[np.int64]:
    """Events in the bins of each set-up."""
    return rng.binomial(BINS, ratio, set_ups)


def varied(rng: np.random.Generator, ratio: float, set_ups: int) -> NDArray[np.int64]:
    shape = 1 / 0.3**2
    return rng.binomial(BINS, np.minimum(rng.gamma(shape, ratio / shape, set_ups), 1))


def exponential(rng: np.random.Generator, ratio: float, set_ups: int) -> NDArray[np.int64]:
    return rng.binomial(BINS, np.minimum(rng.exponential(ratio, set_ups), 1))


def stretches(rng: np.random.Generator, ratio: float, set_ups: int) -> NDArray[np.int64]:
    """Of three bins on the average, after one of which another follows by chance."""
    state = rng.random(set_ups) < ratio
    found = np.zeros(set_ups, dtype=np.int64)
    begins = ratio / (3 * (1 - ratio))
    for _ in range(BINS):
        found += state
        state = rng.random(set_ups) < np.where(state, 2 / 3, begins)
    return found


SCATTERS: dict[str, tuple[Drawn, bool]] = {
    "independent bins": (independent, True),
    "set-ups vary by 30 %": (varied, True),
    "exponential over set-ups": (exponential, True),
    "stretches of 3 bins": (stretches, False),
}
"""How events come, and whether coverage is promised."""


def coverage(simulations: int = SIMULATIONS, processes: int = 1) -> Table:
    """The table."""
    table = Table("25. Shares and least guests", COLUMNS)
    table.summary = (
        f"Dominance: {BINS} bins a set-up. Least: the lowest of guests whose rates differ by 1 % (sd) between set-ups. Weights: "
        f"{STEPS} steps of {PACKETS} packets, each guest at its due; a point passes where no interval leaves it out. Jain: "
        "how often the bound is no higher than the index of what guests get in the long run."
    )
    cases = [*_events(simulations), *_least(simulations), *_weights(simulations), *_jain(simulations)]
    for case, found in zip(cases, counted([case.cell for case in cases], processes), strict=True):
        share = found["held"] / found["intervals"]
        missed = found["intervals"] - found["held"]
        right = case.band is None or (
            case.band[0] <= share <= case.band[1]
            if case.band[0] < 1 - ERRORS
            else tolerable(missed, found["intervals"])
        )
        table.add(
            case.what,
            case.how,
            case.set_ups,
            found["intervals"],
            f"{share:.1%}",
            "shown" if case.band is None else band_text(case.band),
            case.besides(found),
            "" if case.band is None else YES if right else NO,
            failure=None if right else f"{share:.1%} held the truth",
        )
    return table


AT_LEAST = (COVERAGE[0], 1.0)
SELDOM = (1 - ERRORS, 1.0)


def _events(simulations: int) -> list[Case]:
    return [
        Case(
            f"dominance, {100 * ratio:g} % of the bins",
            name,
            set_ups,
            Cell(251, events, (draw, ratio, set_ups), simulations, chunk=simulations),
            AT_LEAST if promised else None,
            lambda found: (
                f"none seen: {found['none'] / found['intervals']:.0%}; ends at {found['high'] / found['intervals']:.2f}"
            ),
        )
        for name, (draw, promised) in SCATTERS.items()
        for set_ups in SET_UPS
        for ratio in EVENT_RATIOS
    ]


def events(rng: np.random.Generator, simulations: int, draw: Drawn, ratio: float, set_ups: int) -> Counter[Any]:
    found: Any = Counter(intervals=simulations, held=0, none=0)
    for _ in range(simulations):
        counts = draw(rng, ratio, set_ups)
        estimate = share_over_set_ups({number: [(int(count), BINS)] for number, count in enumerate(counts)})
        assert estimate is not None and estimate.ci_low is not None and estimate.ci_high is not None
        found["held"] += estimate.ci_low <= ratio <= estimate.ci_high
        found["none"] += estimate.mean == 0
        found["high"] += estimate.ci_high
    return found  # type: ignore[no-any-return]


def _least(simulations: int) -> list[Case]:
    return [
        Case(
            f"least of {guests} guests",
            how,
            set_ups,
            Cell(252, least, (guests, set_ups, lower, tail), simulations, chunk=simulations),
            AT_LEAST,
            lambda found: (
                f"mean off by {found['off'] / found['intervals']:+.2f} %; {found['width'] / found['plain']:.1f} times "
                f"the plain width, which holds it in {found['plain held'] / found['intervals']:.0%}"
            ),
        )
        for how, lower, tail in (
            ("all alike", 0.0, 0),
            ("one gets 3 % less", 0.03, 0),
            ("all alike, skewed", 0.0, 1),
            ("one gets 3 % less, all with a tail down", 0.03, -1),
            ("one gets 10 % less, all with a tail down", 0.1, -1),
        )
        for set_ups in SET_UPS
        for guests in GUESTS
    ]


def least(
    rng: np.random.Generator, simulations: int, guests: int, set_ups: int, lower: float, tail: int
) -> Counter[Any]:
    """``tail``: +1, rates are exponential with a tail towards high ones; -1, towards low ones; 0, they are normal."""
    found: Any = Counter(intervals=simulations, held=0)
    truth = np.ones(guests)
    truth[0] -= lower
    size = (set_ups, guests)
    for _ in range(simulations):
        noise = tail * (rng.exponential(size=size) - 1) if tail else rng.standard_normal(size)
        means = [_mean(values) for values in (truth * (1 + 0.01 * noise)).T]
        estimate = lowest_mean(means)
        plain = min(means, key=lambda each: each.mean)
        assert estimate is not None and estimate.ci_low is not None and estimate.ci_high is not None
        assert plain.ci_low is not None and plain.ci_high is not None
        found["held"] += estimate.ci_low <= truth.min() <= estimate.ci_high
        found["plain held"] += plain.ci_low <= truth.min() <= plain.ci_high
        found["off"] += 100 * (estimate.mean - truth.min())
        found["width"] += estimate.ci_high - estimate.ci_low
        found["plain"] += plain.ci_high - plain.ci_low
    return found  # type: ignore[no-any-return]


def _mean(values: NDArray[np.float64]) -> SetUpMean:
    return mean_over_set_ups({number: [float(value)] for number, value in enumerate(values)})


def _weights(simulations: int) -> list[Case]:
    return [
        Case(
            f"weights {':'.join(map(str, weights))}",
            how,
            set_ups,
            Cell(253, weights_held, (weights, set_ups, drawn), simulations // 4, chunk=simulations // 4),
            SELDOM,
            lambda found: f"± {found['reach'] / found['ends']:.4f} on the average",
        )
        for how, drawn in (("packets by chance", True), ("packets in turn, by whole ones", False))
        for set_ups in SET_UPS
        for weights in ((1, 1), (30, 1), (3, 2, 1, 1))
    ]


def weights_held(
    rng: np.random.Generator, simulations: int, weights: tuple[int, ...], set_ups: int, drawn: bool
) -> Counter[Any]:
    """A point is right where each guest's interval in each step holds its due."""
    found: Any = Counter(intervals=simulations, held=0)
    due = np.array(weights) / sum(weights)
    family = STEPS * (len(weights) if len(weights) > 2 else 1)
    for _ in range(simulations):
        if drawn:
            counts = rng.multinomial(PACKETS, due, (STEPS, set_ups))
        else:
            exact = np.broadcast_to(due * PACKETS, (STEPS, set_ups, len(due)))
            counts = np.floor(exact + rng.random((STEPS, 1, 1)))  # all set-ups alike, off by less than one
        right = True
        for step in counts / PACKETS:
            for guest, ratio in enumerate(due):
                shares = {number: [float(share)] for number, share in enumerate(step[:, guest])}
                estimate = deviation_over_set_ups(shares, float(ratio), family, 1 / PACKETS)
                assert estimate is not None and estimate.ci_low is not None and estimate.ci_high is not None
                right &= estimate.ci_low <= 0 <= estimate.ci_high
                found["reach"] += (estimate.ci_high - estimate.ci_low) / 2
                found["ends"] += 1
        found["held"] += right
    return found  # type: ignore[no-any-return]


def _jain(simulations: int) -> list[Case]:
    return [
        Case(
            f"Jain of {guests} guests",
            how,
            set_ups,
            Cell(254, index_bounded, (guests, set_ups, apart, cv), simulations, chunk=simulations),
            SELDOM,
            lambda found: (
                f"index {found['truth'] / found['intervals']:.4f}, bound {found['low'] / found['intervals']:.4f}"
            ),
        )
        for how, apart, cv in (
            ("fair, sd 2 %", 0.0, 0.02),
            ("fair, sd 10 %", 0.0, 0.1),
            ("5 % more and less, sd 2 %", 0.05, 0.02),
            ("20 % more and less, sd 2 %", 0.2, 0.02),
        )
        for set_ups in SET_UPS
        for guests in (2, 4)
    ]


def index_bounded(
    rng: np.random.Generator, simulations: int, guests: int, set_ups: int, apart: float, cv: float
) -> Counter[Any]:
    found: Any = Counter(intervals=simulations, held=0)
    long_run = np.ones(guests)
    long_run[0] += apart
    long_run[-1] -= apart
    truth = jain_index(long_run.tolist())
    assert truth is not None
    for _ in range(simulations):
        rates = long_run * (1 + cv * rng.standard_normal((set_ups, guests)))
        estimate = lower_bounded(_mean(np.array([jain_index(each) for each in rates.tolist()])))
        assert estimate.ci_low is not None and estimate.ci_high is None
        found["held"] += estimate.ci_low <= truth
        found["truth"] += truth
        found["low"] += estimate.ci_low
    return found  # type: ignore[no-any-return]
