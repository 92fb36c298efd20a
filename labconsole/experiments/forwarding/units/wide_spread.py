"""Points whose set-ups differ far more than those of the platform's other points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.report.formatting import format_percent, format_point_setting, format_target_number
from labconsole.report.material import Material
from labconsole.report.points import PointSummary

SPREAD_FACTOR = 5.0
"""The limit for a point's relative deviation, as a multiple of the median over the platform's points."""

MIN_SPREAD_RATIO = 0.02


def make(material: Material) -> Findings:
    """Return the findings. With one set-up, a point's trials are compared with those of the other points."""
    found = tuple(_sentences(material.evaluation.points))
    return Findings(kind="wide_spread", heading="Set-ups that differ more than usual", found=found)


def _sentences(points: Iterable[PointSummary]) -> Iterator[Finding]:
    spreads: dict[str, list[tuple[float, PointSummary]]] = {}
    for p in points:
        if p.rate_bps.sd is not None and p.n >= 3 and p.rate_bps.mean > 0:
            spreads.setdefault(p.platform, []).append((p.rate_bps.sd / p.rate_bps.mean, p))
    for values in spreads.values():
        usual = sorted(value for value, _ in values)[len(values) // 2]
        for value, p in values:
            if value > MIN_SPREAD_RATIO and value > SPREAD_FACTOR * usual:
                which = "set-ups" if p.set_ups > 1 else "repetitions"
                yield Finding(
                    sentence=(
                        f"{format_point_setting(p)}, target {format_target_number(p.target_bps, p.frame)}: "
                        f"the {which} differ by {format_percent(value)} of their mean (standard deviation), "
                        f"where {format_percent(usual)} is usual on this platform."
                    ),
                    run_ids=p.run_ids,
                )


UNITS = (ReportUnit(name="wide_spread", place=80, make=make),)
