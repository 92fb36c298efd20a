"""How often a report sees an effect that is there, against what the noncentral t says; and when it says "equivalent"."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from simulating import Cell, counted, tolerable, tolerable_of_reports
from synthetic import IID, SET_UPS_DIFFER, Changed, Scenario, SyntheticPlan
from tables import NO, YES, Table

from labconsole.measure.statistics.effects import equivalence_p, power
from labconsole.report.comparisons import Comparison
from labconsole.report.evaluation import evaluate

PLANS = ((3, 1), (3, 3), (5, 3))
CHANGES = (0.01, 0.02, 0.05)
CHANGED = "heavy"
"""The background that has the effect, on every platform and at every frame size, against an idle second guest."""

POINTS = 0.03
MARGIN = 0.02
REPORTS = 300
COLUMNS = ("true change", "scenario", "set-ups × trials", "comparisons", "called", "found", "must be", "is")


def seen(reports: int = REPORTS, processes: int = 1) -> Table:
    """The table of power."""
    table = Table("11. Power", COLUMNS)
    table.summary = (
        f"One background changes the rate of every platform at every frame size; the other claims of the report have no "
        f"effect. Predicted by the noncentral t from the true scatter: {POINTS:.0%} more or less may be found."
    )
    cases = [(change, scenario, *plan) for scenario in (IID, SET_UPS_DIFFER) for plan in PLANS for change in CHANGES]
    cells = [Cell(5, changed_reports, (scenario, change, s, r), reports) for change, scenario, s, r in cases]
    for case, found in zip(cases, counted(cells, processes), strict=True):
        _power_rows(table, *case, found)
    return table


def _power_rows(
    table: Table, change: float, scenario: Scenario, set_ups: int, repetitions: int, found: Counter[Any]
) -> None:
    of, family = found["changed"], found["claims"] / found["reports"]
    for word, alpha in (("plain", 0.05), ("after Holm", 0.05 / family)):
        chance = power(change, deviation(scenario, repetitions), set_ups, alpha)
        assert chance is not None
        share = found[word] / of
        right = abs(share - chance) <= POINTS
        called = (
            "*different* by the plain interval" if word == "plain" else f"*different* among {family:g} claims (Holm)"
        )
        table.add(
            f"{change:+.0%}",
            scenario.name,
            f"{set_ups} × {repetitions}",
            of,
            called,
            f"{share:.1%}",
            f"{chance:.1%} ± {POINTS:.0%}",
            YES if right else NO,
            failure=None if right else f"{share:.1%} are seen, {chance:.1%} by the noncentral t",
        )


def deviation(scenario: Scenario, repetitions: int) -> float:
    """Of the logarithm of a block's ratio: two set-ups, each with its trials."""
    return math.sqrt(2 * (scenario.set_ups_sd**2 + scenario.trials_sd**2 / repetitions))


def changed_reports(
    rng: np.random.Generator, reports: int, scenario: Scenario, change: float, set_ups: int, repetitions: int
) -> Counter[Any]:
    """Of reports in which one background has an effect: how often that is seen, by the plain interval and after Holm."""
    plan = SyntheticPlan(set_ups, repetitions)
    found: Counter[Any] = Counter(reports=reports)
    for _ in range(reports):
        made = evaluate(plan.drawn(rng, scenario, Changed(CHANGED, change)))
        found["claims"] += made.claims.size
        for row in _of_changed(made.cpu_loads):
            found["changed"] += 1
            found["plain"] += row.claim.p is not None and row.claim.p <= 0.05
            found["after Holm"] += row.claim.different
    return found


def _of_changed(rows: tuple[Comparison, ...]) -> list[Comparison]:
    return [row for row in rows if row.subject.setting.background == CHANGED]


def equivalent(reports: int = REPORTS, processes: int = 1) -> Table:
    """The table of equivalence."""
    table = Table("12. Equivalence", COLUMNS)
    table.summary = (
        f"Within a margin of {MARGIN:.0%}. With a true change of just the margin, *equivalent* is an error, which may be made "
        "in 5 % of such rows by the row's own test, and in 5 % of reports after Holm."
    )
    cases = [
        (change, scenario, *plan) for scenario in (IID, SET_UPS_DIFFER) for plan in PLANS for change in (0.0, MARGIN)
    ]
    cells = [Cell(6, equivalent_reports, (scenario, change, s, r), reports) for change, scenario, s, r in cases]
    for case, found in zip(cases, counted(cells, processes), strict=True):
        _equivalence_rows(table, *case, found)
    return table


def _equivalence_rows(
    table: Table, change: float, scenario: Scenario, set_ups: int, repetitions: int, found: Counter[Any]
) -> None:
    of, reports = found["changed"], found["reports"]
    plan, errors = f"{set_ups} × {repetitions}", change != 0
    right = not errors or tolerable_of_reports(found["plain"], of, found["plain squares"], reports)
    table.add(
        f"{change:+.0%}",
        scenario.name,
        plan,
        of,
        "*equivalent* by the row's own test",
        f"{found['plain'] / of:.1%}",
        "at most 5%" if errors else "shown",
        "" if not errors else YES if right else NO,
        failure=None if right else f"{found['plain']} of {of} rows are called equivalent",
    )
    right = not errors or tolerable(found["reports with one"], reports)
    share = found["reports with one"] / reports if errors else found["after Holm"] / of
    table.add(
        f"{change:+.0%}",
        scenario.name,
        plan,
        reports if errors else of,
        "reports with an *equivalent* that is false" if errors else "*equivalent* after Holm",
        f"{share:.1%}",
        "at most 5%" if errors else "shown",
        "" if not errors else YES if right else NO,
        failure=None if right else f"{found['reports with one']} of {reports} reports have one",
    )


def equivalent_reports(
    rng: np.random.Generator, reports: int, scenario: Scenario, change: float, set_ups: int, repetitions: int
) -> Counter[Any]:
    """How often rows with this true change are called equivalent, by their own test and after Holm."""
    plan = SyntheticPlan(set_ups, repetitions)
    found: Counter[Any] = Counter(reports=reports)
    for _ in range(reports):
        made = evaluate(plan.drawn(rng, scenario, Changed(CHANGED, change)), margin_ratio=MARGIN)
        rows = [row.claim for row in _of_changed(made.cpu_loads)]
        plain = sum(
            (p := equivalence_p(claim.effect, MARGIN)) is not None and p <= 0.05 for claim in rows if claim.effect
        )
        after = sum(claim.word in ("equivalent", "different, within the margin") for claim in rows)
        found.update(
            {
                "changed": len(rows),
                "plain": plain,
                "plain squares": plain * plain,
                "after Holm": after,
                "reports with one": int(after > 0),
            }
        )
    return found
