"""Everything a report shows, assembled once; files, terminal and JSON take it from here. Pure."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from labconsole.contracts.report import Figure, Findings, MethodNote, Part, Table
from labconsole.measure.admission import admit
from labconsole.model.record.annotations import PlanNote
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.run import InForce
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunSummary
from labconsole.plugins import PluginError
from labconsole.report.conclusions import draw_conclusions
from labconsole.report.digest import Digest, NonDefaultTolerances, describe_tolerances, find_non_default_tolerances
from labconsole.report.evaluation import Evaluation, evaluate
from labconsole.report.material import Material, Unit
from labconsole.report.panels import check_figure
from labconsole.report.planned_trials import PlannedTrials, select_guest_trials
from labconsole.report.points import platform_order
from labconsole.report.reference import PaperTables, match_platforms
from labconsole.report.request import Selection
from labconsole.report.sample import RunCoverage, RunSample, describe_missing, select_sample
from labconsole.report.tables import check_table
from labconsole.text.axis import MOST_CHARACTERS, MOST_POINTS, Undrawable, check_count, check_number, check_text

log = logging.getLogger("labconsole.report")

EMULATED = "Emulated testbed: it shows the method, not the speed of hardware."
"""Caveat in every caption of runs that were measured on an emulated testbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A complete report. ``material``: its input. ``conclusions``: sentences on what may and may not be concluded.

    ``references``: a paper's tables, for comparison. ``plans``: name and text of the files that selected the runs.
    ``plan_notes``: notes on the plans of the runs, each with its plan's name. ``failures``: the units that are left
    out, a sentence with the reason each.
    """

    title: str
    selection: Selection
    material: Material
    conclusions: tuple[str, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    references: tuple[Table, ...]
    findings: tuple[Findings, ...]
    method_notes: tuple[MethodNote, ...]
    plans: tuple[tuple[str, str], ...] = ()
    plan_notes: tuple[tuple[str, PlanNote], ...] = ()
    failures: tuple[str, ...] = ()


PAPERS = {
    "schlosser": "Schlosser et al.",
    "mattos": "Mattos et al.",
    "adamczyk": "Adamczyk and Chydzinski",
    "quetier": "Quétier et al.",
}
"""Authors of the papers, by the names that units call the papers."""


def assemble_report(
    kept: RunSample,
    digest: Digest,
    made: Evaluation,
    units: Sequence[Unit],
    *,
    selection: Selection | None = None,
    found: Sequence[RunCoverage] = (),
    planned: Sequence[PlannedTrials] = (),
    reference: PaperTables | None = None,
    names: Mapping[str, str] | None = None,
    searches: Sequence[SearchRecord] = (),
    search_runs: Mapping[str, RunSummary] | None = None,
    plans: Sequence[tuple[str, str]] = (),
    plan_notes: Sequence[tuple[str, PlanNote]] = (),
    experiments: Mapping[str, Sequence[ExperimentRecord]] | None = None,
    failures: Sequence[str] = (),
) -> Report:
    """Build the report on the runs that enter. ``names``: own platforms to the paper's, where they differ.
    ``failures``: failures of units in earlier steps.

    Raises ConfigError if ``names`` has an unknown platform.
    """
    chosen = selection or Selection()
    platforms = sorted({point.platform for point in made.points}, key=platform_order)
    others = sorted(
        {platform_of(each) for records in (experiments or {}).values() for each in records}, key=platform_order
    )
    material = Material(
        kept=kept,
        digest=digest,
        evaluation=made,
        coverage=tuple(found),
        planned_trials=tuple(planned),
        searches=tuple(searches),
        search_runs=search_runs or {},
        paper=reference,
        paper_names={} if reference is None else match_platforms([*platforms, *others], reference, names or {}),
        experiments=experiments or {},
    )
    parts, failed = _make_parts(units, material, (*chosen.warnings, *([EMULATED] if material.emulated else [])))
    tables = [part for part in parts if isinstance(part, Table) and part.rows]
    return Report(
        title=_title(platforms, others, of_runs=bool(kept.run_ids)),
        selection=chosen,
        material=material,
        conclusions=tuple(
            draw_conclusions(
                made,
                (*found, *planned),
                chosen,
                unreadable=digest.unreadable,
                trials=None
                if kept.run_ids
                else select_guest_trials(each for of in (experiments or {}).values() for each in of),
                judged=describe_tolerances([*digest.unusual, *_unusual(experiments or {})]),
            )
        ),
        figures=tuple(part for part in parts if isinstance(part, Figure)),
        tables=tuple(table for table in tables if not table.beside_paper),
        references=tuple(table for table in tables if table.beside_paper),
        findings=tuple(part for part in parts if isinstance(part, Findings) and part.found),
        method_notes=tuple(part for part in parts if isinstance(part, MethodNote)),
        plans=tuple(plans),
        plan_notes=tuple(plan_notes),
        failures=(*failures, *failed),
    )


def build_figures(kind: str, records: Sequence[ExperimentRecord], units: Sequence[Unit]) -> list[Figure]:
    """Figures that units make of one kind's records alone, without any run. Logs the figures that are left out."""
    admission = admit((), set())
    kept = select_sample((), admission)
    material = Material(
        kept=kept, digest=Digest(set(), {}), evaluation=evaluate((), admission=admission), experiments={kind: records}
    )
    parts, failures = _make_parts(units, material, ())
    for failure in failures:
        log.warning("%s", failure)
    return [part for part in parts if isinstance(part, Figure)]


def _title(platforms: Sequence[str], others: Sequence[str], *, of_runs: bool) -> str:
    if of_runs or not others:
        return f"Forwarding performance of {', '.join(platforms) if platforms else 'no platform'}"
    return f"Work in guests of {', '.join(others)}"


def _unusual(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> Iterator[NonDefaultTolerances]:
    for record in chain.from_iterable(experiments.values()):
        in_force: InForce | None = getattr(record, "in_force", None)
        if in_force is not None:
            yield find_non_default_tolerances(in_force.tolerances)


def platform_of(record: ExperimentRecord) -> str:
    """The platform that was requested."""
    return str(getattr(getattr(record, "requested", None), "platform", ""))


def _make_parts(units: Sequence[Unit], material: Material, warnings: Sequence[str]) -> tuple[list[Part], list[str]]:
    """Build the parts of all units, and list why units are left out.

    Parts are in the order of their places, numbered as in their papers. Every caption repeats ``warnings``.
    """
    made: list[tuple[tuple[str, str] | None, Part]] = []
    failures: list[str] = []
    names: set[str] = set()
    for unit in sorted(units, key=lambda unit: (unit.place, unit.name)):
        try:
            parts = [check_part(part) for part in unit.parts(material)]
            own = {f"{type(part).__name__} {part.name}" for part in parts if isinstance(part, Figure | Table)}
            if twice := sorted(names & own):
                raise Undrawable(f"another unit already makes {twice[0]}")
        except PluginError as exc:
            failures.append(str(exc))
        except Undrawable as exc:
            failures.append(f"{_format_unit(unit)} is left out: {exc}")
        except Exception as exc:  # plug-in code may raise anything; in labconsole's own it is a fault
            if not unit.plugin:
                raise
            failures.append(f"plug-in {unit.plugin} failed to make {unit.name}: {type(exc).__name__}: {exc}")
        else:
            names |= own
            made += [(unit.paper, part) for part in parts]
    several = len({paper[0] for paper, part in made if paper and not (isinstance(part, Table) and not part.rows)}) > 1
    found: list[Part] = []
    for paper, part in made:
        number = _number(paper, named=several)
        if isinstance(part, Figure):
            of = [f"Numbered as in {_paper(paper[0]).rstrip('.')}."] if paper is not None and not several else []
            part = replace(part, number=number, caption=" ".join([part.caption, *of, *warnings]))
        elif isinstance(part, Table):
            part = replace(part, number=number, note=" ".join([part.note, *warnings]).strip())
        found.append(part)
    return found, failures


def check_part(part: object) -> Part:
    """Return the part, a figure with plain floats. Raises Undrawable naming what cannot be shown."""
    if isinstance(part, Figure):
        try:
            return check_figure(part)
        except Undrawable as exc:
            raise Undrawable(f"figure {str(part.name)[:100]!r}: {exc}") from None
    if isinstance(part, Table):
        try:
            check_table(part)
        except Undrawable as exc:
            raise Undrawable(f"table {str(part.name)[:100]!r}: {exc}") from None
    elif isinstance(part, Findings):
        check_count(part.found, "found", MOST_POINTS)
        for finding in part.found:
            check_text(finding.sentence, "a finding's sentence", 100 * MOST_CHARACTERS)
            check_count(finding.run_ids, "run_ids", sys.maxsize)
        for text in (part.kind, part.heading, part.evidence):
            check_text(text, "a kind, heading or evidence of findings")
    elif isinstance(part, MethodNote):
        check_text(part.heading, "a method note's heading")
        check_text(part.words, "a method note's words", 100 * MOST_CHARACTERS)
    else:
        raise Undrawable(f"it makes a {type(part).__name__}; allowed: Figure, Table, Findings, MethodNote")
    return part


def _format_unit(unit: Unit) -> str:
    return f"unit {unit.name}" + (f" of plug-in {unit.plugin}" if unit.plugin else "")


def collect_claims(
    units: Sequence[Unit],
    experiments: Mapping[str, Sequence[ExperimentRecord]],
    paper: PaperTables | None = None,
    names: Mapping[str, str] | None = None,
) -> tuple[list[Unit], list[float], list[str]]:
    """Return the units whose claims could be read, the p values of these claims, and why other units are left out.
    ``paper``: the paper whose tables are requested for comparison. ``names``: as in ``assemble``.
    """
    own = sorted({platform_of(each) for records in experiments.values() for each in records}, key=platform_order)
    given = {name: theirs for name, theirs in (names or {}).items() if name in own}
    theirs = {} if paper is None else match_platforms(own, paper, given)
    kept: list[Unit] = []
    p_values: list[float] = []
    failures: list[str] = []
    for unit in units:
        try:
            found = [] if unit.claims is None else list(unit.claims(experiments))
            if unit.claims_beside is not None and paper is not None and unit.paper and unit.paper[0] == paper.name:
                found += unit.claims_beside(experiments, theirs)
            found = [_checked_p(p) for p in found] if unit.plugin else found
        except Exception as exc:  # plug-in code may raise anything; in labconsole's own it is a fault
            if not unit.plugin:
                raise
            failures.append(f"{_format_unit(unit)} is left out: its claims failed: {type(exc).__name__}: {exc}")
        else:
            kept.append(unit)
            p_values += found
    return kept, p_values, failures


def _checked_p(value: object) -> float:
    p = check_number(value, "a p value")
    if not 0 <= p <= 1:
        raise Undrawable(f"a p value is {p:g}; allowed: 0 to 1")
    return p


def _number(paper: tuple[str, str] | None, *, named: bool) -> str:
    """Its number in its paper. ``named``: with the paper's name, if several papers have a figure 1."""
    if paper is None:
        return ""
    of, number = paper
    return f"{_paper(of)}, {number}" if named else number.capitalize()


def _paper(name: str) -> str:
    return PAPERS.get(name, name.capitalize())


def counts(made: Report) -> dict[str, Any]:
    """Planned, taken, retaken and entered trials over all points, missing trials, and the family of claims."""
    coverage, kept = made.material.coverage, made.material.kept
    planned = [each.planned for each in coverage]
    family = made.material.evaluation.claims
    trials = _trial_counts(made.material.planned_trials)
    return {
        "planned": None if None in planned else sum(each or 0 for each in planned),
        "taken": sum(each.taken for each in coverage),
        "retaken": sum(each.retaken for each in coverage),
        "entered": len(kept.entered),
        "left_out": dict(kept.excluded_by_reason),
        "missing_of_plans": describe_missing((*coverage, *made.material.planned_trials)),
        "claims": {
            "tested": family.size,
            "different": family.different,
            "margin_ratio": family.margin_ratio,
            "margin_declared": family.declared,
        },
        **({"trials": trials} if trials else {}),
    }


def _trial_counts(found: Sequence[PlannedTrials]) -> dict[str, dict[str, int]]:
    """Counts of trials of kinds other than runs, by kind."""
    return {
        kind: {
            name: sum(getattr(each, name) for each in found if each.kind == kind)
            for name in ("planned", "taken", "retaken", "entered")
        }
        for kind in sorted({each.kind for each in found})
    }
