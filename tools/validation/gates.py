"""Gates on synthetic occasions whose truth is known: how often they are wrong, what they find, and what they name.

Through the functions that ``labconsole gate`` calls once it has read its store; some by the command itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from scipy.signal import lfilter
from simulating import Cell, counted, tolerable, within
from synthetic_gates import MARGIN, SET_UPS, Occasions, judged_by_the_command, judged_by_the_functions
from tables import NO, YES, Table

from labconsole.comparison.judgements import JudgedPoint
from labconsole.measure.statistics.gate_power import OccasionCounts

Floats = np.ndarray[Any, np.dtype[np.float64]]

GATES = 800
COMMANDED = 6
COUNTS: Final = (*product((1, 3, 5), (1, 3)), (5, 2), (6, 1))
"""Occasions of the baseline, and later ones."""

UNEVEN: Final = ((3, 1), (5, 1), (6, 1), (9, 1), (3, 2), (5, 2), (3, 3), (5, 3), (20, 3))
"""Of deviations that are no normal ones."""

Noise = Callable[[np.random.Generator, tuple[int, int]], Floats]


def _normal(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    return rng.standard_normal(of)


def _heavy(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    return np.asarray(rng.standard_t(3, of) / np.sqrt(3))


def _exponential(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    return rng.exponential(size=of) - 1


def _tail_down(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    return 1 - rng.exponential(size=of)


def _gamma(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    return np.asarray((rng.gamma(2, size=of) - 2) / np.sqrt(2))


def _lognormal(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    return np.asarray((np.exp(rng.standard_normal(of)) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))


def _two_kinds(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    """One in five is of the other kind."""
    return np.where(rng.random(of) < 0.2, 2.0, -0.5)


def _resembling(rng: np.random.Generator, of: tuple[int, int]) -> Floats:
    """Each the one before it by 0.5; occasions in rows."""
    noise = rng.standard_normal((of[0] + 30, of[1])) * np.sqrt(0.75)
    return np.asarray(lfilter([1.0], [1.0, -0.5], noise, axis=0)[30:])


FALLS: Final = (0.03, 0.05, 0.10)
PASSING: Final = (0.70, 0.95)
FEWEST_NAMED: Final = 60
"""Gates that named a margin: of fewer the share is shown alone."""

COLUMNS = (
    "scenario",
    "occasions",
    "gates",
    "worse without a change",
    "worse at the margin",
    "passed at the margin",
    "must be",
    "worse at −3 %",
    "at −5 %",
    "at −10 %",
    "undecided without a change",
    "the margin named then passes",
    "must be",
    "is",
)


@dataclass(frozen=True)
class Scenario:
    """Set-ups scatter by 0.5 %. ``off_today``, ``off_before``: by how much one set-up of that side is off.

    ``drift_ratio``: from occasion to occasion; a drift is a change, and what is said of it is shown. ``limit_sd``: the
    load that is offered, in deviations of a set-up above what is forwarded: what carries it all lost nothing.
    ``noise``: of occasions. ``is_shown``: errors are shown, and nothing is promised of them.
    """

    name: str
    occasions_sd: float = 0.0
    noise: Noise = _normal
    boots_apart: bool = False
    off_today: float = 0.0
    off_before: float = 0.0
    drift_ratio: float = 0.0
    limit_sd: float | None = None
    counts: Sequence[tuple[int, int]] = COUNTS
    is_shown: bool = False

    def drawn(self, rng: np.random.Generator, baseline: int, later: int) -> tuple[Occasions, Occasions]:
        """Logarithms of set-ups, occasions in rows."""
        many = baseline + later
        of_set_ups = _heavy if self.noise is _heavy else _normal
        logs = self.occasions_sd * self.noise(rng, (many, 1)) + 0.005 * of_set_ups(rng, (many, SET_UPS))
        logs += np.log1p(self.drift_ratio) * np.arange(many)[:, None]
        logs[0, 0] += np.log1p(self.off_before)
        logs[baseline, 0] += np.log1p(self.off_today)
        limit = np.inf if self.limit_sd is None else self.limit_sd * np.hypot(self.occasions_sd, 0.005)
        sides = logs[:baseline], logs[baseline:]
        return Occasions(sides[0], self.boots_apart, limit), Occasions(sides[1], self.boots_apart, limit)


SCENARIOS = (
    Scenario("set-ups scatter, 0.5 %"),
    Scenario("and occasions, 1 %", 0.01),
    Scenario("and occasions, 3 %", 0.03),
    Scenario("the same of 1 %, t with 3 degrees", 0.01, noise=_heavy),
    Scenario("of 3 %, a boot for each set-up", 0.03, boots_apart=True),
    Scenario("of 1 %, one set-up today 20 % low", 0.01, off_today=-0.2),
    Scenario("of 1 %, one set-up of the baseline 20 % low", 0.01, off_before=-0.2),
    Scenario("of 1 %, three in ten trials lose nothing", 0.01, limit_sd=0.5),
    Scenario("of 1 %, 0.3 % slower with every occasion", 0.01, drift_ratio=-0.003, is_shown=True),
    Scenario("of 3 %, exponential, a tail up", 0.03, noise=_exponential, counts=UNEVEN),
    Scenario("of 3 %, exponential, a tail down", 0.03, noise=_tail_down, counts=UNEVEN),
    Scenario("of 3 %, gamma of shape 2", 0.03, noise=_gamma, counts=UNEVEN),
    Scenario("of 3 %, lognormal, 1", 0.03, noise=_lognormal, counts=UNEVEN),
    Scenario("of 3 %, two kinds, one in five of the other", 0.03, noise=_two_kinds, counts=UNEVEN),
    Scenario("of 1 %, two kinds, one in five of the other", 0.01, noise=_two_kinds, counts=UNEVEN),
    Scenario("of 3 %, each like the one before by 0.5", 0.03, noise=_resembling, counts=UNEVEN, is_shown=True),
)


def conclusions(gates: int = GATES, processes: int = 1) -> Table:
    """The table."""
    table = Table("23. Gates", COLUMNS)
    cases = [(scenario, *counts) for scenario in SCENARIOS for counts in scenario.counts]
    cells = [
        Cell(231, judged_gates, case, gates if OccasionCounts(*case[1:]).are_enough else max(gates // 8, 1))
        for case in cases
    ]
    for case, found in zip(cases, counted(cells, processes), strict=True):
        _row(table, *case, found)
    commanded = counted([Cell(232, commanded_gates, (each,), COMMANDED, chunk=3) for each in SCENARIOS], processes)
    alike, of = (sum(found[name] for found in commanded) for name in ("alike", "gates"))
    table.summary = (
        f"A margin of {MARGIN:.0%}, {SET_UPS} set-ups an occasion, one design point. *Occasions*: of the baseline + later. "
        "An error passes when its lower 99 % bound (Clopper and Pearson) is at most 5 %. The margin that an undecided gate "
        f"names is tried on the next later occasions against the same baseline. By the real command, from stores of records: "
        f"{alike} of {of} gates come out as by the functions."
    )
    if alike < of:
        table.add_failure("the real command", f"{of - alike} of {of} gates come out otherwise by it")
    return table


def _row(table: Table, scenario: Scenario, baseline: int, later: int, found: Counter[Any]) -> None:
    of, named, shown = found["gates"], found["named"], scenario.is_shown
    wrong = [
        f"{found[error]} of {of} {error}"
        for error in ("worse at 0", "worse at the margin", "passed at the margin")
        if not shown and not tolerable(found[error], of)
    ]
    plain = not (scenario.off_today or scenario.off_before or shown) and scenario.counts is COUNTS
    tried = plain and named >= FEWEST_NAMED
    if tried and not within(found["named passes"] / named, PASSING):
        wrong.append(f"the margin passes in {found['named passes']} of {named}")
    table.add(
        scenario.name,
        f"{baseline} + {later}",
        of,
        *(f"{found[error] / of:.1%}" for error in ("worse at 0", "worse at the margin", "passed at the margin")),
        "shown" if shown else "at most 5%",
        *(f"{found[f'worse at {fall}'] / of:.0%}" for fall in FALLS),
        f"{found['undecided at 0'] / of:.0%}",
        f"{found['named passes'] / named:.0%} of {named}" if named else "",
        f"{PASSING[0]:.0%} to {PASSING[1]:.0%}" if tried else "shown",
        NO if wrong else YES,
        failure="; ".join(wrong) or None,
    )


def judged_gates(rng: np.random.Generator, gates: int, scenario: Scenario, baseline: int, later: int) -> Counter[Any]:
    """What gates say of the same occasions without a change, after a fall of the margin, and after larger ones."""
    found: Counter[Any] = Counter(gates=gates)
    for _ in range(gates):
        before, after = scenario.drawn(rng, baseline, later)
        unchanged = judged_by_the_functions(before, after)
        found[f"{unchanged.outcome} at 0"] += 1
        found[f"{judged_by_the_functions(before, after.fallen(1 - 1 / (1 + MARGIN))).outcome} at the margin"] += 1
        for fall in FALLS:
            found[f"{judged_by_the_functions(before, after.fallen(fall)).outcome} at {fall}"] += 1
        if (margin := _named(unchanged)) is not None:
            following = scenario.drawn(rng, baseline, later)[1]
            found["named"] += 1
            found["named passes"] += judged_by_the_functions(before, following, margin).outcome == "passed"
    return found


def _named(judged: JudgedPoint) -> float | None:
    needed = judged.judgement.needed
    return None if needed is None else needed.margin_ratio


def commanded_gates(rng: np.random.Generator, gates: int, scenario: Scenario) -> Counter[Any]:
    """How often the command says what the functions do, in its exit status as in its words."""
    found: Counter[Any] = Counter(gates=gates)
    statuses: dict[str, int] = {"passed": 0, "worse": 1, "undecided": 4}
    for number in range(gates):
        before, after = scenario.drawn(rng, *_CYCLE[number % len(_CYCLE)])
        after = after.fallen((0.0, 0.05, 0.1)[number % 3])
        status, said = judged_by_the_command(before, after)
        same = judged_by_the_functions(before, after)
        found["alike"] += (status, said["outcome"], said["outlier"] is None) == (
            statuses[same.outcome],
            same.outcome,
            same.outlier is None,
        )
    return found


_CYCLE: Sequence[tuple[int, int]] = ((3, 1), (5, 1), (5, 3), (1, 3), (3, 3), (1, 1))
