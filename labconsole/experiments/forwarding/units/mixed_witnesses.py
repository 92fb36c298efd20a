"""Points whose mean mixes runs counted by a capture and by the sink's NIC, or runs observed differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.report.formatting import format_point_setting, format_target_number
from labconsole.report.material import Material
from labconsole.report.points import PointSummary, RunFacts


def make(material: Material) -> Sequence[Findings]:
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


UNITS = (ReportUnit(name="mixed_witnesses", place=110, make=make),)
