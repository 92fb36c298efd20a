"""Tables as data, and as CSV, Markdown and LaTeX. CSV holds whole numbers; on paper they are rounded, with interval."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from labconsole.measure.effects import digits_to_tell
from labconsole.measure.loss_interval import LossEstimate
from labconsole.model.spreadsheet import harmless_cell

Cell = str | int | float | None
UNKNOWN = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEAST_IN_PERCENT = 1e-3
LATEX_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "\u2009": r"\,", "−": "$-$",
    "·": r"$\cdot$", "⁻": "$^{-}$", **{digit: f"$^{{{place}}}$" for place, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}  # fmt: skip


class Interval(Protocol):
    """What is needed of a mean."""

    @property
    def mean(self) -> float: ...
    @property
    def ci_low(self) -> float | None: ...
    @property
    def ci_high(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``columns``: names with units for the CSV; ``rows``: the exact values; ``shown``: the same for paper."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    headings: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]
    note: str = ""

    @property
    def left(self) -> tuple[bool, ...]:
        """For each column whether it holds words, which stand at its left, and not numbers."""
        return tuple(
            place == 0 or not any(row[place][:1].isdigit() or row[place][:1] == "−" for row in self.shown)
            for place in range(len(self.headings))
        )


_NUMBERED = re.compile(r"(table|figure)-(\d)(-numbers)?")


def labelled(name: str, title: str) -> str:
    """``Table 1. Title`` for what has a number in the paper. LaTeX numbers by itself, so its captions do without."""
    found = _NUMBERED.match(name)
    if found is None:
        return title
    return f"{found[1].capitalize()} {found[2]}{' in numbers' if found[3] else ''}. {title}"


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
        f"**{labelled(table.name, table.title)}**",
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


def number(value: float | None, places: int = 1) -> str:
    """A number with thin-space thousands."""
    return UNKNOWN if value is None else f"{value:,.{places}f}".replace(",", "\u2009").replace("-", "−")


def percent(ratio: float, places: int = 1) -> str:
    """A share of one as percent, with its sign only where it is negative."""
    return f"{number(ratio * 100, places)} %"


def with_interval(summary: Interval, scale: float = 1e6, places: int = 1) -> str:
    """``mean ± half width`` of the 95 % interval; the mean alone where there is none."""
    mean = number(summary.mean / scale, places)
    if summary.ci_low is None or summary.ci_high is None:
        return mean
    return f"{mean} ± {number((summary.ci_high - summary.ci_low) / 2 / scale, places)}"


def scientific(value: float, digits: int = 2) -> str:
    """``3.3·10⁻⁶``."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.removesuffix(".0") if digits > 1 else mantissa
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def share_words(ratio: float) -> str:
    """A share: in percent where that takes few digits, else as a power of ten."""
    if ratio == 0 or ratio >= LEAST_IN_PERCENT:
        return f"{number(ratio * 100, 2)} %"
    return scientific(ratio)


def loss_words(loss: LossEstimate | None) -> str:
    """``1.20 % (1.10 % to 1.31 %)``; with none lost what the ratio lies below, never 0 ± 0.

    Bounds that know of these packets only, those of fewer than three trials, are marked "of this run".
    """
    if loss is None or loss.ratio is None:
        return UNKNOWN
    if loss.upper_if_none_lost is not None:
        return f"none of {number(loss.offered_packets, 0)}: below {scientific(loss.upper_if_none_lost, 1)}"
    if loss.low is None or loss.high is None:
        return share_words(loss.ratio)
    mark = ", of this run" if loss.method == "of this run" else ""
    return f"{share_words(loss.ratio)} ({share_words(loss.low)} to {share_words(loss.high)}{mark})"


def bounds_words(low: float | None, high: float | None) -> str:
    """Bounds of a relative change in percent, with digits enough to tell their side of 0."""
    if low is None or high is None:
        return UNKNOWN
    return " to ".join(number(100 * bound, digits_to_tell(100 * bound)) for bound in (low, high))


def p_words(p: float | None) -> str:
    """A p value with two digits."""
    return UNKNOWN if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def target_words(target_bps: int | None) -> str:
    """Mbit/s, or max."""
    return "max" if target_bps is None else number(target_bps / 1e6, 0)


def size_number(size: int | None, includes_fcs: bool) -> str:
    """The frame size under a heading that has its unit, with its convention where it is not the paper's."""
    return f"{UNKNOWN if size is None else size}{' with FCS' if includes_fcs else ''}"
