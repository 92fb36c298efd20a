"""Everything that a report shows, put together once; files, terminal and JSON take it from here. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labconsole.contracts.report import Figure, Findings, MethodNote, Part, Table
from labconsole.model.record.search import SearchRecord
from labconsole.report.conclusions import conclusions
from labconsole.report.digest import Digest
from labconsole.report.evaluation import Evaluation
from labconsole.report.material import Material, Unit
from labconsole.report.points import platform_order
from labconsole.report.reference import PaperTables, matched
from labconsole.report.sample import Coverage, KeptRuns, missing_words
from labconsole.report.selection import Selection

EMULATED = "Emulated testbed: it shows the method, not the speed of hardware."
"""What every caption says of runs that were taken on machines made of software."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``material``: what it was made of. ``conclusions``: what may be concluded and what not, in sentences.

    ``references``: tables beside a paper's; ``plans``: files that the runs were chosen by, as name and text.
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


def assemble(
    kept: KeptRuns,
    digest: Digest,
    made: Evaluation,
    units: Sequence[Unit],
    *,
    selection: Selection | None = None,
    found: Sequence[Coverage] = (),
    reference: PaperTables | None = None,
    names: Mapping[str, str] | None = None,
    searches: Sequence[SearchRecord] = (),
    plans: Sequence[tuple[str, str]] = (),
) -> Report:
    """The report on the runs that enter. ``names``: one's own platforms to the paper's, where they differ.

    Raises ConfigError when ``names`` has a platform that is not there.
    """
    chosen = selection or Selection()
    platforms = sorted({point.platform for point in made.points}, key=platform_order)
    material = Material(
        kept=kept,
        digest=digest,
        evaluation=made,
        coverage=tuple(found),
        searches=tuple(searches),
        paper=reference,
        paper_names={} if reference is None else matched(platforms, reference, names or {}),
    )
    parts = _parts(units, material, (*chosen.warnings, *([EMULATED] if material.emulated else [])))
    tables = [part for part in parts if isinstance(part, Table) and part.rows]
    return Report(
        title=f"Forwarding performance of {', '.join(platforms) if platforms else 'no platform'}",
        selection=chosen,
        material=material,
        conclusions=tuple(conclusions(made, found, chosen, unreadable=digest.unreadable)),
        figures=tuple(part for part in parts if isinstance(part, Figure)),
        tables=tuple(table for table in tables if not table.beside_paper),
        references=tuple(table for table in tables if table.beside_paper),
        findings=tuple(part for part in parts if isinstance(part, Findings) and part.found),
        method_notes=tuple(part for part in parts if isinstance(part, MethodNote)),
        plans=tuple(plans),
    )


def _parts(units: Sequence[Unit], material: Material, told: Sequence[str]) -> list[Part]:
    """What the units make, in the order of their places, numbered as in their papers; every caption says ``told``."""
    found: list[Part] = []
    for unit in sorted(units, key=lambda unit: (unit.place, unit.name)):
        number = "" if unit.paper is None else unit.paper[1].capitalize()
        for part in unit.parts(material):
            if isinstance(part, Figure):
                part = replace(part, number=number, caption=" ".join([part.caption, *told]))
            elif isinstance(part, Table):
                part = replace(part, number=number, note=" ".join([part.note, *told]).strip())
            found.append(part)
    return found


def counts(made: Report) -> dict[str, Any]:
    """Planned, taken, retaken and entered over all points, what is missing, and the family of claims."""
    coverage, kept = made.material.coverage, made.material.kept
    planned = [each.planned for each in coverage]
    family = made.material.evaluation.claims
    return {
        "planned": None if None in planned else sum(each or 0 for each in planned),
        "taken": sum(each.taken for each in coverage),
        "retaken": sum(each.retaken for each in coverage),
        "entered": len(kept.entered),
        "left_out": dict(kept.excluded_by_reason),
        "missing_of_plans": missing_words(coverage),
        "claims": {"tested": family.size, "different": sum(claim.different for claim in family.claims),
                   "margin_ratio": family.margin_ratio, "margin_declared": family.declared},
    }  # fmt: skip
