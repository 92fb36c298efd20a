"""Trends in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from labconsole.cli.text.report import show_figure
from labconsole.cli.text.tables import show_table
from labconsole.report.trend_tables import build_figures, build_tables
from labconsole.report.trends import Trend
from labconsole.text.sanitize import single_line, unwrap_stream

MOST_OCCASIONS = 40
"""Most occasions in a line, the last ones; ``--json`` lists all."""


def occasion_lines(trends: Sequence[Trend]) -> Iterator[str]:
    """The occasion of each number of a chart; by design points if these have different ones."""
    points: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for trend in trends:
        occasions = tuple((each.occasion, each.started_at) for each in trend.results)
        points.setdefault(occasions, []).append(trend.title)
    for occasions, titles in points.items():
        of = f" of {'; '.join(titles)}" if len(points) > 1 else ""
        named = [f"{number} {name} ({at[:16].replace('T', ' ')})" for number, (name, at) in enumerate(occasions, 1)]
        more = len(named) - MOST_OCCASIONS
        rest = f"; and {more} before them, which --json lists" if more > 0 else ""
        yield f"Occasions{of}, begun at (UTC): {', '.join(named[-MOST_OCCASIONS:])}{rest}."


def show(trends: Sequence[Trend]) -> None:
    """Print them on stdout. A note that several figures or tables share is printed under the last one."""
    console = Console(file=unwrap_stream(sys.stdout), highlight=False, markup=False, emoji=False)
    drawn, tables = list(build_figures(trends)), list(build_tables(trends))
    for place, figure in enumerate(drawn, 1):
        show_figure(console, figure, caption=all(figure.caption != each.caption for each in drawn[place:]))
    for line in occasion_lines(trends):
        console.print(Text(f"\n{single_line(line)}"))
    for place, table in enumerate(tables, 1):
        again = any(table.note == each.note for each in tables[place:])
        show_table(console, table, rest="--json lists all", note=not again)
