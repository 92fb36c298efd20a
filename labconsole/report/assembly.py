"""Everything that a report shows, put together once; files, terminal and JSON take it from here. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from labconsole.model.search_record import SearchRecord
from labconsole.report.claim_tables import collapses, ranking, relative_changes, streams
from labconsole.report.conclusions import conclusions
from labconsole.report.digest import Digest
from labconsole.report.evaluation import Evaluation
from labconsole.report.figures import EMULATED, Figure, all_figures
from labconsole.report.findings import Finding, claimed
from labconsole.report.guest_tables import background_loads, by_load, in_and_out
from labconsole.report.marks import marks
from labconsole.report.points import FORWARDING, platform_order
from labconsole.report.reference import Reference, beside, matched
from labconsole.report.result_tables import results, runs_by_point, spread
from labconsole.report.sample import Coverage, Sample
from labconsole.report.search_tables import search_tables
from labconsole.report.selection import Selection
from labconsole.report.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``kept``: the runs that are meant; ``evaluation``: what follows from those that enter, platforms told apart.

    ``references``: tables beside a paper's; ``plans``: files that the runs were chosen by, as name and text.
    ``conclusions``: what may be concluded and what not, in sentences.
    """

    title: str
    selection: Selection
    kept: Sample
    digest: Digest
    evaluation: Evaluation
    coverage: tuple[Coverage, ...]
    conclusions: tuple[str, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    references: tuple[Table, ...]
    findings: tuple[Finding, ...]
    searches: tuple[SearchRecord, ...] = ()
    plans: tuple[tuple[str, str], ...] = ()


def assemble(
    kept: Sample,
    digest: Digest,
    made: Evaluation,
    *,
    selection: Selection | None = None,
    found: Sequence[Coverage] = (),
    reference: Reference | None = None,
    names: Mapping[str, str] | None = None,
    searches: Sequence[SearchRecord] = (),
    plans: Sequence[tuple[str, str]] = (),
) -> Report:
    """The report on the runs that enter. ``names``: one's own platforms to the paper's, where they differ.

    Raises ConfigError when ``names`` has a platform that is not there.
    """
    chosen = selection or Selection()
    platforms = sorted({point.platform for point in made.points}, key=platform_order)
    references = [] if reference is None else beside(
        reference, matched(platforms, reference, names or {}), made.table_1, made.second_guests, made.claims
    )  # fmt: skip
    told = (*chosen.warnings, *([EMULATED] if digest.emulated else []))
    return Report(
        title=f"Forwarding performance of {', '.join(platforms) if platforms else 'no platform'}",
        selection=chosen,
        kept=kept,
        digest=digest,
        evaluation=made,
        coverage=tuple(found),
        conclusions=tuple(conclusions(made, found, chosen, unreadable=digest.unreadable)),
        figures=tuple(all_figures(made, digest.facts, emulated=digest.emulated, told=chosen.warnings)),
        tables=tuple(_captioned(table, told) for table in _tables(made, digest, found, searches) if table.rows),
        references=tuple(_captioned(table, told) for table in references),
        findings=(*claimed(made), *marks(made, kept.entered, digest)),
        searches=tuple(searches),
        plans=tuple(plans),
    )


def _tables(
    made: Evaluation, digest: Digest, found: Sequence[Coverage], searches: Sequence[SearchRecord]
) -> list[Table]:
    family = made.claims
    cpu = "Relative change of the maximum throughput under background CPU load"
    network = "Relative change of the maximum throughput beside a forwarding second guest"
    return [
        ranking(made.ranking, family),
        relative_changes((*made.table_1, *made.idle), family, name="table-1", title=cpu),
        relative_changes(made.figure_5, family, name="figure-5-numbers", title=network),
        *(in_and_out(made.second_guests, kind, family, number_of_table=n) for n, kind in enumerate(FORWARDING, 2)),
        collapses(made.collapses, family),
        streams(made.streams, family),
        background_loads(digest.loads),
        by_load(made.second_by_load),
        *search_tables(searches),
        runs_by_point(found),
        spread(made.spread),
        results(made.points, digest.facts),
    ]


def _captioned(table: Table, told: Sequence[str]) -> Table:
    return replace(table, note=" ".join([table.note, *told]).strip()) if told else table
