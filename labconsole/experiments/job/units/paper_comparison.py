"""Two papers' statements on their figures, which print few numbers, next to one's own findings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from labconsole.contracts.measured import FROM_MEMORY, HELD
from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.job.points import PointKey
from labconsole.experiments.job.report_data import build_summary, format_job, resource_of
from labconsole.experiments.job.summary import LEFT_OUT, JobsSummary
from labconsole.model.jobs import JOBS
from labconsole.report.effect_formatting import format_effect, format_line_part
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.paper_columns import PaperRow, paper_columns
from labconsole.report.reference import describe_matching
from labconsole.report.table_builder import TableColumn, build_table, column

TOPICS = {"quetier": ("overhead", "linearity", "isolation"), "mattos": ("job",)}


ALL_ONLY = "only what the paper says of all platforms stands beside them"


class OwnFinding(NamedTuple):
    """One's own finding on a topic; ``job_from``: the paper that has the job."""

    topic: str
    platform: str
    resource: str
    job: str
    job_from: str
    finding: str


def build_finding(topic: str, key: PointKey, finding: str) -> OwnFinding:
    """Return a finding on this point's platform and job."""
    job = JOBS.get(key.job)
    source = "not known here" if job is None else job.source
    return OwnFinding(topic, key.platform, resource_of(key), format_job(key), source, finding)


def make(material: Material, paper_name: str) -> Table | None:
    """Build the table: a row for each sentence of the paper on a platform and resource that were measured here."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != paper_name:
        return None
    summary = build_summary(material)
    found = [own for topic in TOPICS[paper_name] for own in _FINDINGS[topic](summary)]
    rows = []
    for own in found:
        theirs = names.get(own.platform)
        rows += [
            PaperRow(own, row)
            for row in paper.tables["shapes"]
            if (row["topic"], row["resource"]) == (own.topic, own.resource) and row["platform"] in (theirs or "", "all")
        ]
        rows += [
            PaperRow(own, row)
            for row in paper.tables.get("numbers", ())
            if (row["topic"], row["resource"], row["platform"]) == (own.topic, own.resource, theirs)
        ]
    columns: list[TableColumn[PaperRow[OwnFinding]]] = [
        column("topic", "topic", lambda row: row.own.topic),
        column("resource", "resource", lambda row: row.own.resource),
        column("platform", "platform", lambda row: row.own.platform),
        column("job", "job", lambda row: row.own.job),
        column("job_from", "job from", lambda row: row.own.job_from),
        column("finding", "own finding", lambda row: row.own.finding),
        paper_columns(),
    ]
    return build_table(
        f"{paper_name}-beside",
        "Findings beside the paper's",
        columns,
        rows,
        f"{paper.cited(how='its sentences and numbers in short')} A job from another paper uses the same "
        f"resource by another program. {describe_matching((own.platform for own in found), names, ALL_ONLY)}",
        beside_paper=True,
    )


def _overhead(summary: JobsSummary) -> Iterator[OwnFinding]:
    for curve in summary.one_works:
        if curve.word is not None:
            yield build_finding("overhead", curve.key, curve.word)


def _linearity(summary: JobsSummary) -> Iterator[OwnFinding]:
    for curve in summary.all_work:
        if curve.fit is None:
            continue
        line = {True: "no line", False: "a line, as far as can be told", None: curve.word or "no interval"}
        if curve.word in (HELD, FROM_MEMORY, LEFT_OUT):
            line = dict.fromkeys(line, curve.word)
        text = f"{line[curve.fit.bent]}: {format_line_part(curve.fit.slope, 3)} s per guest"
        alone = "" if curve.alone_s is None else f"; alone on the bare host {format_number(curve.alone_s, 3)} s"
        yield build_finding("linearity", curve.key, text + alone)


def _isolation(summary: JobsSummary) -> Iterator[OwnFinding]:
    for found in summary.isolation:
        yield build_finding("isolation", found.key, f"{found.word}, of {found.key.guests} guests")


def _programs(summary: JobsSummary) -> Iterator[OwnFinding]:
    for each in summary.overheads:
        if each.key.guests == 1:
            yield build_finding("job", each.key, f"{each.word}: {format_effect(each.effect)}")


_FINDINGS = {"overhead": _overhead, "linearity": _linearity, "isolation": _isolation, "job": _programs}

UNITS = tuple(
    ReportUnit(name=f"{paper}-beside", place=place, make=partial(make, paper_name=paper))
    for place, paper in enumerate(TOPICS, 170)
)
