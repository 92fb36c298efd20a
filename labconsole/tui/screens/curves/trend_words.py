"""What the trend of a plan says, row by row and line by line. Its words are those of `labconsole trend`."""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.contracts.report import Figure
from labconsole.report.trend_tables import (
    change_words,
    figures,
    last_words,
    level_words,
    margin_note,
    outlier_words,
    results_table,
    shown_value,
    to_object,
)
from labconsole.report.trends import PlanTrends, Trend, TrendStep
from labconsole.report.words import UNKNOWN, percent
from labconsole.text.harmless import tsv_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrend:
    """One design point. ``better``: which way the last change is; None: there is none."""

    trend: Trend
    last: str
    level: str
    change: str
    better: bool | None
    found: str
    figure: Figure | None
    lines: tuple[str, ...]

    def json(self) -> object:
        """As the command says it."""
        return to_object(self.trend)


def shown(read: PlanTrends) -> list[ShownTrend]:
    """Every design point, as the command orders them."""
    return [_shown(each) for each in read.trends]


def rows(read: PlanTrends) -> str:
    """Every result with tabs between the columns, of each kind with a line of names above."""
    lines = [tsv_line(row) for table in results_table(read.trends) for row in (table.columns, *table.rows)]
    return "\n".join(lines) + "\n"


def _shown(trend: Trend) -> ShownTrend:
    mean = trend.results[-1].mean
    return ShownTrend(
        trend=trend,
        last=shown_value(trend, None if mean is None else mean.mean),
        level=level_words(trend),
        change=last_words(trend),
        better=trend.steps[-1].better if trend.steps else None,
        found=UNKNOWN if trend.smallest.middle_ratio is None else percent(trend.smallest.middle_ratio, 2),
        figure=next(figures([trend]), None),
        lines=(*_lines(trend), _occasions(trend)),
    )


def _lines(trend: Trend) -> list[str]:
    if trend.why is not None:
        return [f"No change is looked for: {trend.why}."]
    middle, latest = trend.smallest
    would = [] if middle is None or latest is None else [
        f"In 8 of 10 such series a step of {percent(middle, 2)} in the middle would be found, or a latest occasion "
        f"that alone is off by {percent(latest, 2)}."
    ]  # fmt: skip
    # What begins with the name of an occasion keeps it as it is.
    apart = [f"O{words[1:]}." if words.startswith("outlier") else f"{words}." for words in outlier_words(trend)]
    margin = [words] if (words := margin_note([trend]).strip()) else []
    if not trend.steps:
        return [*apart, " ".join(["No change is found.", *would, *margin])]
    return [*(line for step in trend.steps for line in _step_lines(trend, step)), *apart, " ".join([*would, *margin])]


def _occasions(trend: Trend) -> str:
    """Which the numbers in the picture are."""
    first, last = trend.results[0], trend.results[-1]
    words = [f"{each.occasion} ({each.started_at[:10]})" for each in (first, last)]
    return f"Occasions 1 to {len(trend.results)}: {words[0]} to {words[1]}."


def _step_lines(trend: Trend, step: TrendStep) -> list[str]:
    also = [f"  {each.words}" for each in step.differences]
    since = f"{step.occasion} (occasion {step.first + 1}, {step.started_at[:10]})"
    told = ":" if also else ": nothing that is known"
    return [f"{change_words(trend, step)} since {since}. What else changed then{told}", *also]
