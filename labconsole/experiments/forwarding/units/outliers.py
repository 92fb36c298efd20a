"""Runs far from the other trials of their point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.measure.statistics.repetitions import outliers
from labconsole.report.formatting import format_number, format_point_setting, format_target_number, format_with_interval
from labconsole.report.material import Material
from labconsole.report.points import PointSummary


def make(material: Material) -> Findings:
    """Return the findings. The runs stay in the mean of their point."""
    found = tuple(_sentences(material.evaluation.points))
    return Findings(kind="outlier", heading="Runs far from their repetitions", found=found)


def _sentences(points: Iterable[PointSummary]) -> Iterator[Finding]:
    for p in points:
        values = p.trial_values_bps
        places = outliers(values)
        if places:
            apart = ", ".join(format_number(values[place] / 1e6) for place in places)
            yield Finding(
                sentence=(
                    f"{format_point_setting(p)}, target {format_target_number(p.target_bps, p.frame)}: "
                    f"{apart} Mbit/s forwarded in {len(places)} of {p.n} runs, far from the others "
                    f"({format_with_interval(p.rate_bps)} with all; Rosner's test, 5 %)."
                ),
                run_ids=tuple(p.run_ids[place] for place in places),
            )


UNITS = (ReportUnit(name="outlier", place=90, make=make),)
