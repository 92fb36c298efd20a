"""A finding of reports: how often the first point was taken."""

from labconsole.contracts.report import ReportUnit, Table


def make(material):
    """None without such a record."""
    records = material.experiments.get("twice", ())
    if not records:
        return None
    rows = tuple((record.platform, record.times) for record in records)
    return Table(
        name="twices", title="Taken several times", columns=("platform", "times"), rows=rows,
        headings=("platform", "times"), shown=tuple((platform, str(times)) for platform, times in rows),
    )


UNITS = (ReportUnit(name="twices", place=901, make=make),)
