"""Variance between set-ups and within them, by platform, as relative deviations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.measure.statistics.components import Components
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, column


class SpreadRow(NamedTuple):
    """The components of the spread of a platform's points."""

    platform: str
    parts: Components


def make(material: Material) -> Table:
    """Build the table by platform, pooled over its points."""
    columns: list[TableColumn[SpreadRow]] = [
        column("platform", "platform", lambda row: row.platform),
        column("points", "points", lambda row: row.parts.points),
        column("set_ups", "set-ups", lambda row: row.parts.set_ups),
        column(
            "repetitions", "repetitions", lambda row: row.parts.repetitions, lambda row: f"{row.parts.repetitions:.3g}"
        ),
        _variance_column("variance_within", "within, %", lambda row: row.parts.variance_within),
        _variance_column("variance_of_set_up_means", "of set-up means, %", lambda row: row.parts.variance_of_means),
        _variance_column("variance_between", "between, %", lambda row: row.parts.variance_between),
    ]
    return build_table(
        "spread",
        "Where the spread comes from: between set-ups, and within them",
        columns,
        [SpreadRow(*each) for each in material.evaluation.spread.items()],
        "Standard deviations relative to the mean, pooled over a platform's points with three set-ups of two "
        "repetitions; between: what set-ups add to what their trials explain, with a minus where they lie closer "
        "than trials make likely (Kalibera and Jones 2013). `labconsole plan advise` reckons set-ups and "
        "repetitions from it.",
    )


def _variance_column(name: str, heading: str, variance: Callable[[SpreadRow], float]) -> TableColumn[SpreadRow]:
    """A variance, printed as a deviation in percent with the sign of the variance."""

    def show(row: SpreadRow) -> str:
        found = variance(row)
        return format_number(100 * math.copysign(math.sqrt(abs(found)), found), 2)

    return column(name, heading, variance, show)


UNITS = (ReportUnit(name="spread", place=150, make=make),)
