"""Results of a kind other than runs over the occasions of its plans: the report units that all kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from labconsole.contracts.measured import MeasuredKind, MeasuredTrial
from labconsole.contracts.report import Figure, ReportUnit, Table
from labconsole.model.plan.occasions import AT
from labconsole.report.material import Material, Unit
from labconsole.report.measured_points import select_newest
from labconsole.report.occasions import base_name, build_trial_sides
from labconsole.report.trend_tables import build_figures, build_results_tables, build_tables
from labconsole.report.trends import Trend, find_trends

SEARCHES = "search"
"""The kind that a report's material keeps apart from the others."""

MOST_PANELS = 12
"""Most panels of the figure; the table has every design point."""


def build_trend_units(measured: MeasuredKind, place: int) -> tuple[Unit, ...]:
    """A figure and tables of every plan with several occasions; empty if there is none."""
    name = measured.kind.name
    return (
        ReportUnit(name=f"trend-{name}", place=place, make=partial(_figure, measured=measured)),
        ReportUnit(name=f"trends-{name}", place=place, make=partial(_tables, measured=measured)),
    )


def build_trend_figures(trends: Sequence[Trend]) -> list[Figure]:
    """Figures of the first design points."""
    return list(build_figures(trends[:MOST_PANELS]))


def build_trend_tables(trends: Sequence[Trend], omitted: Sequence[str]) -> list[Table]:
    """Tables of the design points, the changes, and every result. ``omitted``: the occasions that are left out."""
    found = list(build_tables(trends))
    if found and omitted:
        found[0] = replace(found[0], note=f"{found[0].note} {'. '.join(omitted)}.")
    return [*found, *build_results_tables(trends)]


def _figure(material: Material, *, measured: MeasuredKind) -> list[Figure]:
    return build_trend_figures(_trends(material, measured)[0])


def _tables(material: Material, *, measured: MeasuredKind) -> list[Table]:
    return build_trend_tables(*_trends(material, measured))


def _trends(material: Material, measured: MeasuredKind) -> tuple[list[Trend], list[str]]:
    by_plan: dict[str, list[MeasuredTrial]] = {}
    records = material.searches if measured.kind.name == SEARCHES else material.of(measured.kind.name)
    for trial in select_newest(measured.trials(records, material.search_runs)):
        if AT in trial.plan_name:
            by_plan.setdefault(base_name(trial.plan_name), []).append(trial)
    found: list[Trend] = []
    omitted: list[str] = []
    for trials in by_plan.values():
        if len({trial.plan_name for trial in trials}) > 1:
            sides = list(build_trial_sides(trials, trials, "", omitted.append))
            found += find_trends(sides, margin_ratio=material.given_margin_ratio)
    return found, omitted
