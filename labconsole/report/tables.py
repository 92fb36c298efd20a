"""Tables as CSV, Markdown and LaTeX. CSV holds whole numbers; on paper they are rounded, with interval."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from labconsole.contracts.report import Figure, Table
from labconsole.text.spreadsheet import harmless_cell

LATEX_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "\u2009": r"\,", "−": "$-$",
    "·": r"$\cdot$", "⁻": "$^{-}$", **{digit: f"$^{{{place}}}$" for place, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}  # fmt: skip


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


def to_markdown(table: Table) -> str:
    """A pipe table under its title."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join(" --- " if left else " ---: " for left in table.left) + "|"
    lines = [
        f"**{labelled(table)}**",
        "",
        line(table.headings),
        rule,
        *(line(row) for row in table.shown),
    ]
    return "\n".join([*lines, *(["", table.note] if table.note else [])]) + "\n"


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
