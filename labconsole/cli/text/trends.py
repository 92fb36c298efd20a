"""Trends in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from labconsole.cli.text.report import show_figure
from labconsole.cli.text.tables import show_table
from labconsole.report.trends import Trend, steps_table, trends_figure, trends_table
from labconsole.text.harmless import undisguised


def show(trends: Sequence[Trend]) -> None:
    """Print them on stdout."""
    console = Console(file=undisguised(sys.stdout), highlight=False, markup=False, emoji=False)
    figure = trends_figure(trends)
    if figure is not None:
        show_figure(console, figure)
    for table in (trends_table(trends), steps_table(trends)):
        if table is not None:
            show_table(console, table, rest="--json lists all")
