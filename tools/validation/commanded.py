"""Whole evaluations without any effect through the real command: a store of records, ``labconsole report --json``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from null_evaluation import plans_of
from simulating import Cell, counted, tolerable
from synthetic import SCENARIOS, Scenario, SyntheticPlan
from synthetic_records import said_by_the_command
from tables import NO, YES, Table

from labconsole.report.evaluation import evaluate

REPORTS = 20
COLUMNS = (
    "scenario",
    "set-ups × trials",
    "reports",
    "claims tested",
    "as by the functions",
    "reports with a false *different*",
    "findings that claim",
    "is",
)


def no_effect(reports: int = REPORTS, processes: int = 1) -> Table:
    """The table."""
    table = Table("13. The same by the real command", COLUMNS)
    table.summary = (
        "Each report from a store of records of its own. *As by the functions*: its rows have the p values, plain and "
        "adjusted, of the functions that table 9 counts by."
    )
    cases = [(scenario, *plan) for scenario in SCENARIOS for plan in plans_of(scenario)]
    cells = [Cell(8, commanded, case, reports, chunk=5) for case in cases]
    for (scenario, set_ups, repetitions), found in zip(cases, counted(cells, processes), strict=True):
        wrong = (
            found["alike"] != found["reports"]
            or not tolerable(found["false reports"], found["reports"])
            or found["findings"] > found["different"]
        )
        table.add(
            scenario.name,
            f"{set_ups} × {repetitions}",
            found["reports"],
            found["tested"],
            f"{found['alike']} of {found['reports']}",
            found["false reports"],
            found["findings"],
            NO if wrong else YES,
            failure="the command does not say what the functions find" if wrong else None,
        )
    return table


def commanded(
    rng: np.random.Generator, reports: int, scenario: Scenario, set_ups: int, repetitions: int
) -> Counter[Any]:
    """What the command says of so many evaluations, and how often that is what the functions find."""
    plan = SyntheticPlan(set_ups, repetitions)
    found: Counter[Any] = Counter(reports=reports)
    for _ in range(reports):
        rows = plan.drawn(rng, scenario)
        made = evaluate(rows)
        head, *parts = said_by_the_command(plan, rows)
        tested, different = head["claims"]["tested"], head["claims"]["different"]
        rows_said = [row for part in parts for row in part.get("rows", ()) if row.get("word")]
        found["alike"] += tested == made.claims.size and np.allclose(
            sorted((row["p"], row["adjusted_p"]) for row in rows_said),
            sorted((claim.p, claim.adjusted_p) for claim in made.claims.claims),
            rtol=1e-9,
            atol=0,
        )
        found["tested"] += tested
        found["different"] += different
        found["false reports"] += different > 0
        found["findings"] += sum(bool(part.get("claim")) for part in parts)
    return found
