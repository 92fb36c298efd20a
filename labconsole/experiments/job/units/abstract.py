"""What the abstract of Quétier, Neri and Cappello concludes of work in guests, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from labconsole.contracts.measured import FROM_MEMORY, HELD
from labconsole.experiments.job.points import PointKey
from labconsole.experiments.job.shown import panel_words, resource_of, summary_of
from labconsole.experiments.job.summary import GuestsCurve, JobsSummary
from labconsole.report.abstracts import NOT_BY_LINK, Concluded, KnownInterval, abstract_unit, apart, differ, each_words
from labconsole.report.material import Material
from labconsole.report.words import number

T = TypeVar("T")

UNDECIDED = ("inconclusive", "too few blocks", FROM_MEMORY)


def _conclude(material: Material) -> Iterator[Concluded]:
    """For each resource and metric that several platforms were measured for."""
    summary = summary_of(material)
    curves = [(each.key, each) for each in summary.one_works]
    for about, of in _together(summary, curves, guests=False):
        slopes = {name: _slope(curve) for name, curve in of.items()}
        flat = all(curve.word == "flat" for curve in of.values())
        words = {name: _words(curve, slopes[name]) for name, curve in of.items()}
        free = [slopes[name] for name, curve in of.items() if curve.word not in (HELD, FROM_MEMORY)]
        held = "not confirmed" if flat else apart(free)
        if held == "not decided" and any(curve.word == HELD for curve in of.values()):
            held = NOT_BY_LINK
        yield Concluded("the tools behave differently in overhead", about, each_words(words), held)
    isolated = [(each.key, each.word) for each in summary.isolation]
    for about, found in _together(summary, isolated, guests=True):
        held = differ(found, UNDECIDED)
        yield Concluded("the tools behave differently in isolation", about, each_words(found), held)


def _together(
    summary: JobsSummary, found: Iterable[tuple[PointKey, T]], *, guests: bool
) -> Iterator[tuple[str, dict[str, T]]]:
    """What several platforms with guests were measured for alike, each by what it is called."""
    of: dict[tuple[object, ...], dict[str, T]] = {}
    about: dict[tuple[object, ...], str] = {}
    for key, each in found:
        if key.platform not in summary.bare_platforms:
            group = (key.testbed_fingerprint, key.job, key.size, key.guests, key.cpu, key.crew, key.kernel)
            about[group] = f"{resource_of(key)}, {panel_words(summary, key, guests=guests)}"
            of.setdefault(group, {})[", ".join([key.platform, *summary.apart(key)])] = each
    yield from ((about[group], alike) for group, alike in of.items() if len(alike) > 1)


def _slope(curve: GuestsCurve) -> KnownInterval | None:
    """Of the time alone, with each guest."""
    fit, alone = curve.fit, curve.points[0].seconds
    if fit is None or fit.slope.low is None or fit.slope.high is None or alone is None or not alone.mean:
        return None
    return KnownInterval(*(each / alone.mean for each in (fit.slope.mean, fit.slope.low, fit.slope.high)))


def _words(curve: GuestsCurve, slope: KnownInterval | None) -> str:
    if slope is None:
        return str(curve.word)
    mean, low, high = (number(100 * each, 2) for each in slope)
    return f"{curve.word}, {mean} % ({low} to {high}) with each guest"


UNITS = (
    abstract_unit(
        "quetier", "quetier-abstract-jobs", 168, _conclude,
        "Of platforms with guests. Overhead: by how much of its time alone one guest's job takes longer with each "
        "guest that stands beside it (job-guests); confirmed where the intervals of two platforms lie wholly apart, "
        "not confirmed where all are flat; what the link holds, or memory gave, decides nothing. Isolation: who is "
        "kept apart (job-isolation); confirmed where two platforms are of different classes, not confirmed where all "
        "are of one.",
    ),
)  # fmt: skip
