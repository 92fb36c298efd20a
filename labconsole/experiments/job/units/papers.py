"""What papers state and conclude on work in guests, next to one's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from labconsole.contracts.measured import FROM_MEMORY, HELD
from labconsole.contracts.report import Experiments, ReportUnit, Table
from labconsole.experiments.job.platform_comparison import PlatformComparison, compare_platforms, resolve_programs
from labconsole.experiments.job.points import PointKey
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.report_data import (
    build_summary,
    describe_request,
    format_job,
    resource_of,
    summarize_last,
)
from labconsole.experiments.job.summary import LEFT_OUT, IsolationResult, JobsSummary
from labconsole.model.jobs import JOBS
from labconsole.report.formatting import format_effect, format_line_part, format_number
from labconsole.report.material import Material
from labconsole.report.paper_abstracts import (
    PaperConclusion,
    ToolPair,
    build_abstract_unit,
    collect_p_values,
    conclude_difference,
    format_kernels,
    format_none_valid,
    format_one_platform,
    judge_all_different,
    judge_differences,
    pair_tools,
)
from labconsole.report.reference import describe_matching
from labconsole.report.table_builder import PaperRow, TableColumn, build_table, column, paper_columns

# -- statements --------------------------------------------------------------------------------------------------------
# Two papers' statements on their figures, which print few numbers, next to one's own findings.

TOPICS = {"quetier": ("overhead", "linearity", "isolation"), "mattos": ("job",)}


ALL_ONLY = "only what the paper says of all platforms is shown next to them"


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
        "Findings compared with the paper's",
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


# -- conclusions of an abstract ----------------------------------------------------------------------------------------
# Conclusions on work in guests in the abstract of Quétier, Neri and Cappello, compared with one's own findings.

OVERHEAD, ISOLATION = "the tools behave differently in overhead", "the tools behave differently in isolation"
Groups = dict[tuple[str, str], list[ToolPair]]
"""Pairs of tools by testbed and request."""

CLASSES: Final = ("between guests", "between processes")
"""The conclusions on isolation that exclude each other. "neither" is the rest, and two of these may differ."""


def _conclude(material: Material) -> Iterator[PaperConclusion]:
    """Conclude for each request that was measured on several platforms, and then over all of them."""
    summary = build_summary(material)
    records = [each for each in material.of("job") if isinstance(each, JobRecord)]
    for conclusion, groups in (
        (
            OVERHEAD,
            _overheads(
                summary, compare_platforms(records, summary.bare_platforms), material.evaluation.claims.p_values
            ),
        ),
        (ISOLATION, _isolated(summary)),
    ):
        if conclusion == OVERHEAD and summary.points and not groups:
            yield PaperConclusion(conclusion, "one guest's job", format_one_platform("the same job"), "not decided")
        for (_, about), pairs in groups.items():
            said = "; ".join(pair.said for pair in pairs)
            yield PaperConclusion(conclusion, about, said, judge_all_different(pairs), collect_p_values(pairs))
        whole = conclude_difference(conclusion, list(groups.values()))
        if whole is not None:
            yield whole


def _claimed(experiments: Experiments, names: Mapping[str, str]) -> list[float]:
    """Return the p values of the overheads of every two tools."""
    every = experiments.get("job", ())
    records = [each for each in every if isinstance(each, JobRecord)]
    compared = compare_platforms(records, summarize_last(every, ()).bare_platforms)
    return [p for each in compared if each.absent is None and (p := each.effect.p) is not None]


def _overheads(summary: JobsSummary, compared: Sequence[PlatformComparison], family: Sequence[float]) -> Groups:
    known = [each for each in compared if each.absent is None]
    found = judge_differences([x.effect for x in known], [x.margin_ratio for x in known], family)
    apart = dict(zip(map(id, known), found, strict=True))
    groups: Groups = {}
    for each in compared:
        about = _describe_comparison(summary, each.key, each.than, guests=each.most_guests is None)
        if each.most_guests is not None:
            about += f", growth from {each.key.guests} to {each.most_guests} guests"
        said = each.absent or format_effect(each.effect)
        pair = _pair(summary, each.key, each.than, said, apart.get(id(each)), by_link=each.absent == HELD)
        pair = pair._replace(p=each.effect.p if each.absent is None else None)
        groups.setdefault((each.key.testbed_fingerprint, about), []).append(pair)
    return groups


def _isolated(summary: JobsSummary) -> Groups:
    groups: Groups = {}
    found = {each.key: each for each in summary.isolation}
    isolated = [
        key
        for key in resolve_programs({each.key: bool(each.job_ids) for each in summary.points})
        if key.working == "one-two" and key.cpu == "same" and key.platform not in summary.bare_platforms
    ]
    for one, other in pair_tools(isolated):
        about = _describe_comparison(summary, one, other, guests=True)
        none = [key.platform for key in (one, other) if key not in found]
        pair = (
            _pair(summary, one, other, format_none_valid(none), None)
            if none
            else _conclude_isolation(summary, found[one], found[other])
        )
        groups.setdefault((one.testbed_fingerprint, about), []).append(pair)
    return groups


def _conclude_isolation(summary: JobsSummary, ours: IsolationResult, theirs: IsolationResult) -> ToolPair:
    link_limited, out = ours.held or theirs.held, ours.left_out or theirs.left_out
    decided = not link_limited and not out and ours.word in CLASSES and theirs.word in CLASSES
    said = LEFT_OUT if out else HELD if link_limited else f"{ours.word} and {theirs.word}"
    return _pair(
        summary, ours.key, theirs.key, said, ours.word != theirs.word if decided else None, by_link=link_limited
    )


def _pair(
    summary: JobsSummary, ours: PointKey, theirs: PointKey, said: str, apart: bool | None, *, by_link: bool = False
) -> ToolPair:
    names = [", ".join([key.platform, *summary.apart(key)]) for key in (ours, theirs)]
    return ToolPair(ours.platform, theirs.platform, f"{names[0]} against {names[1]}: {said}", apart, by_link)


def _describe_comparison(summary: JobsSummary, key: PointKey, than: PointKey, *, guests: bool) -> str:
    """Describe the request without the names of the tools."""
    testbed = [f"on {summary.testbeds[key.testbed_fingerprint]}"] if len(summary.testbeds) > 1 else []
    programs = {each.key.program for each in summary.points if each.key.job == key.job and each.key.program}
    program = [f"program {key.program}"] if len(programs) > 1 else []
    parts = [resource_of(key), format_job(key), describe_request(key, guests=guests), *program, *testbed]
    return ", ".join(parts) + format_kernels({each.key.kernel for each in summary.points}, key, than)


UNITS = (
    *tuple(
        ReportUnit(name=f"{paper}-beside", place=place, make=partial(make, paper_name=paper))
        for place, paper in enumerate(TOPICS, 170)
    ),
    build_abstract_unit(
        "quetier",
        "quetier-abstract-jobs",
        168,
        _conclude,
        "Of every two platforms with guests that ran the same program. Overhead: by how much longer one guest's job "
        "takes, and by how much more that grows while others idle. Isolation: who is kept apart (job-isolation). "
        "Confirmed where every two are shown to differ, not confirmed where two are shown not to, by more than the "
        "plan's margin, or to be of one class; what the link limits, or memory provided, or of which trials were left "
        "out because of their results, or no trial is valid, decides nothing. The last row of a conclusion is that as "
        "a whole: every two differ in something, or two in nothing. Times are compared in pairs of blocks, or over "
        "three boots a side, and growth in pairs of blocks: that they differ is one family with all that the report "
        "claims (Holm), that they do not is adjusted over this table; classes of isolation are by their intervals of "
        "95 %, of each point by itself.",
        _claimed,
    ),
)
