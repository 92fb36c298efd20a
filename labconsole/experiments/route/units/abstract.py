"""What the abstract of Mattos and others concludes of several routers, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.route.comparing import RoutesCompared
from labconsole.experiments.route.shown import summary_of
from labconsole.experiments.route.summary import RoutesSummary
from labconsole.report.abstracts import Concluded, Held, abstract_table
from labconsole.report.effect_words import effect_words
from labconsole.report.material import Material

PAPER = "mattos"


def make(material: Material) -> Table | None:
    """A row for each number of routers above the least."""
    paper = material.paper
    if paper is None or paper.name != PAPER:
        return None
    note = (
        "By the changes of the sum that route-changes claims: confirmed where it is different, falls, and the routers "
        "lost packets (else the source may have sent less), not confirmed where it is different and rises."
    )
    return abstract_table(paper, "mattos-abstract-routers", _rows(summary_of(material)), note)


def _rows(summary: RoutesSummary) -> Iterator[Concluded]:
    for claim in summary.compared:
        if claim.what == "guests":
            about = f"{summary.name_of(claim.key)}: {claim.key.words}, against {claim.than.guests}"
            yield Concluded(
                "the network needs further enhancement when several guests forward at once", about,
                f"{effect_words(claim.effect)}: {claim.word}", _held(claim),
            )  # fmt: skip


def _held(claim: RoutesCompared) -> Held:
    if claim.word != "different" or claim.effect.change is None:
        return "not decided"
    if claim.effect.change < 0:
        return "confirmed" if claim.saturated else "not decided"
    return "not confirmed"


UNITS = (ReportUnit(name="mattos-abstract-routers", place=169, make=make, paper=(PAPER, "abstract")),)
