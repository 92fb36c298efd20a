"""Whole reports beside a paper's tables, of tools that do not differ: what they call *different*, and what *confirmed*."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from simulating import Cell, counted, tolerable
from tables import NO, YES, Table

from labconsole.contracts.report import Table as ReportTable
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.units import report_units
from labconsole.measure.admission import admit
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.assembly import collect_claims
from labconsole.report.digest import Digest
from labconsole.report.evaluation import evaluate
from labconsole.report.material import Material
from labconsole.report.reference import load_reference, match_platforms
from labconsole.report.sample import select_sample
from support.flow_records import flow_record
from support.job_records import drawn_at, taken

REPORTS = 600
SHOWN = ("job-overheads", "quetier-abstract-jobs", "flow-overheads", "mattos-abstract-network")
COLUMNS = (
    "of",
    "truth",
    "values are",
    "blocks",
    "reports",
    "claims tested",
    "called *different* or *confirmed*",
    "must be",
    "is",
)
HOST, TOOLS = "host", ("xen", "lxc")
JOBS = ("cpu-sqrt2", "cpu-pi")
FAIR = 0.99


def beside_papers(reports: int = REPORTS, processes: int = 1) -> Table:
    """The table."""
    table = Table("27. Reports beside a paper's tables", COLUMNS)
    table.summary = (
        "Jobs, or flows, in guests of two tools and on the bare host, with `--reference`. One family: a report without any "
        "effect may call anything *different* or *confirmed* in 5 % of cases. Just fair: Jain's index is 0.99 on the "
        "average, by chance in each set-up. With an effect it is shown how often the abstract's row is *confirmed*."
    )
    of = {
        "jobs, quetier": (jobs, 0.02, "one tool takes 2 % longer"),
        "flows, mattos": (flows, 0.03, "xen carries 3 % more"),
    }
    cases: list[tuple[str, str, str, int, Cell, bool]] = []
    for name, (draw, effect, words) in of.items():
        cases += [
            (name, "no effect", shape, blocks, Cell(271, said, (draw, shape, blocks, 0.0), reports), True)
            for shape in ("normal", "t3")
            for blocks in (3, 5, 9)
        ]
        cases += [
            (name, words, "normal", blocks, Cell(272, said, (draw, "normal", blocks, effect), reports // 3), False)
            for blocks in (5, 9)
        ]
    for (name, truth, shape, blocks, _, null), found in zip(
        cases, counted([case[4] for case in cases], processes), strict=True
    ):
        wrong = found["claimed" if null else "confirmed"]
        right = not null or tolerable(wrong, found["reports"])
        table.add(
            name,
            truth,
            shape,
            blocks,
            found["reports"],
            round(found["claims"] / found["reports"]),
            f"{wrong / found['reports']:.1%}",
            "at most 5%" if null else "shown",
            (YES if right else NO) if null else "",
            failure=None if right else f"{wrong} of {found['reports']} reports",
        )
    return table


def said(rng: np.random.Generator, reports: int, draw: Any, shape: str, blocks: int, effect: float) -> Counter[Any]:
    """How many of so many reports call anything different or confirmed, and how many confirm what is true."""
    found: Counter[Any] = Counter(reports=reports, claimed=0, confirmed=0)
    for _ in range(reports):
        kind, paper, records = draw(rng, shape, blocks, effect)
        size, words = words_of(kind, paper, records)
        found["claims"] += size
        found["claimed"] += any(word == "confirmed" or word.startswith("different") for _, word in words)
        found["confirmed"] += any("abstract" in table and word == "confirmed" for table, word in words)
    return found


def words_of(kind: str, paper_name: str, records: Sequence[ExperimentRecord]) -> tuple[int, list[tuple[str, str]]]:
    """Size of the family, and the words of all rows with the table that they stand in."""
    paper, experiments = load_reference(paper_name), {kind: records}
    units = [unit for unit in report_units(kind) if unit.name in SHOWN]
    units, p_values, _ = collect_claims(units, experiments, paper)
    admission = admit((), set())
    material = Material(
        kept=select_sample((), admission),
        digest=Digest(set(), {}),
        evaluation=evaluate((), admission=admission, other_p_values=p_values),
        experiments=experiments,
        paper=paper,
        paper_names=match_platforms((HOST, *TOOLS), paper, {}),
    )
    words = []
    for unit in units:
        for part in unit.parts(material):
            assert isinstance(part, ReportTable)
            place = part.columns.index("word")
            words += [(part.name, str(row[place])) for row in part.rows]
    return material.evaluation.claims.size, words


def _noise(rng: np.random.Generator, shape: str) -> float:
    return float(rng.standard_normal() if shape == "normal" else rng.standard_t(3) / 3**0.5)


@cache
def _job(platform: str, guests: int, job: str, block: int) -> JobRecord:
    made = taken([4.0], platform=platform, guests=guests, working="one", cpu="same", block=block)
    asked = made.requested.model_copy(update={"job": job, "size": 2000})
    return made.model_copy(update={"requested": asked, "job_id": made.job_id + job})


def jobs(
    rng: np.random.Generator, shape: str, blocks: int, effect: float
) -> tuple[str, str, Sequence[ExperimentRecord]]:
    """Two jobs of one and five guests; blocks are fast or slow by 5 %, and crews in them by 1 %."""
    made: list[JobRecord] = []
    for block in range(1, blocks + 1):
        moment = 1 + 0.05 * _noise(rng, shape)
        for platform in (HOST, *TOOLS):
            for guests in (1,) if platform == HOST else (1, 5):
                crew = moment * (1 + 0.01 * _noise(rng, shape)) * (1 + effect * (platform == TOOLS[0]))
                for job in JOBS:
                    record = _job(platform, guests, job, block)
                    seconds = max(4 * crew * (1 + 0.003 * _noise(rng, shape)), 0.1)
                    copies = (record.copies[0].model_copy(update={"seconds": seconds}),)
                    plan = record.plan.model_copy(update={"hash": record.job_id})
                    made.append(record.model_copy(update={"copies": copies, "plan": plan}))
    return "job", "quetier", made


@cache
def _flow(platform: str, guests: int, block: int) -> FlowRecord:
    made = flow_record(
        [[4000] * 4] * guests,
        platform=platform,
        block=block,
        flow_id=f"20260101T0000{block:02d}Z-{platform}{guests}",
        started_at=drawn_at(block, platform, guests),
        attestation={"driver": "raw" if platform == HOST else platform},
    )
    asked = made.requested.model_copy(update={"cpu": "same"})
    return made.model_copy(update={"requested": asked})


def flows(
    rng: np.random.Generator, shape: str, blocks: int, effect: float
) -> tuple[str, str, Sequence[ExperimentRecord]]:
    """One guest that sends 50 Mbit/s, and two whose shares are fair just so; crews differ by 0.5 %."""
    made: list[FlowRecord] = []
    lack = 1 - FAIR  # of the index, on the average
    for block in range(1, blocks + 1):
        moment = 1 + 0.05 * _noise(rng, shape)
        for platform in (HOST, *TOOLS):
            for guests in (1, 2):
                crew = moment * (1 + 0.005 * _noise(rng, shape)) * (1 + effect * (platform == TOOLS[0]))
                jain = max(1 - lack * rng.standard_normal() ** 2, 0.5)
                changes = {"sum_bps": 50e6 * guests * crew, "line_ratio": 0.5, "jain": jain}
                made.append(_flow(platform, guests, block).model_copy(update=changes))
    return "flow", "mattos", made
