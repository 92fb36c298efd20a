"""Tables as CSV, Markdown and LaTeX. CSV has whole numbers; printed tables round them and add the interval."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Sequence
from typing import Any

from labconsole.contracts.report import Figure, Table
from labconsole.report.panels import check_name
from labconsole.text.axis import MOST_CHARACTERS, MOST_CURVES, Undrawable, check_count, check_text
from labconsole.text.sanitize import escape_latex, escape_markdown, sanitize_cell


def check_table(table: Table) -> None:
    """Raises Undrawable unless every row has a cell for each column, and every cell is a value or text."""
    check_name(table.name)
    check_text(table.title, "title")
    check_text(table.note, "note", 100 * MOST_CHARACTERS)
    for what in ("columns", "headings"):
        check_count(getattr(table, what), what, MOST_CURVES)
        for name in getattr(table, what):
            check_text(name, f"a name of {what}")
    for what, rows, cells in (("rows", table.rows, len(table.columns)), ("shown", table.shown, len(table.headings))):
        check_count(rows, what, sys.maxsize)
        for number, row in enumerate(rows, 1):
            check_count(row, f"row {number} of {what}", sys.maxsize)
            if len(row) != cells:
                raise Undrawable(f"row {number} of {what} has {len(row)} cells; allowed: {cells}")
    for row in table.shown:
        for cell in row:
            check_text(cell, "a shown cell", 100 * MOST_CHARACTERS)
    for row in table.rows:
        for name, value in zip(table.columns, row, strict=True):
            if not isinstance(value, str | int | None) and not (isinstance(value, float) and math.isfinite(value)):
                raise Undrawable(f"{name} is {value!r:.40}; allowed: a finite int or float, text or None")


def labelled(part: Figure | Table) -> str:
    """``Table 1. Title`` for a part with a number in its paper. LaTeX numbers by itself, so its captions omit it."""
    return f"{part.number}. {part.title}" if part.number else part.title


def to_csv(table: Table) -> str:
    """RFC 4180 with a header; an unknown value is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([sanitize_cell(cell) for cell in row] for row in (table.columns, *table.rows))
    return out.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table under its title, with foreign text escaped so that it is not read as Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(escape_markdown, cells)) + " |"

    rule = "|" + "|".join(" --- " if left else " ---: " for left in table.left) + "|"
    lines = [
        f"**{escape_markdown(labelled(table))}**",
        "",
        line(table.headings),
        rule,
        *(line(row) for row in table.shown),
    ]
    return "\n".join([*lines, *(["", escape_markdown(table.note, code_spans=True)] if table.note else [])]) + "\n"


def to_latex(table: Table) -> str:
    """A booktabs table."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(escape_latex(cell) for cell in cells) + r" \\"

    spec = "".join("l" if left else "r" for left in table.left)
    body = [line(row) for row in table.shown]
    caption = escape_latex(table.title + (". " + table.note if table.note else ""))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{table.name}}}",
            rf"\begin{{tabular}}{{{spec}}}",
            r"\toprule",
            line(table.headings),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_json(table: Table) -> dict[str, Any]:
    """The exact values as one object."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {"table": table.name, "title": table.title, "rows": rows, "note": table.note}
