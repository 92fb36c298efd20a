"""What the abstract of Quétier, Neri and Cappello concludes of work in guests, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.job.points import PointKey
from labconsole.experiments.job.shown import panel_words, resource_of, summary_of
from labconsole.experiments.job.summary import GuestsCurve, JobsSummary
from labconsole.measure.trials_of_guests import NOT_DRAWN
from labconsole.report.abstracts import Concluded, KnownInterval, abstract_table, apart, differ, each_words
from labconsole.report.material import Material
from labconsole.report.words import number

T = TypeVar("T")

PAPER = "quetier"
UNDECIDED = ("inconclusive", "too few blocks")


def make(material: Material) -> Table | None:
    """A row for each resource and metric that several platforms were measured for."""
    paper = material.paper
    if paper is None or paper.name != PAPER:
        return None
    note = (
        "Of platforms with guests. Overhead: by how much of its time alone one guest's job takes longer with each "
        "guest that stands beside it (job-guests); confirmed where the intervals of two platforms lie wholly apart, "
        "not confirmed where all are flat. Isolation: who is kept apart (job-isolation); confirmed where two platforms "
        "are of different classes, not confirmed where all are of one."
    )
    return abstract_table(paper, "quetier-abstract-jobs", _rows(summary_of(material)), note)


def _rows(summary: JobsSummary) -> Iterator[Concluded]:
    curves = [(each.key, each) for each in summary.one_works]
    for about, of in _together(summary, curves):
        slopes = {name: _slope(curve) for name, curve in of.items()}
        flat = all(curve.word == "flat" for curve in of.values())
        words = {name: _words(curve, slopes[name]) for name, curve in of.items()}
        held = "not confirmed" if flat else apart(slopes.values())
        yield Concluded("the tools behave differently in overhead", about, each_words(words), held)
    for about, found in _together(summary, [(each.key, each.word) for each in summary.isolation]):
        held = differ(found, UNDECIDED)
        yield Concluded("the tools behave differently in isolation", about, each_words(found), held)


def _together(summary: JobsSummary, found: Iterable[tuple[PointKey, T]]) -> Iterator[tuple[str, dict[str, T]]]:
    """What several platforms with guests were measured for alike, each by what it is called."""
    of: dict[tuple[object, ...], dict[str, T]] = {}
    about: dict[tuple[object, ...], str] = {}
    for key, each in found:
        if key.platform not in summary.bare_platforms:
            group = (key.testbed_fingerprint, key.job, key.size, key.guests, key.cpu, key.crew, key.kernel)
            about[group] = f"{resource_of(key)}, {panel_words(summary, key, guests=True)}"
            of.setdefault(group, {})[", ".join([key.platform, *summary.apart(key)])] = each
    yield from ((about[group], alike) for group, alike in of.items() if len(alike) > 1)


def _slope(curve: GuestsCurve) -> KnownInterval | None:
    """Of the time alone, with each guest."""
    fit, alone = curve.fit, curve.points[0].seconds
    drawn = curve.word not in (NOT_DRAWN, None)
    if not drawn or fit is None or fit.slope_low is None or fit.slope_high is None or alone is None or not alone.mean:
        return None
    return KnownInterval(*(each / alone.mean for each in (fit.slope, fit.slope_low, fit.slope_high)))


def _words(curve: GuestsCurve, slope: KnownInterval | None) -> str:
    if slope is None:
        return str(curve.word)
    mean, low, high = (number(100 * each, 2) for each in slope)
    return f"{curve.word}, {mean} % ({low} to {high}) with each guest"


UNITS = (ReportUnit(name="quetier-abstract-jobs", place=168, make=make, paper=(PAPER, "abstract")),)
