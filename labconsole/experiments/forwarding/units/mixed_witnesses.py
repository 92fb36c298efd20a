"""Points whose mean holds runs counted by a capture and runs counted by the sink's NIC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.report.material import Material
from labconsole.report.points import PointSummary, RunFacts
from labconsole.report.words import point_where, target_number


def make(material: Material) -> Findings:
    """By platform."""
    found = tuple(_sentences(material.evaluation.points, material.digest.facts))
    return Findings(kind="mixed_witnesses", heading="Means of two witnesses", found=found)


def _sentences(points: Sequence[PointSummary], facts: Mapping[str, RunFacts]) -> Iterator[Finding]:
    held: dict[str, list[PointSummary]] = {}
    for p in points:
        seen = {facts[run_id].witnesses for run_id in p.run_ids if run_id in facts}
        if len(seen) > 1:
            held.setdefault(p.platform, []).append(p)
    for platform, found in held.items():
        words = "; ".join(
            f"{point_where(p).partition(', ')[2]}, target {target_number(p.target_bps, p.frame)}" for p in found
        )
        yield Finding(
            sentence=(
                f"{platform}: one mean combines runs counted by the capture and runs counted by the sink's NIC, "
                f"because tcpdump dropped packets in some: {words}."
            ),
            run_ids=tuple(chain.from_iterable(p.run_ids for p in found)),
        )


UNITS = (ReportUnit(name="mixed_witnesses", place=110, make=make),)
