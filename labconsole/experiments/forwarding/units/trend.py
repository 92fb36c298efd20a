"""Results over the occasions on which plans were measured, and where they change; figure and tables."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.report import Figure, ReportUnit, Table
from labconsole.measure.groups import is_search_trial
from labconsole.measure.run_row import RunRow
from labconsole.model.plan.occasions import AT
from labconsole.report.changes import Side
from labconsole.report.digest import Digest
from labconsole.report.material import Material
from labconsole.report.sample import KeptRuns
from labconsole.report.trend_tables import figures, results_table
from labconsole.report.trend_tables import tables as trend_tables
from labconsole.report.trends import Trend, find_trends

MOST_PANELS = 12
"""Of the figure; the table has every design point."""


def trends(material: Material) -> list[Trend]:
    """Of every plan with several occasions; empty without one. What else changed is what the runs' conditions tell."""
    by_plan: dict[str, dict[tuple[str, str, str], list[RunRow]]] = {}
    for run in material.kept.entered:
        name = getattr(run, "plan_name", None)
        if name and AT in name and not is_search_trial(run):
            key = (name, run.plan_hash or "", run.testbed_fingerprint)
            by_plan.setdefault(name.partition(AT)[0], {}).setdefault(key, []).append(run)
    found: list[Trend] = []
    for occasions in by_plan.values():
        if len(occasions) > 1:
            found += find_trends([_side(key[0], runs, material) for key, runs in occasions.items()])
    return found


def _side(words: str, runs: Sequence[RunRow], material: Material) -> Side:
    kept = KeptRuns(tuple(runs), (), {})
    return Side(words=words, place="", kept=kept, admission=material.evaluation.admission, digest=Digest(()))


def figure(material: Material) -> list[Figure]:
    """None without several occasions."""
    return list(figures(trends(material)[:MOST_PANELS]))


def tables(material: Material) -> list[Table]:
    """One of the design points, one of the changes, if there are any, and one of every result."""
    found = trends(material)
    return [*trend_tables(found), *results_table(found)]


UNITS = (
    ReportUnit(name="trend", place=64, make=figure),
    ReportUnit(name="trends", place=155, make=tables),
)  # fmt: skip
