"""Tables as data, and as CSV, Markdown and LaTeX. CSV holds whole numbers; on paper they are rounded, with interval."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.measure.statistics import Summary
from labconsole.model.spreadsheet import harmless_cell
from labconsole.report.evaluation import DEDICATED, Change, Point

Cell = str | int | float | None
UNKNOWN = "–"
LATEX_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "\u2009": r"\,", "−": "$-$",
}  # fmt: skip


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


def with_interval(summary: Summary, scale: float = 1e6, places: int = 1) -> str:
    """``mean ± half width`` of the 95 % interval; the mean alone below three repetitions."""
    mean = number(summary.mean / scale, places)
    if summary.ci_low is None or summary.ci_high is None:
        return mean
    return f"{mean} ± {number((summary.ci_high - summary.ci_low) / 2 / scale, places)}"


def target_words(target_bps: int | None) -> str:
    """Mbit/s, or max."""
    return "max" if target_bps is None else number(target_bps / 1e6, 0)


def size_number(point: Point) -> str:
    """The frame size under a heading that has its unit, with its convention where it is not the paper's."""
    return f"{point.frame_size_bytes}{' with FCS' if point.frame_size_includes_fcs else ''}"


def results(points: Sequence[Point]) -> Table:
    """Every design point with its means, intervals and repetitions."""
    rows, shown = [], []
    for p in points:
        loss = p.loss_ratio
        rows.append(
            (
                p.platform, p.frame_size_bytes, p.frame_size_includes_fcs, p.sources, p.target_bps, p.background, p.n,
                p.offered_bps.mean, p.measured_bps.mean, p.measured_bps.ci_low, p.measured_bps.ci_high,
                p.measured_bps.sd, p.measured_pps.mean, None if loss is None else loss.mean,
                None if loss is None else loss.ci_low, None if loss is None else loss.ci_high,
            )
        )  # fmt: skip
        shown.append(
            (
                p.platform, size_number(p), str(p.sources), target_words(p.target_bps), p.background, str(p.n),
                number(p.offered_bps.mean / 1e6), with_interval(p.measured_bps),
                UNKNOWN if loss is None else with_interval(loss, 0.01, 3),
            )
        )  # fmt: skip
    return Table(
        name="results",
        title="Every design point",
        columns=(
            "platform", "frame_size_bytes", "frame_size_includes_fcs", "sources", "target_bps", "background", "n",
            "offered_mean_bps", "measured_mean_bps", "measured_ci_low_bps", "measured_ci_high_bps", "measured_sd_bps",
            "measured_mean_pps", "loss_mean_ratio", "loss_ci_low_ratio", "loss_ci_high_ratio",
        ),
        rows=tuple(rows),
        headings=(
            "platform", "size, B", "sources", "target, Mbit/s", "background", "n", "offered, Mbit/s",
            "measured, Mbit/s", "loss, %",
        ),
        shown=tuple(shown),
        note="Bandwidth on the wire, summed over the streams; the target is per source; ± half the 95 % interval.",
    )  # fmt: skip


def detectable_words(change: Change) -> str:
    """Whether a change shows, or why nobody can tell."""
    if change.detectable is None:
        few = change.ratio.absent == "too few values"
        return "too few repetitions" if few else "no telling: the baseline may be zero"
    return "yes" if change.detectable else "no detectable difference"


def relative_changes(found: Sequence[Change], *, name: str, title: str) -> Table:
    """Table 1 (and figure 5 in numbers): change of the maximum under a background, with its interval."""
    rows, shown = [], []
    for change in found:
        s, b, r = change.subject, change.baseline, change.ratio
        verdict = detectable_words(change)
        rows.append(
            (
                s.frame_size_bytes, s.frame_size_includes_fcs, s.platform, s.sources, s.background, b.background,
                s.measured_bps.mean, b.measured_bps.mean, change.value - 1, None if r.ci_low is None else r.ci_low - 1,
                None if r.ci_high is None else r.ci_high - 1, s.n, b.n, change.loads, verdict,
            )
        )  # fmt: skip
        interval = UNKNOWN
        if r.ci_low is not None and r.ci_high is not None:
            interval = f"{number((r.ci_low - 1) * 100)} to {number((r.ci_high - 1) * 100)}"
        shown.append(
            (
                size_number(s), s.platform, str(s.sources), s.background, b.background,
                number((change.value - 1) * 100), interval, f"{s.n}/{b.n}", str(change.loads), verdict,
            )
        )  # fmt: skip
    return Table(
        name=name,
        title=title,
        columns=(
            "frame_size_bytes", "frame_size_includes_fcs", "platform", "sources", "background", "baseline",
            "maximum_bps", "baseline_maximum_bps", "change_ratio", "change_ci_low_ratio", "change_ci_high_ratio", "n",
            "baseline_n", "loads", "detectable",
        ),
        rows=tuple(rows),
        headings=(
            "size, B", "platform", "sources", "background", "against", "change, %", "95 % interval, %", "n",
            "loads", "detectable",
        ),
        shown=tuple(shown),
        note=(
            "Change of the maximum, against that of the same platform beside the background in the column against "
            f"({DEDICATED}: no second guest); positive is more throughput. Both maxima are over the loads at which "
            "both were measured, whose number stands in the column loads. The interval is Fieller's; n: repetitions "
            "at the maximum and at the maximum compared with."
        ),
    )  # fmt: skip
