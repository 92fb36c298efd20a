"""A whole evaluation without any effect: how often does its report say that there is one?

The report's own functions on runs of a plan in blocks (synthetic.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from simulating import COVERAGE, Cell, band_text, counted, tolerable, tolerable_of_reports, within
from synthetic import (
    FRAME_SIZES_BYTES,
    IID,
    PLATFORMS,
    SCENARIOS,
    SET_UPS_DIFFER,
    SLOWED,
    TRUE_PPS,
    Scenario,
    SyntheticPlan,
)
from tables import NO, YES, Table

from labconsole.model.design_point import BACKGROUNDS
from labconsole.report.claims import Claim
from labconsole.report.evaluation import Evaluation, evaluate

PLANS = ((3, 1), (3, 3), (5, 1), (5, 3))
"""Set-ups and repetitions."""

SLOWED_PLANS = ((3, 3), (5, 1))

AT_LEAST = (0.93, 1.0)
REPORTS = 2000
COLUMNS = (
    "scenario",
    "set-ups × trials",
    "reports",
    "comparisons",
    "different by the plain interval",
    "must be",
    "reports with a false *different*",
    "must be",
    "means: the interval holds it",
    "must be",
    "is",
)


def no_effect(reports: int = REPORTS, processes: int = 1) -> Table:
    """The table."""
    table = Table("9. A whole report without any effect", COLUMNS)
    table.summary = (
        f"{len(PLATFORMS)} platforms × {len(BACKGROUNDS)} backgrounds × {len(FRAME_SIZES_BYTES)} frame sizes, all alike. "
        "A share of errors passes when its lower 99 % bound (Clopper and Pearson) is at most 5 %; comparisons of one "
        "report share set-ups, and count as correspondingly fewer (Korn and Graubard 1998). In (v) the mean of a platform "
        "that no block had measured in the slow third is too high, and few blocks cannot tell: that is shown, and no claim "
        "rests on it."
    )
    cases = [(scenario, *plan) for scenario in SCENARIOS for plan in plans_of(scenario)]
    cells = [Cell(4, null_reports, case, reports) for case in cases]
    for case, found in zip(cases, counted(cells, processes), strict=True):
        _row(table, *case, found)
    return table


def plans_of(scenario: Scenario) -> tuple[tuple[int, int], ...]:
    return SLOWED_PLANS if scenario is SLOWED else PLANS


def _row(table: Table, scenario: Scenario, set_ups: int, repetitions: int, found: Counter[Any]) -> None:
    reports, comparisons, means = (found[name] for name in ("reports", "comparisons", "means"))
    held = found["held"] / means
    band = COVERAGE if scenario in (IID, SET_UPS_DIFFER) else None if scenario is SLOWED else AT_LEAST
    wrong = [
        sentence
        for sentence, right in (
            (
                f"{found['plain']} of {comparisons} comparisons",
                tolerable_of_reports(found["plain"], comparisons, found["plain squares"], reports),
            ),
            (f"{found['false reports']} of {reports} reports", tolerable(found["false reports"], reports)),
            (f"{held:.2%} of the means' intervals hold the truth", band is None or within(held, band)),
        )
        if not right
    ]
    table.add(
        scenario.name,
        f"{set_ups} × {repetitions}",
        reports,
        comparisons,
        f"{found['plain'] / comparisons:.2%}",
        "at most 5%",
        f"{found['false reports'] / reports:.2%}",
        "at most 5%",
        f"{held:.2%}",
        "shown" if band is None else band_text(band),
        NO if wrong else YES,
        failure="; ".join(wrong) or None,
    )


def null_reports(
    rng: np.random.Generator, reports: int, scenario: Scenario, set_ups: int, repetitions: int
) -> Counter[Any]:
    """What so many reports without an effect say."""
    plan = SyntheticPlan(set_ups, repetitions)
    found: Counter[Any] = Counter(reports=reports)
    for _ in range(reports):
        made = evaluate(plan.drawn(rng, scenario))
        tested = [claim for claim in made.claims.claims if claim.p is not None]
        found["comparisons"] += len(tested)
        plain = sum(map(by_plain_interval, tested))
        found["plain"] += plain
        found["plain squares"] += plain * plain
        found["false reports"] += any(claim.different for claim in made.claims.claims)
        found["means"] += len(made.points)
        found["held"] += held_means(made, scenario.truth)
    return found


def by_plain_interval(claim: Claim) -> bool:
    """Whether its interval leaves zero out."""
    effect = claim.effect
    assert effect is not None and effect.ci_low is not None and effect.ci_high is not None
    return not effect.ci_low <= 0 <= effect.ci_high


def held_means(made: Evaluation, factor: float) -> int:
    """Of how many points the interval of the rate holds the true one times ``factor``."""
    held = 0
    for point in made.points:
        low, high = point.rate_pps.ci_low, point.rate_pps.ci_high
        assert low is not None and high is not None and point.rate_pps.scope == "set-ups"
        held += low <= factor * TRUE_PPS[point.frame.bytes] <= high
    return held
