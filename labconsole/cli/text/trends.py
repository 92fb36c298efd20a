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
    """Print them on stdout."""
    console = Console(file=undisguised(sys.stdout), highlight=False, markup=False, emoji=False)
    for figure in figures(trends):
        show_figure(console, figure)
    for table in tables(trends):
        show_table(console, table, rest="--json lists all")
