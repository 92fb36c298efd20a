"""Tables as CSV, Markdown and LaTeX. CSV holds whole numbers; on paper they are rounded, with interval."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from labconsole.contracts.report import Figure, Table
from labconsole.report.panels import checked_name
from labconsole.text.axis import MOST_CHARACTERS, MOST_CURVES, Undrawable, checked_count, checked_words
from labconsole.text.harmless import harmless
from labconsole.text.spreadsheet import harmless_cell

LATEX_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "\u2009": r"\,", "−": "$-$",
    "·": r"$\cdot$", "⁻": "$^{-}$", **{digit: f"$^{{{place}}}$" for place, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}  # fmt: skip


def check_table(table: Table) -> None:
    """Raises Undrawable unless every row has a cell for each column, and every cell is a value or text."""
    checked_name(table.name)
    checked_words(table.title, "title")
    checked_words(table.note, "note", 100 * MOST_CHARACTERS)
    for what in ("columns", "headings"):
        checked_count(getattr(table, what), what, MOST_CURVES)
        for name in getattr(table, what):
            checked_words(name, f"a name of {what}")
    for what, rows, cells in (("rows", table.rows, len(table.columns)), ("shown", table.shown, len(table.headings))):
        checked_count(rows, what, sys.maxsize)
        for number, row in enumerate(rows, 1):
            checked_count(row, f"row {number} of {what}", sys.maxsize)
            if len(row) != cells:
                raise Undrawable(f"row {number} of {what} has {len(row)} cells; allowed: {cells}")
    for row in table.shown:
        for cell in row:
            checked_words(cell, "a shown cell", 100 * MOST_CHARACTERS)
    for row in table.rows:
        for name, value in zip(table.columns, row, strict=True):
            if not isinstance(value, str | int | None) and not (isinstance(value, float) and math.isfinite(value)):
                raise Undrawable(f"{name} is {value!r:.40}; allowed: a finite int or float, text or None")


def labelled(part: Figure | Table) -> str:
    """``Table 1. Title`` for what has a number in its paper. LaTeX numbers by itself, so its captions do without."""
    return f"{part.number}. {part.title}" if part.number else part.title


def to_csv(table: Table) -> str:
    """RFC 4180 with a header; an unknown value is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([harmless_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


_MARKDOWN = re.compile(r"[\\`*_\[\]<>#!|~]")
_MENTION = re.compile(r"(?<![\w])@")
"""What calls somebody on the pages of a forge; a plan's name has a letter before it."""


def markdown_text(text: str) -> str:
    """Foreign text as Markdown shows it literally, in one line: no image, no link, no heading, nobody called."""
    plain = " ".join(harmless(text).split()).replace("://", ":\u200b//").replace("www.", "www\u200b.")
    return _MENTION.sub("@\u200b", _MARKDOWN.sub(r"\\\g<0>", plain))


def to_markdown(table: Table, *, foreign: bool = False) -> str:
    """A pipe table under its title. ``foreign``: for where what a node said must not be read as Markdown."""
    text = markdown_text if foreign else _piped

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(text, cells)) + " |"

    rule = "|" + "|".join(" --- " if left else " ---: " for left in table.left) + "|"
    lines = [
        f"**{markdown_text(labelled(table)) if foreign else labelled(table)}**",
        "",
        line(table.headings),
        rule,
        *(line(row) for row in table.shown),
    ]
    return "\n".join([*lines, *(["", table.note] if table.note else [])]) + "\n"


def _piped(cell: str) -> str:
    return cell.replace("|", "\\|")


def to_latex(table: Table) -> str:
    """A booktabs table."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(latex_text(cell) for cell in cells) + r" \\"

    spec = "".join("l" if left else "r" for left in table.left)
    body = [line(row) for row in table.shown]
    caption = latex_text(table.title + (". " + table.note if table.note else ""))
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


def latex_text(text: str) -> str:
    """Plain text as LaTeX shows it literally."""
    return "".join(LATEX_SPECIAL.get(character, character) for character in text)


def to_json(table: Table) -> dict[str, Any]:
    """The exact values as one object."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {"table": table.name, "title": table.title, "rows": rows, "note": table.note}
