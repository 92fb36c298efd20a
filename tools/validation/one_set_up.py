"""For contrast: what the same data say when one set-up is all there is and its trials are taken for replicates.

That was the program's way up to method 1: Welch's interval over trials, in the order of a plan without blocks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from simulating import Cell, counted
from synthetic import DRIFT, SET_UPS_DIFFER, Scenario, SyntheticPlan
from tables import NO, YES, Table

from labconsole.measure.statistics.repetitions import difference
from labconsole.report.evaluation import evaluate

TRIALS = (3, 9)
CASES = ((SET_UPS_DIFFER, "blocked-random"), (DRIFT, "blocked-random"), (DRIFT, "full-random"))
REPORTS = 200
COLUMNS = (
    "scenario",
    "order",
    "trials of one set-up",
    "comparisons",
    "called detectable before",
    "claimed now",
    "must be",
    "is",
)


def contrast(reports: int = REPORTS, processes: int = 1) -> Table:
    """The table."""
    table = Table("10. The same without replicate set-ups", COLUMNS)
    cases = [(*case, trials) for case in CASES for trials in TRIALS]
    cells = [Cell(7, concluded, case, reports) for case in cases]
    for (scenario, order, trials), found in zip(cases, counted(cells, processes), strict=True):
        table.add(
            scenario.name,
            order,
            trials,
            found["comparisons"],
            f"{found['detectable'] / found['comparisons']:.1%}",
            found["claims"],
            0,
            NO if found["claims"] else YES,
            failure=f"{found['claims']} claims from one set-up" if found["claims"] else None,
        )
    return table


def concluded(rng: np.random.Generator, reports: int, scenario: Scenario, order: str, trials: int) -> Counter[Any]:
    """What was called detectable without any effect; and how much the report claims of the same runs now."""
    plan = SyntheticPlan(1, trials, in_blocks=False)
    found: Counter[Any] = Counter()
    for _ in range(reports):
        made = evaluate(plan.drawn_in_one_go(rng, scenario, order))
        found["claims"] += made.claims.size
        values = {(p.platform, p.frame.bytes, p.background): p.trial_values_bps for p in made.points}
        for (platform, size, background), subject in values.items():
            if background == "none":
                continue
            baseline = values[platform, size, "idle" if background in ("light", "heavy") else "none"]
            interval = difference(subject, baseline)
            assert interval.ci_low is not None and interval.ci_high is not None
            found["comparisons"] += 1
            found["detectable"] += not interval.ci_low <= 0 <= interval.ci_high
    return found
