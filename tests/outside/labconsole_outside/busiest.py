"""A unit of reports: the design point with the highest rate."""

from labconsole.contracts.report import ReportUnit, Table


def make(material):
    """None where there is no point."""
    points = material.evaluation.points
    if not points:
        return None
    best = max(points, key=lambda point: point.rate_bps.mean)
    return Table(
        name="busiest", title="The busiest design point", columns=("platform", "rate_bps"),
        rows=((best.platform, best.rate_bps.mean),), headings=("platform", "Mbit/s"),
        shown=((best.platform, f"{best.rate_bps.mean / 1e6:.1f}"),),
    )


UNITS = (ReportUnit(name="busiest", place=900, make=make),)
