"""The spread of results: between set-ups and within them, over the load; and outlying trials, set-ups and plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from labconsole.contracts.report import Figure, Finding, Findings, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.groups import rate_of
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.components import Components
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS
from labconsole.measure.statistics.repetitions import order_effect, outliers
from labconsole.measure.statistics.set_ups import mean_of, set_up_means
from labconsole.report.captions import MEGA, collect_platforms, collect_sizes
from labconsole.report.digest import Digest
from labconsole.report.formatting import (
    format_frame_size,
    format_noun_count,
    format_number,
    format_percent,
    format_point_setting,
    format_target_number,
    format_with_interval,
)
from labconsole.report.material import Material
from labconsole.report.points import DEDICATED, PointSummary
from labconsole.report.table_builder import TableColumn, build_table, column

# -- spread ------------------------------------------------------------------------------------------------------------
# Variance between set-ups and within them, by platform, as relative deviations.


class SpreadRow(NamedTuple):
    """The components of the spread of a platform's points."""

    platform: str
    parts: Components


def build_spread_table(material: Material) -> Table:
    """Build the table by platform, pooled over its points."""
    columns: list[TableColumn[SpreadRow]] = [
        column("platform", "platform", lambda row: row.platform),
        column("points", "points", lambda row: row.parts.points),
        column("set_ups", "set-ups", lambda row: row.parts.set_ups),
        column(
            "repetitions", "repetitions", lambda row: row.parts.repetitions, lambda row: f"{row.parts.repetitions:.3g}"
        ),
        _variance_column("variance_within", "within, %", lambda row: row.parts.variance_within),
        _variance_column("variance_of_set_up_means", "of set-up means, %", lambda row: row.parts.variance_of_means),
        _variance_column("variance_between", "between, %", lambda row: row.parts.variance_between),
    ]
    return build_table(
        "spread",
        "Where the spread comes from: between set-ups, and within them",
        columns,
        [SpreadRow(*each) for each in material.evaluation.spread.items()],
        "Standard deviations relative to the mean, pooled over a platform's points with three set-ups of two "
        "repetitions; between: what set-ups add to what their trials explain, with a minus where they lie closer "
        "than trials make likely (Kalibera and Jones 2013). `labconsole plan advise` reckons set-ups and "
        "repetitions from it.",
    )


def _variance_column(name: str, heading: str, variance: Callable[[SpreadRow], float]) -> TableColumn[SpreadRow]:
    """A variance, printed as a deviation in percent with the sign of the variance."""

    def show(row: SpreadRow) -> str:
        found = variance(row)
        return format_number(100 * math.copysign(math.sqrt(abs(found)), found), 2)

    return column(name, heading, variance, show)


# -- spread by load ----------------------------------------------------------------------------------------------------
# The spread of the trials of one point: every repetition a dot, over the offered load.

PERCENT = 100.0


def build_spread_figures(material: Material) -> list[Figure]:
    """Build a figure per number of sources, from points without a second guest that have two trials or more."""
    points = [p for p in material.evaluation.points if p.background == DEDICATED and p.n > 1 and p.rate_bps.mean > 0]
    figures = []
    for sources in sorted({p.sources for p in points}):
        chosen = [p for p in points if p.sources == sources]
        panels = []
        for size in collect_sizes(chosen):
            here = [p for p in chosen if p.frame == size]
            curves = tuple(
                PlottedCurve(
                    platform,
                    tuple(_mark(p) for p in sorted(here, key=lambda p: p.offered_bps.mean) if p.platform == platform),
                )
                for platform in collect_platforms(chosen)
                if any(p.platform == platform for p in here)
            )
            panels.append(Panel(format_frame_size(size), curves))
        figures.append(_figure(sources, tuple(panels), chosen))
    return figures


def _mark(point: PointSummary) -> Mark:
    """Return a mark at 0, the mean of its trials; the trials are the dots."""
    values = point.trial_values_bps
    mean = sum(values) / len(values)
    dots = tuple(PERCENT * (value / mean - 1) for value in values)
    low, high = min(0.0, *dots), max(0.0, *dots)  # rounding separates trials that are all alike from their own mean
    return Mark(point.offered_bps.mean / MEGA, 0.0, low, high, point.n, point.set_ups, dots)


def _figure(sources: int, panels: tuple[Panel, ...], points: list[PointSummary]) -> Figure:
    trials = sum(point.n for point in points)
    return Figure(
        name=f"spread-{sources}-source{'s' if sources > 1 else ''}",
        title=f"How far trials of one point lie apart, {format_noun_count(sources, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="a trial's rate from its point's mean, %",
        panels=panels,
        caption=f"Every dot is one trial, {trials} in all, of {format_noun_count(len(points), 'point')} "
        "with two trials or more; 0 is the mean of its point's trials, and bars are from the least to the most. "
        "Trials of all set-ups are shown together: the table on spread tells between set-ups and within them.",
        ideal=False,
        from_zero=False,
        joined=False,
    )


# -- outliers ----------------------------------------------------------------------------------------------------------
# Runs far from the other trials of their point.


def find_outliers(material: Material) -> Findings:
    """Return the findings. The runs stay in the mean of their point."""
    found = tuple(_describe_outliers(material.evaluation.points))
    return Findings(kind="outlier", heading="Runs far from their repetitions", found=found)


def _describe_outliers(points: Iterable[PointSummary]) -> Iterator[Finding]:
    for p in points:
        values = p.trial_values_bps
        places = outliers(values)
        if places:
            apart = ", ".join(format_number(values[place] / 1e6) for place in places)
            yield Finding(
                sentence=(
                    f"{format_point_setting(p)}, target {format_target_number(p.target_bps, p.frame)}: "
                    f"{apart} Mbit/s forwarded in {len(places)} of {p.n} runs, far from the others "
                    f"({format_with_interval(p.rate_bps)} with all; Rosner's test, 5 %)."
                ),
                run_ids=tuple(p.run_ids[place] for place in places),
            )


# -- wide spread -------------------------------------------------------------------------------------------------------
# Points whose set-ups differ far more than those of the platform's other points.

SPREAD_FACTOR = 5.0
"""The limit for a point's relative deviation, as a multiple of the median over the platform's points."""

MIN_SPREAD_RATIO = 0.02


def find_wide_spreads(material: Material) -> Findings:
    """Return the findings. With one set-up, a point's trials are compared with those of the other points."""
    found = tuple(_describe_wide_spreads(material.evaluation.points))
    return Findings(kind="wide_spread", heading="Set-ups that differ more than usual", found=found)


def _describe_wide_spreads(points: Iterable[PointSummary]) -> Iterator[Finding]:
    spreads: dict[str, list[tuple[float, PointSummary]]] = {}
    for p in points:
        if p.rate_bps.sd is not None and p.n >= 3 and p.rate_bps.mean > 0:
            spreads.setdefault(p.platform, []).append((p.rate_bps.sd / p.rate_bps.mean, p))
    for values in spreads.values():
        usual = sorted(value for value, _ in values)[len(values) // 2]
        for value, p in values:
            if value > MIN_SPREAD_RATIO and value > SPREAD_FACTOR * usual:
                which = "set-ups" if p.set_ups > 1 else "repetitions"
                yield Finding(
                    sentence=(
                        f"{format_point_setting(p)}, target {format_target_number(p.target_bps, p.frame)}: "
                        f"the {which} differ by {format_percent(value)} of their mean (standard deviation), "
                        f"where {format_percent(usual)} is usual on this platform."
                    ),
                    run_ids=p.run_ids,
                )


# -- order effect ------------------------------------------------------------------------------------------------------
# Plans whose results depend on their position in the schedule.

ORDER_LEVEL = 0.99
"""The level of the interval by which the report shows a change of a plan's rates over its blocks."""


def find_order_effects(material: Material) -> Findings:
    """Return the findings on each plan on one testbed."""
    found = tuple(order_effects(material.kept.entered, material.digest))
    return Findings(kind="order_effect", heading="Rates that change over the course of a plan", found=found)


def order_effects(entered: Sequence[RunRow], digest: Digest) -> Iterator[Finding]:
    """Find plans whose results depend on their position in the schedule, on one testbed.

    In blocks, the means of the blocks are tested, because trials resemble each other within a set-up and over time.
    Without blocks there is only a slope, and no test for it: it is reported if independent trials would rarely show it.
    """
    groups: dict[tuple[str, str], list[RunRow]] = {}
    for run in sorted(entered, key=lambda run: (run.started_at, run.run_id)):
        if run.plan_hash is not None and run.plan_point is not None:
            groups.setdefault((run.plan_hash, run.testbed_fingerprint), []).append(run)
    for key in sorted(groups):
        taken = groups[key]
        in_blocks = [run for run in taken if run.block and run.set_up is not None]
        description = _describe_block_effect(in_blocks) if in_blocks else _describe_trial_effect(taken)
        if description is not None:
            facts = digest.planned.get(key)
            yield Finding(
                sentence=f"Plan {key[0] if facts is None else facts.name}: {description}",
                run_ids=tuple(run.run_id for run in in_blocks or taken),
            )


def _describe_block_effect(taken: Sequence[RunRow]) -> str | None:
    """Describe the change from the first block to the last if its 99 % interval excludes zero, else return None."""
    points: dict[int, dict[int, list[float]]] = {}
    for run in taken:
        rate = rate_of(run)
        if rate is not None and run.block and run.plan_point is not None:
            points.setdefault(run.plan_point, {}).setdefault(run.block, []).append(rate[1])
    relative: dict[int, list[float]] = {}
    for values in points.values():
        means = set_up_means(values)
        usual = mean_of(list(means.values()))
        for block, mean in means.items():
            if usual > 0 and len(means) > 1:
                relative.setdefault(block, []).append(mean / usual)
    if len(relative) < MINIMUM_BLOCKS:
        return None
    blocks = sorted(relative)
    found = order_effect(blocks, [mean_of(relative[block]) for block in blocks], level=ORDER_LEVEL)
    if not found.detectable:
        return None
    slopes = (found.slope_per_position, found.ci_low, found.ci_high)
    change, low, high = ((slope or 0.0) * (blocks[-1] - blocks[0]) for slope in slopes)
    return (
        f"measured rates change by {_signed(change)} from the first block to the last (99 % interval {_signed(low)} to "
        f"{_signed(high)}, Student's t over {len(blocks)} blocks), each point against its own mean. Pairing by block "
        f"removes what a whole block has in common."
    )


def _describe_trial_effect(taken: Sequence[RunRow]) -> str | None:
    """Describe the slope if its 95 % interval, as if trials were independent, excludes zero, else return None."""
    values = [(rate_of(run) or (0.0, 0.0))[1] for run in taken]
    found = order_effect(range(1, len(values) + 1), values, [run.plan_point or 0 for run in taken], relative=True)
    if not found.detectable or found.change is None:
        return None
    return (
        f"measured rates change by {_signed(found.change)} from the first run to the last, each point against its own "
        "mean: a slope over the order of trials. Only one in 20 plans of independent trials without a trend shows "
        "such a slope, but up to two in three do if neighbouring trials are alike: a reason to look closer, not a test."
    )


def _signed(ratio: float) -> str:
    return f"{'+' if ratio >= 0 else ''}{format_percent(ratio, 2)}"


UNITS = (
    ReportUnit(name="spread", place=150, make=build_spread_table),
    ReportUnit(name="spread-by-load", place=151, make=build_spread_figures),
    ReportUnit(name="outlier", place=90, make=find_outliers),
    ReportUnit(name="wide_spread", place=80, make=find_wide_spreads),
    ReportUnit(name="order_effect", place=100, make=find_order_effects),
)
