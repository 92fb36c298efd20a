"""Trends in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from labconsole.cli.text.report import show_figure
from labconsole.cli.text.tables import show_table
from labconsole.report.trend_tables import figures, tables
from labconsole.report.trends import Trend
from labconsole.text.harmless import undisguised


def show(trends: Sequence[Trend]) -> None:
    """Print them on stdout. What is said of several figures or tables in the same words stands under the last one."""
    console = Console(file=undisguised(sys.stdout), highlight=False, markup=False, emoji=False)
    drawn, told = list(figures(trends)), list(tables(trends))
    for place, figure in enumerate(drawn, 1):
        show_figure(console, figure, caption=all(figure.caption != each.caption for each in drawn[place:]))
    for place, table in enumerate(told, 1):
        again = any(table.note == each.note for each in told[place:])
        show_table(console, table, rest="--json lists all", note=not again)
