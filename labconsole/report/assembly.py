"""Everything that a report shows, put together once; files, terminal and JSON take it from here. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from labconsole.model.search_record import SearchRecord
from labconsole.report.digest import Digest
from labconsole.report.evaluation import (
    CPU_BASELINES,
    CPU_LOADS,
    FORWARDING,
    NETWORK_BASELINES,
    Point,
    changes,
    design_points,
    platform_order,
    second_guests,
)
from labconsole.report.figures import EMULATED, Figure, all_figures
from labconsole.report.findings import Finding, find_all
from labconsole.report.frame import Sample, told_apart
from labconsole.report.guest_tables import background_loads, by_load, in_and_out
from labconsole.report.reference import Reference, beside, matched
from labconsole.report.search_tables import search_tables
from labconsole.report.tables import Table, relative_changes, results


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``runs``: those that enter, platforms told apart; ``references``: tables beside a paper's.

    ``plans``: files that the runs were chosen by, as name and text.
    """

    title: str
    kept: Sample
    runs: pd.DataFrame
    digest: Digest
    points: tuple[Point, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    references: tuple[Table, ...]
    findings: tuple[Finding, ...]
    searches: tuple[SearchRecord, ...] = ()
    plans: tuple[tuple[str, str], ...] = ()


def assemble(
    kept: Sample,
    digest: Digest,
    *,
    reference: Reference | None = None,
    names: Mapping[str, str] | None = None,
    searches: Sequence[SearchRecord] = (),
    plans: Sequence[tuple[str, str]] = (),
) -> Report:
    """The report on the runs that enter. ``names``: one's own platforms to the paper's, where they differ.

    Raises ConfigError when ``names`` has a platform that is not there.
    """
    runs = told_apart(kept.runs)
    points = design_points(runs)
    platforms = sorted({point.platform for point in points}, key=platform_order)
    cpu = changes(points, CPU_LOADS, CPU_BASELINES)
    network = changes(points, FORWARDING, NETWORK_BASELINES)
    averaged = second_guests(points, digest.second, all_loads=True)
    tables = []
    if cpu:
        title = "Relative change of the maximum throughput under background CPU load"
        tables.append(relative_changes(cpu, name="table-1", title=title))
    if network:
        title = "Relative change of the maximum throughput beside a forwarding second guest"
        tables.append(relative_changes(network, name="figure-5-numbers", title=title))
    if averaged:
        tables += [in_and_out(averaged, kind, number_of_table=n) for n, kind in enumerate(FORWARDING, 2)]
    if digest.loads:
        tables.append(background_loads(digest.loads))
    if averaged:
        tables.append(by_load(second_guests(points, digest.second, all_loads=False)))
    tables += search_tables(searches)
    tables.append(results(points))
    references = [] if reference is None else beside(
        reference, matched(platforms, reference, names or {}), cpu, averaged
    )  # fmt: skip
    return Report(
        title=f"Forwarding performance of {', '.join(platforms)}",
        kept=kept,
        runs=runs,
        digest=digest,
        points=tuple(points),
        figures=tuple(all_figures(points, emulated=digest.emulated)),
        tables=tuple(_captioned(table, digest.emulated) for table in tables if table.rows),
        references=tuple(_captioned(table, digest.emulated) for table in references),
        findings=tuple(find_all(points, runs, digest, averaged)),
        searches=tuple(searches),
        plans=tuple(plans),
    )


def _captioned(table: Table, emulated: bool) -> Table:
    return replace(table, note=f"{table.note} {EMULATED}".strip()) if emulated else table
