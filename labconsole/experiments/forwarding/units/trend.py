"""Results over the occasions of plans, and where they change; figure and tables."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.comparison.changes import Side
from labconsole.comparison.occasions import base_name, count_planned_and_missing, describe_incomplete
from labconsole.comparison.trend_tables import build_trend_figures, build_trend_tables
from labconsole.comparison.trends import Trend, find_trends
from labconsole.contracts.report import Figure, ReportUnit, Table
from labconsole.measure.groups import is_search_trial
from labconsole.measure.run_row import RunRow
from labconsole.model.plan.plan import AT
from labconsole.report.digest import Digest
from labconsole.report.material import Material
from labconsole.report.sample import RunSample

Occasion = tuple[str, str, str]
"""A plan's name and hash, and the fingerprint of its testbed."""


def trends(material: Material) -> tuple[list[Trend], list[str]]:
    """Return the trend of every plan with several occasions, and the excluded ones; both empty without any.

    The conditions of the runs say what else changed.
    """
    every = _group_by_occasion((*material.kept.entered, *material.kept.excluded))
    by_plan: dict[str, dict[Occasion, list[RunRow]]] = {}
    for key, runs in _group_by_occasion(material.kept.entered).items():
        by_plan.setdefault(base_name(key[0]), {})[key] = runs
    found: list[Trend] = []
    incomplete: list[str] = []
    for occasions in by_plan.values():
        sides = []
        for key, runs in occasions.items():
            facts = material.digest.planned.get(key[1:])
            planned, missing = count_planned_and_missing(every[key], None if facts is None else facts.set_ups)
            if missing:
                incomplete.append(describe_incomplete(key[0], planned, missing, "set-ups"))
            else:
                sides.append(_side(key[0], runs, material))
        if len(occasions) > 1:
            found += find_trends(sides, margin_ratio=material.given_margin_ratio)
    return found, incomplete


def _group_by_occasion(runs: Sequence[RunRow]) -> dict[Occasion, list[RunRow]]:
    found: dict[Occasion, list[RunRow]] = {}
    for run in runs:
        name = getattr(run, "plan_name", None)
        if name and AT in name and not is_search_trial(run):
            found.setdefault((name, run.plan_hash or "", run.testbed_fingerprint), []).append(run)
    return found


def _side(name: str, runs: Sequence[RunRow], material: Material) -> Side:
    kept = RunSample(tuple(runs), (), {})
    digest = Digest(())
    digest.facts = {run.run_id: known for run in runs if (known := material.digest.facts.get(run.run_id)) is not None}
    return Side(words=name, place="", kept=kept, admission=material.evaluation.admission, digest=digest)


def figure(material: Material) -> list[Figure]:
    """Build a figure per trend; none without several occasions."""
    return build_trend_figures(trends(material)[0])


def tables(material: Material) -> list[Table]:
    """Build the tables of design points, of changes if there are any, and of every result."""
    return build_trend_tables(*trends(material))


UNITS = (
    ReportUnit(name="trend", place=64, make=figure),
    ReportUnit(name="trends", place=155, make=tables),
)
