"""Findings from the verdicts of runs, and from how they were counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.measure.groups import WHY
from labconsole.report.digest import Evidence
from labconsole.report.formatting import format_noun_count, format_percent, format_point_setting, format_target_number
from labconsole.report.material import Material
from labconsole.report.points import PointSummary, RunFacts

# -- verdicts ----------------------------------------------------------------------------------------------------------
# Findings from the verdicts of runs: generators, losses outside the platform, background load that was not reached.

LOADS_NAMED = 5
"""The number of loads that a mark names."""

LEFT_OUT = {
    "lost_at_source": "Lost at the source",
    "lost_at_sink": "Lost at the sink",
    "instrument_limited": "Beyond the calibrated instrument",
}
"""Headings by the code for which runs enter no mean."""

Describe = Callable[[str, list[Evidence]], str]
"""Returns a sentence about runs of one platform and frame size."""


def included_findings(material: Material) -> list[Findings]:
    """Return findings on included runs."""
    digest = material.digest
    return [
        _marks("generator_throttled", "Generator throttled by flow control", digest.throttled, _throttled),
        _marks("generator_short", "Generator short of its target", digest.short, _short),
        _marks("lost_before_guest", "Loss before the guest", digest.before_guest, _loss_before_guest),
        _marks(
            "lost_before_uut", "Loss before the unit under test counts the frame", digest.before_uut, _loss_before_uut
        ),
    ]


def excluded_findings(material: Material) -> list[Findings]:
    """Return findings on runs that say nothing of the platform, by the code that excludes them from means."""
    return [
        _marks(code, LEFT_OUT.get(code, code), evidence, _describe_excluded(code))
        for code, evidence in material.digest.beside.items()
    ]


def missed(material: Material) -> Findings:
    """Return findings on background load that differed from the request."""
    return _marks("background_not_achieved", "Background load not achieved", material.digest.missed, _missed)


def _marks(kind: str, heading: str, found: Sequence[Evidence], describe: Describe) -> Findings:
    """Return a mark for each platform and frame size, with the loads at which it was seen."""
    groups: dict[str, list[Evidence]] = {}
    for evidence in found:
        groups.setdefault(evidence.asked, []).append(evidence)
    marks = []
    for request, group in groups.items():
        loads = list(dict.fromkeys(evidence.load for evidence in group))
        more = f" and {len(loads) - LOADS_NAMED} other loads" if len(loads) > LOADS_NAMED else ""
        sentence = f"{describe(request, group)} Seen at {', '.join(loads[:LOADS_NAMED])}{more}."
        marks.append(Finding(sentence, tuple(dict.fromkeys(evidence.run_id for evidence in group))))
    return Findings(kind=kind, heading=heading, found=tuple(marks))


def _throttled(request: str, evidence: list[Evidence]) -> str:
    return (
        f"{request}: flow control throttled the generator in {format_noun_count(len(evidence), 'run')}; "
        f"the point is plotted at what was offered, not at its target ({evidence[0].detail})."
    )


def _short(request: str, evidence: list[Evidence]) -> str:
    runs = format_noun_count(len(evidence), "run")
    return f"{request}: the generator sent less than intended in {runs} ({evidence[0].detail})."


def _loss_before_guest(request: str, evidence: list[Evidence]) -> str:
    runs = format_noun_count(len(evidence), "run")
    return f"{request}: {_share(evidence)} of the loss happens before the guest in {runs}."


def _loss_before_uut(request: str, evidence: list[Evidence]) -> str:
    return (
        f"{request}: {_share(evidence)} of the loss happens before the unit under test counts the frame, in "
        f"{format_noun_count(len(evidence), 'run')}."
    )


def _share(evidence: list[Evidence]) -> str:
    low, high = min(e.value for e in evidence), max(e.value for e in evidence)
    shares = format_percent(low, 0), format_percent(high, 0)
    return shares[0] if shares[0] == shares[1] else f"{shares[0]} to {shares[1]}"


def _describe_excluded(code: str) -> Describe:
    """Return the description of runs that enter no mean because they say nothing of the platform."""

    def describe(request: str, evidence: list[Evidence]) -> str:
        runs = len(evidence)
        they = "it says" if runs == 1 else "they say"
        return (
            f"{request}: {format_noun_count(runs, 'run')} left out of every mean ({WHY[code]}); "
            f"{they} nothing about the platform ({evidence[0].detail})."
        )

    return describe


def _missed(request: str, evidence: list[Evidence]) -> str:
    runs = len({each.run_id for each in evidence})
    return (
        f"{request}: the background load was not as requested in {format_noun_count(runs, 'run')}, which enter no mean "
        f"({evidence[0].detail})."
    )


# -- mixed witnesses ---------------------------------------------------------------------------------------------------
# Points whose mean mixes runs counted by a capture and by the sink's NIC, or runs observed differently.


def find_mixed_witnesses(material: Material) -> Sequence[Findings]:
    """Return the findings by platform."""
    points, facts = material.evaluation.points, material.digest.facts
    counted = _mixed(points, facts, lambda fact: fact.witnesses)
    probes = _mixed(points, facts, lambda fact: fact.kernels_asked)
    return (
        Findings(kind="mixed_witnesses", heading="Means of two witnesses", found=tuple(map(_two_witnesses, counted))),
        Findings(
            kind="mixed_asking", heading="Means of runs observed differently", found=tuple(map(_mixed_probes, probes))
        ),
    )


def _mixed(
    points: Sequence[PointSummary], facts: Mapping[str, RunFacts], of: Callable[[RunFacts], tuple[str, ...]]
) -> list[Mixed]:
    """Return, by platform, the points whose runs differ in this property."""
    by_platform: dict[str, list[PointSummary]] = {}
    for p in points:
        if len({of(facts[run_id]) for run_id in p.run_ids if run_id in facts}) > 1:
            by_platform.setdefault(p.platform, []).append(p)
    found = []
    for platform, own in by_platform.items():
        text = "; ".join(
            f"{format_point_setting(p).partition(', ')[2]}, target {format_target_number(p.target_bps, p.frame)}"
            for p in own
        )
        said = {name for p in own for run_id in p.run_ids if run_id in facts for name in of(facts[run_id])}
        found.append(Mixed(platform, text, tuple(sorted(said)), tuple(chain.from_iterable(p.run_ids for p in own))))
    return found


class Mixed(NamedTuple):
    """One platform's points, as text, and the values in which they differ."""

    platform: str
    points: str
    said: tuple[str, ...]
    run_ids: tuple[str, ...]


def _two_witnesses(mixed: Mixed) -> Finding:
    return Finding(
        sentence=(
            f"{mixed.platform}: one mean combines runs counted by the capture and runs counted by the sink's NIC, "
            f"because tcpdump dropped packets in some: {mixed.points}."
        ),
        run_ids=mixed.run_ids,
    )


def _mixed_probes(mixed: Mixed) -> Finding:
    return Finding(
        sentence=(
            f"{mixed.platform}: one mean combines runs with and runs without {' and '.join(mixed.said)} from the "
            f"nodes' kernels, which take a part of a processor: {mixed.points}."
        ),
        run_ids=mixed.run_ids,
    )


UNITS = (
    ReportUnit(name="seen_in_runs", place=120, make=included_findings),
    ReportUnit(name="left_out", place=130, make=excluded_findings),
    ReportUnit(name="background_not_achieved", place=140, make=missed),
    ReportUnit(name="mixed_witnesses", place=110, make=find_mixed_witnesses),
)
