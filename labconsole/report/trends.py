"""Results of one design point over its occasions, where they change, and what else changed then. Pure.

An occasion is one measurement of a plan on a testbed. Its result at a design point is the mean of its set-ups: so what
differs between occasions, such as the boot of the machine, is in the spread that a change has to stand out from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, Table
from labconsole.measure.comparison import Pair
from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.measure.trend import MINIMUM_RESULTS, Level, levels, smallest_step_ratio
from labconsole.report.changes import DesignKey, Side, design_key, differences
from labconsole.report.compared_effect import LOSS_UNKNOWN
from labconsole.report.points import PointSummary
from labconsole.report.words import UNKNOWN, asked_words, number, percent

ALL_CARRIED: Final = "all that was offered was forwarded each time: the rate is the sender's"
SOME_CARRIED: Final = "on some occasions all that was offered was forwarded: their rates are the sender's"
NOTHING_FORWARDED: Final = "nothing was forwarded on one occasion at least"
TOO_FEW: Final = f"fewer than {MINIMUM_RESULTS} occasions"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendStep:
    """A change between two neighbouring occasions. ``occasion``: the first after it; ``change_ratio``: of levels."""

    occasion: str
    started_at: str
    change_ratio: float
    differences: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One design point. ``occasions`` with their ``points``, by when they began; ``steps`` where it changes.

    ``why``: no change is looked for. ``smallest_ratio``: the smallest step that would be found 8 times of 10.
    """

    words: str
    occasions: tuple[str, ...]
    points: tuple[PointSummary, ...]
    levels: tuple[Level, ...]
    steps: tuple[TrendStep, ...]
    smallest_ratio: float | None
    why: str | None


def find_trends(sides: Sequence[Side]) -> list[Trend]:
    """``sides``: one for each occasion, with the runs of that occasion alone."""
    ordered = sorted(sides, key=_began)
    places = _testbeds(ordered)
    series: dict[tuple[DesignKey, str], list[tuple[Side, PointSummary]]] = {}
    for side in ordered:
        for point in side.points:
            series.setdefault((design_key(point), places[id(side)]), []).append((side, point))
    testbeds = {testbed for _, testbed in series}
    return [_trend(held, f" on {testbed}" if len(testbeds) > 1 else "") for (_, testbed), held in series.items()]


def _testbeds(ordered: Sequence[Side]) -> dict[int, str]:
    """The testbed of each side, by its name; by name and fingerprint where two of one name were used by turns."""
    told = {id(side): (side.kept.entered[0].testbed, side.kept.entered[0].testbed_fingerprint) for side in ordered}
    found = {}
    for side in ordered:
        name, fingerprint = told[id(side)]
        own = [each[1] for each in told.values() if each[0] == name]
        changes = sum(before != after for before, after in pairwise(own))
        found[id(side)] = name if changes < len(set(own)) else f"{name} ({fingerprint})"
    return found


def _began(side: Side) -> str:
    return min((run.started_at for run in side.kept.entered), default="")


def _trend(held: Sequence[tuple[Side, PointSummary]], where: str) -> Trend:
    points = tuple(point for _, point in held)
    carried = [each.missing_ratio is not None and each.missing_ratio < REACHED_LOSS_RATIO for each in points]
    values = [point.rate_bps.mean for point in points]
    why = (
        ALL_CARRIED if all(carried)
        else SOME_CARRIED if any(carried)
        else TOO_FEW if len(points) < MINIMUM_RESULTS
        else LOSS_UNKNOWN if None in [point.missing_ratio for point in points]
        else NOTHING_FORWARDED if not min(values) > 0
        else None
    )  # fmt: skip
    cut = levels(values if why is None else ())
    steps = tuple(
        TrendStep(
            occasion=held[after.first][0].words,
            started_at=_began(held[after.first][0]),
            change_ratio=after.mean / before.mean - 1,
            differences=tuple(differences(held[before.last][0], held[after.first][0])),
        )
        for before, after in pairwise(cut)
    )
    return Trend(
        words=asked_words(points[0].design) + where, occasions=tuple(side.words for side, _ in held), points=points,
        levels=tuple(cut), steps=steps, smallest_ratio=smallest_step_ratio(cut), why=why,
    )  # fmt: skip


def trends_table(trends: Sequence[Trend]) -> Table:
    """A row for each design point."""
    rows = [
        (
            each.words, len(each.points), each.occasions[-1], each.points[-1].rate_bps.mean,
            each.levels[-1].mean if each.levels else None, each.levels[-1].sd if each.levels else None,
            len(each.steps), each.steps[-1].occasion if each.steps else None,
            each.steps[-1].change_ratio if each.steps else None, each.smallest_ratio, each.why,
        )
        for each in trends
    ]  # fmt: skip
    shown = [
        (
            each.words, str(len(each.points)), number(each.points[-1].rate_bps.mean / 1e6), _level_words(each),
            _last_words(each), UNKNOWN if each.smallest_ratio is None else percent(each.smallest_ratio, 2),
        )
        for each in trends
    ]  # fmt: skip
    return Table(
        name="trends",
        title="Forwarding rate over occasions",
        columns=(
            "point", "occasions", "last_occasion", "last_bps", "level_bps", "level_sd_bps", "changes", "changed_at",
            "change_ratio", "smallest_step_ratio", "why",
        ),
        rows=tuple(rows),
        headings=("design point", "occasions", "last, Mbit/s", "level, Mbit/s", "last change", "would have found"),
        shown=tuple(shown),
        note="Level: mean and standard deviation of the occasions since the last change, found by minimum description "
        "length (jumpavg). Would have found: the step in the middle of the series found in 8 of 10 such series.",
    )  # fmt: skip


def steps_table(trends: Sequence[Trend]) -> Table | None:
    """A row for each change, with what else changed then; None: nothing changed."""
    rows, shown = [], []
    for trend in trends:
        for step in trend.steps:
            told = "; ".join(f"{each.label} {each.left} → {each.right}" for each in step.differences)
            rows.append((trend.words, step.occasion, step.started_at, step.change_ratio, told))
            sign = "+" if step.change_ratio > 0 else ""
            shown.append(
                (trend.words, step.occasion, step.started_at[:10], f"{sign}{percent(step.change_ratio, 2)}",
                 told or "nothing that is known")
            )  # fmt: skip
    if not rows:
        return None
    return Table(
        name="changes",
        title="Changes",
        columns=("point", "occasion", "started_at", "change_ratio", "also_changed"),
        rows=tuple(rows),
        headings=("design point", "since", "date", "change", "what else changed then"),
        shown=tuple(shown),
    )


def trends_figure(trends: Sequence[Trend]) -> Figure | None:
    """A panel for each design point: the results, and the level of each; None where no point has two results."""
    panels = tuple(
        Panel(each.words, (_results(each), *_levels(each)))
        for each in trends if len(each.points) > 1 and _first_level(each) > 0
    )  # fmt: skip
    if not panels:
        return None
    return Figure(
        name="trend", title="Forwarding rate over occasions", kind="curves", x_label="occasion",
        y_label="change from the first level, %", panels=panels, ideal=False, from_zero=False,
        caption="Occasions are numbered in the order of their beginning. Bars: 95 % interval over the set-ups of an "
        "occasion. Levels: between two changes, by minimum description length.",
    )  # fmt: skip


def _first_level(trend: Trend) -> float:
    return trend.levels[0].mean if trend.levels else trend.points[0].rate_bps.mean


def _results(trend: Trend) -> PlottedCurve:
    marks = []
    first = _first_level(trend)
    for place, point in enumerate(trend.points, 1):
        rate = point.rate_bps
        low, high = (None if bound is None else 100 * (bound / first - 1) for bound in (rate.ci_low, rate.ci_high))
        marks.append(Mark(float(place), 100 * (rate.mean / first - 1), low, high, rate.trials, rate.set_ups))
    return PlottedCurve("result", tuple(marks))


def _levels(trend: Trend) -> list[PlottedCurve]:
    first = _first_level(trend)
    marks = [
        Mark(float(place + 1), 100 * (each.mean / first - 1), None, None, each.last - each.first + 1)
        for each in trend.levels for place in (each.first, each.last)
    ]  # fmt: skip
    return [PlottedCurve("level", tuple(marks))] if marks else []


def _level_words(trend: Trend) -> str:
    if not trend.levels:
        return UNKNOWN
    last = trend.levels[-1]
    spread = "" if last.sd is None else f" ± {number(last.sd / 1e6, 2)}"
    return f"{number(last.mean / 1e6)}{spread}"


def _last_words(trend: Trend) -> str:
    if trend.why is not None:
        return trend.why
    if not trend.steps:
        return "none"
    step = trend.steps[-1]
    return f"{'+' if step.change_ratio > 0 else ''}{percent(step.change_ratio, 2)} since {step.occasion}"
