"""Reports and trends in the terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from labconsole.cli.text.tables import show_table
from labconsole.comparison.trend_tables import build_figures, build_tables
from labconsole.comparison.trends import Trend
from labconsole.contracts.report import Figure, Panel
from labconsole.report.assembly import Report
from labconsole.report.formatting import format_note
from labconsole.report.panels import collect_labels, describe_marks, draw_panel, format_panel_heading, glyph
from labconsole.report.tables import labelled
from labconsole.text.sanitize import single_line, unwrap_stream
from labconsole.units import counted, format_count

# -- reports -----------------------------------------------------------------------------------------------------------
# A report in the terminal: the figures by plotext (behind text/charts.py), tables and findings by rich.
#
# As wide as the terminal. Colour is left out if NO_COLOR is set or the output is no terminal, and never carries
# meaning: curves have marks and bars have fills of their own. Foreign words are sanitized before rich adds its own
# sequences.

COLOURS = ("cyan", "yellow", "green", "magenta", "red", "blue", "bright_cyan", "bright_yellow")
SIDE_BY_SIDE = 140
"""Columns from which on two panels are drawn next to each other."""

PANEL_LINES = 17


def show(report: Report) -> None:
    """Print the report on stdout."""
    console = Console(file=unwrap_stream(sys.stdout), highlight=False, markup=False, emoji=False)
    console.print(Text(single_line(report.title), style="bold"))
    console.print(Text(single_line(f"Selection: {report.selection.description}."), style="dim"))
    for sentence in report.conclusions:
        console.print(Text(f"• {single_line(sentence)}"))
    for name, each in report.plan_notes:
        console.print(Text(single_line(f"Note on plan {name}: {format_note(each)}"), style="dim"))
    for failure in report.failures:
        console.print(Text(single_line(f"Left out: {failure}"), style="bold"))
    for figure in report.figures:
        show_figure(console, figure)
    for table in (*report.tables, *report.references):
        show_table(console, table, rest=f"--out DIR writes {table.name}.csv")
    _findings(console, report)


def show_figure(console: Console, figure: Figure, *, caption: bool = True) -> None:
    """Print a figure, with as many panels in a row as there is room for, and its caption if requested."""
    console.print()
    console.print(Text(single_line(labelled(figure)), style="bold"))
    labels = collect_labels(figure)
    console.print(_legend(figure, labels))
    columns = 2 if console.width >= SIDE_BY_SIDE and len(figure.panels) > 1 else 1
    width = min(console.width // columns - (columns - 1), 120)
    panels = [_panel(figure, panel, labels, width) for panel in figure.panels]
    for place in range(0, len(panels), columns):
        in_row = panels[place : place + columns]
        for one in in_row:
            one[:0] = [Text() for _ in range(max(map(len, in_row)) - len(one))]
        for lines in zip(*in_row, strict=True):
            row = Text(no_wrap=True, overflow="crop")
            for number, line in enumerate(lines):
                if number < len(lines) - 1:
                    line.pad_right(max(0, width + 1 - line.cell_len))
                row.append_text(line)
            row.rstrip()
            console.print(row)
    if caption:
        console.print(Text(single_line(figure.caption), style="dim"))


def _legend(figure: Figure, labels: Sequence[str]) -> Text:
    line = Text("  ")
    for number, label in enumerate(labels):
        line.append(f"{glyph(figure, number)} {single_line(label)}", style=COLOURS[number % len(COLOURS)])
        line.append("   ")
    line.append(describe_marks(figure))
    return line


def _panel(figure: Figure, panel: Panel, labels: Sequence[str], width: int) -> list[Text]:
    heading = textwrap.wrap(format_panel_heading(figure, panel), max(1, width - 2), break_on_hyphens=False)
    lines = [Text(f"  {line}") for line in heading]
    for row in draw_panel(figure, panel, labels, width, PANEL_LINES):
        line = Text()
        for text, number in row:
            line.append(text, style="" if number is None else COLOURS[number % len(COLOURS)])
        lines.append(line)
    return lines


def _findings(console: Console, report: Report) -> None:
    console.print()
    console.print(Text("Findings", style="bold"))
    if not report.findings:
        tested = "shows a difference" if report.material.evaluation.claims.size else "was tested"
        console.print(f"No comparison {tested}, and there are no other findings.")
    for kind in report.findings:
        mark = "" if kind.claims else "mark: "
        for finding in kind.found:
            runs = len(finding.run_ids)
            console.print(Text(f"• {mark}{single_line(finding.sentence)} [{runs} run{'' if runs == 1 else 's'}]"))
    kept = report.material.kept
    left_out = len(kept.excluded)
    if left_out:
        reasons = ", ".join(f"{code} {count}" for code, count in kept.excluded_by_reason)
        total = left_out + len(kept.entered)
        console.print(f"{format_count(left_out)} of {counted(total, 'run')} enter no mean: {single_line(reasons)}")


# -- trends ------------------------------------------------------------------------------------------------------------
# Trends in the terminal.

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


def show_trends(trends: Sequence[Trend]) -> None:
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
