"""What the abstract of Quétier, Neri and Cappello concludes of work in guests, held against one's own findings."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.job.points import PointKey
from labconsole.experiments.job.shown import job_words, resource_of, summary_of
from labconsole.experiments.job.summary import JobsSummary
from labconsole.measure.trials_of_guests import NOT_DRAWN
from labconsole.report.abstracts import Concluded, abstract_table, differ, each_words
from labconsole.report.material import Material

PAPER = "quetier"
UNDECIDED = ("inconclusive", "too few numbers of guests", "too few blocks", NOT_DRAWN)


def make(material: Material) -> Table | None:
    """A row for each resource and metric that several platforms were measured for."""
    paper = material.paper
    if paper is None or paper.name != PAPER:
        return None
    note = (
        "Of platforms with guests; confirmed where two of them have different words, not confirmed where all have the "
        "same one and none is undecided. Overhead: how the time of one guest's job goes with the guests that stand "
        "beside it (job-guests); isolation: who is kept apart (job-isolation)."
    )
    return abstract_table(paper, "quetier-abstract-jobs", _rows(summary_of(material)), note)


def _rows(summary: JobsSummary) -> Iterator[Concluded]:
    bare = {each.bare.platform for each in summary.overheads}
    overheads = [(each.key, each.word) for each in summary.one_works if each.word is not None]
    isolations = [(each.key, each.word) for each in summary.isolation]
    for metric, found in (("overhead", overheads), ("isolation", isolations)):
        of: dict[tuple[object, ...], dict[str, str]] = {}
        about: dict[tuple[object, ...], PointKey] = {}
        for key, word in found:
            if key.platform in bare:
                continue
            group: tuple[object, ...] = (
                key.testbed_fingerprint, key.job, key.size, key.cpu, key.crew, key.kernel
            )  # fmt: skip
            about.setdefault(group, key)
            of.setdefault(group, {})[key.platform] = word
        for same, words in of.items():
            if len(words) > 1:
                conclusion = f"the tools behave differently in {metric}"
                what = f"{resource_of(about[same])}, {job_words(about[same])}"
                yield Concluded(conclusion, what, each_words(words), differ(words, UNDECIDED))


UNITS = (ReportUnit(name="quetier-abstract-jobs", place=168, make=make, paper=(PAPER, "abstract")),)
