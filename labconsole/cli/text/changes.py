"""A comparison of two sets of runs in the terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from labconsole.cli.text.tables import show_table
from labconsole.report.change_tables import build_tables, describe_changes
from labconsole.report.changes import Changes
from labconsole.text.sanitize import single_line, unwrap_stream


def show(changes: Changes) -> None:
    """Print the comparison on stdout."""
    console = Console(file=unwrap_stream(sys.stdout), highlight=False, markup=False, emoji=False)
    for sentence in describe_changes(changes):
        console.print(Text(f"• {single_line(sentence)}"))
    for table in build_tables(changes):
        show_table(console, table, rest="--json lists all")
