"""The trend of a plan as text, row by row and line by line, in the wording of `labconsole trend`."""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.comparison.trend_tables import (
    build_figures,
    build_json_object,
    build_results_tables,
    describe_last_change,
    describe_outliers,
    format_level,
    format_margin_note,
    format_step,
    format_value,
)
from labconsole.comparison.trends import PlanTrends, Trend, TrendStep
from labconsole.contracts.report import Figure
from labconsole.report.formatting import UNKNOWN, format_percent
from labconsole.text.sanitize import format_tsv_line


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRow:
    """One design point. ``better``: direction of the last change, or None if there is none."""

    trend: Trend
    last: str
    level: str
    change: str
    better: bool | None
    found: str
    figure: Figure | None
    lines: tuple[str, ...]

    def json(self) -> object:
        """The row as in the command's JSON."""
        return build_json_object(self.trend)


def build_trend_rows(read: PlanTrends) -> list[TrendRow]:
    """Build a row for every design point, in the command's order."""
    return [_build_trend_row(each) for each in read.trends]


def format_results(read: PlanTrends) -> str:
    """Format every result with tabs between the columns, each kind with a line of names above."""
    lines = [
        format_tsv_line(row) for table in build_results_tables(read.trends) for row in (table.columns, *table.rows)
    ]
    return "\n".join(lines) + "\n"


def _build_trend_row(trend: Trend) -> TrendRow:
    mean = trend.results[-1].mean
    return TrendRow(
        trend=trend,
        last=format_value(trend, None if mean is None else mean.mean),
        level=format_level(trend),
        change=describe_last_change(trend),
        better=trend.steps[-1].better if trend.steps else None,
        found=UNKNOWN if trend.smallest.middle_ratio is None else format_percent(trend.smallest.middle_ratio, 2),
        figure=next(build_figures([trend]), None),
        lines=(*_lines(trend), _occasions(trend)),
    )


def _lines(trend: Trend) -> list[str]:
    if trend.why is not None:
        return [f"Changes are not searched for: {trend.why}."]
    middle, latest = trend.smallest
    would = (
        []
        if middle is None or latest is None
        else [
            f"In 8 of 10 such series a step of {format_percent(middle, 2)} in the middle would be found, "
            f"or a latest occasion that alone is off by {format_percent(latest, 2)}."
        ]
    )
    # A sentence that begins with the name of an occasion is not capitalised.
    apart = [f"O{text[1:]}." if text.startswith("outlier") else f"{text}." for text in describe_outliers(trend)]
    margin = [text] if (text := format_margin_note([trend]).strip()) else []
    if not trend.steps:
        return [*apart, " ".join(["No change is found.", *would, *margin])]
    return [*(line for step in trend.steps for line in _step_lines(trend, step)), *apart, " ".join([*would, *margin])]


def _occasions(trend: Trend) -> str:
    """Name the occasions that the numbers in the picture refer to."""
    first, last = trend.results[0], trend.results[-1]
    names = [f"{each.occasion} ({each.started_at[:10]})" for each in (first, last)]
    return f"Occasions 1 to {len(trend.results)}: {names[0]} to {names[1]}."


def _step_lines(trend: Trend, step: TrendStep) -> list[str]:
    also = [f"  {each.words}" for each in step.differences]
    since = f"{step.occasion} (occasion {step.first + 1}, {step.started_at[:10]})"
    ending = ":" if also else ": nothing that is known"
    return [f"{format_step(trend, step)} since {since}. What else changed then{ending}", *also]
