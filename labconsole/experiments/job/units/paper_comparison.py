"""Two papers' statements on their figures, which print few numbers, next to one's own findings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from labconsole.contracts.measured import FROM_MEMORY, HELD
from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.job.points import PointKey
from labconsole.experiments.job.report_data import build_summary, format_job, resource_of
from labconsole.experiments.job.summary import LEFT_OUT, JobsSummary
from labconsole.model.jobs import JOBS
from labconsole.report.effect_formatting import format_effect, format_line_part
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.reference import describe_matching, format_printed_value

TOPICS = {"quetier": ("overhead", "linearity", "isolation"), "mattos": ("job",)}


ALL_ONLY = "only what the paper says of all platforms is shown next to them"


class OwnFinding(NamedTuple):
    """One's own finding on a topic; ``job_from``: the paper that has the job."""

    platform: str
    resource: str
    job: str
    job_from: str
    words: str

    @classmethod
    def of(cls, key: PointKey, text: str) -> OwnFinding:
        """Return a finding on this point's platform and job."""
        job = JOBS.get(key.job)
        source = "not known here" if job is None else job.source
        return cls(key.platform, resource_of(key), format_job(key), source, text)

    def build_row(self, *theirs: str) -> tuple[Cell, ...]:
        """Return a row of the table without its topic."""
        return (self.resource, self.platform, self.job, self.job_from, self.words, *theirs)


def make(material: Material, paper_name: str) -> Table | None:
    """Build the table: a row for each sentence of the paper on a platform and resource that were measured here."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != paper_name:
        return None
    summary = build_summary(material)
    rows: list[tuple[Cell, ...]] = []
    own_platforms: list[str] = []
    for topic in TOPICS[paper_name]:
        for own in _FINDINGS[topic](summary):
            own_platforms.append(own.platform)
            for said in paper.tables["shapes"]:
                theirs = (said["topic"], said["resource"], said["platform"])
                if theirs in ((topic, own.resource, names.get(own.platform, "")), (topic, own.resource, "all")):
                    rows.append((topic, *own.build_row(said["platform"], said["shape"], said["where"])))
            for row in paper.tables.get("numbers", ()):
                if (row["topic"], row["resource"], row["platform"]) == (topic, own.resource, names.get(own.platform)):
                    rows.append((topic, *own.build_row(row["platform"], format_printed_value(row), row["where"])))
    return Table(
        name=f"{paper_name}-beside",
        title="Findings compared with the paper's",
        columns=("topic", "resource", "platform", "job", "job_from", "finding", "paper_platform", "paper", "where"),
        rows=tuple(rows),
        headings=(
            "topic",
            "resource",
            "platform",
            "job",
            "job from",
            "own finding",
            "paper's platform",
            "the paper",
            "where",
        ),
        shown=tuple(tuple(str(cell) for cell in row) for row in rows),
        note=f"{paper.cited(how='its sentences and numbers in short')} A job from another paper uses the same "
        f"resource by another program. {describe_matching(own_platforms, names, ALL_ONLY)}",
        beside_paper=True,
    )


def _overhead(summary: JobsSummary) -> Iterator[OwnFinding]:
    for curve in summary.one_works:
        if curve.word is not None:
            yield OwnFinding.of(curve.key, curve.word)


def _linearity(summary: JobsSummary) -> Iterator[OwnFinding]:
    for curve in summary.all_work:
        if curve.fit is None:
            continue
        line = {True: "no line", False: "a line, as far as can be told", None: curve.word or "no interval"}
        if curve.word in (HELD, FROM_MEMORY, LEFT_OUT):
            line = dict.fromkeys(line, curve.word)
        text = f"{line[curve.fit.bent]}: {format_line_part(curve.fit.slope, 3)} s per guest"
        alone = "" if curve.alone_s is None else f"; alone on the bare host {format_number(curve.alone_s, 3)} s"
        yield OwnFinding.of(curve.key, text + alone)


def _isolation(summary: JobsSummary) -> Iterator[OwnFinding]:
    for found in summary.isolation:
        yield OwnFinding.of(found.key, f"{found.word}, of {found.key.guests} guests")


def _programs(summary: JobsSummary) -> Iterator[OwnFinding]:
    for each in summary.overheads:
        if each.key.guests == 1:
            yield OwnFinding.of(each.key, f"{each.word}: {format_effect(each.effect)}")


_FINDINGS = {"overhead": _overhead, "linearity": _linearity, "isolation": _isolation, "job": _programs}

UNITS = tuple(
    ReportUnit(name=f"{paper}-beside", place=place, make=partial(make, paper_name=paper))
    for place, paper in enumerate(TOPICS, 170)
)
