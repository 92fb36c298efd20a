"""Variance between set-ups and within them, by platform, as relative deviations."""

from __future__ import annotations

import math

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.report.formatting import format_number
from labconsole.report.material import Material


def make(material: Material) -> Table:
    """Build the table by platform, pooled over its points."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for platform, parts in material.evaluation.spread.items():
        between = parts.variance_between
        rows.append(
            (
                platform,
                parts.points,
                parts.set_ups,
                parts.repetitions,
                parts.variance_within,
                parts.variance_of_means,
                between,
            )
        )
        root = math.copysign(math.sqrt(abs(between)), between)
        shown.append(
            (
                platform,
                str(parts.points),
                str(parts.set_ups),
                f"{parts.repetitions:.3g}",
                format_number(100 * math.sqrt(parts.variance_within), 2),
                format_number(100 * math.sqrt(parts.variance_of_means), 2),
                format_number(100 * root, 2),
            )
        )
    return Table(
        name="spread",
        title="Where the spread comes from: between set-ups, and within them",
        columns=(
            "platform",
            "points",
            "set_ups",
            "repetitions",
            "variance_within",
            "variance_of_set_up_means",
            "variance_between",
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "points",
            "set-ups",
            "repetitions",
            "within, %",
            "of set-up means, %",
            "between, %",
        ),
        shown=tuple(shown),
        note=(
            "Standard deviations relative to the mean, pooled over a platform's points with three set-ups of two "
            "repetitions; between: what set-ups add to what their trials explain, with a minus where they lie closer "
            "than trials make likely (Kalibera and Jones 2013). `labconsole plan advise` reckons set-ups and "
            "repetitions from it."
        ),
    )


UNITS = (ReportUnit(name="spread", place=150, make=make),)
