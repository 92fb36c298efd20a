"""Every design point with its rate, loss and delay, its runs, and the curves of throughput over load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from labconsole.contracts.report import Cell, Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.statistics.bounded_means import LossEstimate
from labconsole.measure.statistics.set_ups import SetUpMean, set_up_means
from labconsole.report.captions import MEGA, build_caption, build_mark, collect_platforms, collect_sizes
from labconsole.report.formatting import (
    UNKNOWN,
    format_frame_size,
    format_loss,
    format_noun_count,
    format_set_ups,
    format_with_interval,
)
from labconsole.report.material import Material
from labconsole.report.point_columns import design_columns, rate_columns
from labconsole.report.points import DEDICATED, NS_PER_US, DelayAt, PointSummary, RunFacts, find_delay
from labconsole.report.sample import RunCoverage
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column, printed_column

# -- results -----------------------------------------------------------------------------------------------------------
# Every design point with its rate, its loss and its delay.


def build_results_table(material: Material) -> Table:
    """Build the table of all included runs."""
    return results(material.evaluation.points, material.digest.facts)


class ResultRow(NamedTuple):
    """A design point with its delay, if its trials report one."""

    point: PointSummary
    delay: DelayAt | None


def results(points: Sequence[PointSummary], facts: Mapping[str, RunFacts]) -> Table:
    """Build the table of these points with means, intervals and set-ups."""
    rows = [ResultRow(point, find_delay(point, facts)) for point in points]
    with_delay = any(row.delay is not None for row in rows)
    columns: list[TableColumn[ResultRow]] = [
        design_columns(lambda row: row.point),
        csv_column("method", lambda row: row.point.design.conditions.method),
        csv_column("set_ups", lambda row: row.point.set_ups),
        csv_column("trials", lambda row: row.point.n),
        printed_column("set-ups × trials", lambda row: format_set_ups(row.point.rate_bps)),
        csv_column("interval_of", lambda row: row.point.rate_bps.scope),
        number_column("offered_mean_bps", "offered, Mbit/s", lambda row: row.point.offered_bps.mean, unit=MEGA),
        rate_columns("forwarding", "forwarded, Mbit/s", lambda row: row.point.rate_bps),
        csv_column("forwarding_sd_bps", lambda row: row.point.rate_bps.sd),
        csv_column("forwarding_mean_pps", lambda row: row.point.rate_pps.mean),
        csv_column("loss_of", lambda row: row.point.loss_of),
        csv_column("loss_trials", lambda row: row.point.loss_trials),
        _loss_column("lost_packets", lambda loss: loss.lost_packets),
        _loss_column("offered_packets", lambda loss: loss.offered_packets),
        _loss_column("loss_ratio", lambda loss: loss.ratio),
        _loss_column("loss_ci_low_ratio", lambda loss: loss.low),
        _loss_column("loss_ci_high_ratio", lambda loss: loss.high),
        _loss_column("loss_below_ratio", lambda loss: loss.upper_if_none_lost),
        _loss_column("lossy_trials_below_ratio", lambda loss: loss.upper_share_of_lossy_trials),
        printed_column("loss", lambda row: _format_loss(row.point)),
        _delay_column("delay_kind", lambda delay: delay.kind),
        _delay_column("delay_p50_ns", lambda delay: delay.p50_ns.mean),
        _delay_column("delay_p99_ns", lambda delay: delay.p99_ns.mean),
        _delay_column("delay_p99_ci_low_ns", lambda delay: delay.p99_ns.ci_low),
        _delay_column("delay_p99_ci_high_ns", lambda delay: delay.p99_ns.ci_high),
    ]
    if with_delay:
        columns += [
            printed_column("p50, µs", lambda row: _format_delay(row.delay.p50_ns if row.delay else None)),
            printed_column("p99, µs", lambda row: _format_delay(row.delay.p99_ns if row.delay else None)),
        ]
    return build_table("results", "Every design point", columns, rows, _note(points, [row.delay for row in rows]))


def _loss_column(name: str, value: Callable[[LossEstimate], Cell]) -> TableColumn[ResultRow]:
    """A value of the loss, if it is known."""
    return csv_column(name, lambda row: None if row.point.loss is None else value(row.point.loss))


def _delay_column(name: str, value: Callable[[DelayAt], Cell]) -> TableColumn[ResultRow]:
    """A value of the delay, if there is one."""
    return csv_column(name, lambda row: None if row.delay is None else value(row.delay))


def _format_loss(p: PointSummary) -> str:
    """Format the loss, with the number of its trials unless these are all."""
    rests = f"; {p.loss_trials} of {p.n} trials" if 0 < p.loss_trials < p.n else ""
    return f"{format_loss(p.loss)}{rests}"


def _format_delay(quantile: SetUpMean | None) -> str:
    return UNKNOWN if quantile is None else format_with_interval(quantile, NS_PER_US)


def _note(points: Sequence[PointSummary], delays: Sequence[DelayAt | None]) -> str:
    sentences = ["Bandwidth on the wire, summed over the streams; the target is per source; ± half the 95 % interval."]
    if any(p.rate_bps.scope == "this set-up only" for p in points):
        sentences.append("One set-up: its interval is about this set-up only, another may lie elsewhere.")
    if any(p.rate_bps.scope == "set-ups" for p in points):
        sentences.append("From three set-ups on the interval is that of their means.")
    if any(p.loss_of == "all" for p in points):
        sentences.append(
            "Method 1: rates are over the sending time, and hold what a queue gave on afterwards; loss is everything "
            "offered and not measured, on whatever side."
        )
    if any(p.loss_of == "uut" for p in points):
        sentences.append("Loss is the unit under test's, of what was offered on the wire.")
    sentences += _unknown_losses(points)
    of_trials = sorted(
        {
            (p.loss_trials, p.loss.upper_share_of_lossy_trials)
            for p in points
            if p.loss is not None and p.loss.upper_share_of_lossy_trials is not None
        }
    )
    if of_trials:
        shares = ", ".join(f"{100 * share:.0f} % after {n}" for n, share in of_trials if share is not None)
        sentences.append(f"Where no trial lost anything, that share of trials may still lose something: {shares}.")
    kinds = {delay.kind for delay in delays if delay is not None}
    if kinds:
        names = " and ".join(sorted(kinds))
        sentences.append(f"Delay ({names}) is that of packets that arrived, and says nothing of those that were lost.")
    return " ".join(sentences)


def _unknown_losses(points: Sequence[PointSummary]) -> Iterator[str]:
    """Describe why a loss is unknown, and how many trials are missing from the known ones."""
    if any(p.loss_trials == 0 for p in points):
        yield (
            "A point's loss is unknown where in one of its trials more came out of the unit under test than went in, "
            "beyond a few frames of its own, or where no trial's counters were read."
        )
    left_out = sum(p.n - p.loss_trials for p in points if p.loss_trials)
    if left_out:
        yield f"Left out of the loss, since a counter was not read: {left_out} of {sum(p.n for p in points)} trials."


# -- runs by point -----------------------------------------------------------------------------------------------------
# Planned, stored and included runs.


def build_runs_table(material: Material) -> Table:
    """Build the table point by point."""
    columns: list[TableColumn[RunCoverage]] = [
        column("plan", "plan", lambda each: each.plan),
        csv_column("plan_hash", lambda each: each.plan_hash),
        csv_column("testbed_fingerprint", lambda each: each.fingerprint),
        column("point", "point", lambda each: each.point),
        design_columns(lambda each: each),
        column("planned", "planned", lambda each: each.planned),
        column("taken", "taken", lambda each: each.taken),
        column("retaken", "retaken", lambda each: each.retaken),
        column("entered", "entered", lambda each: each.entered),
        column("missing", "missing", lambda each: each.missing),
    ]
    bare = any(each.planned is None for each in material.coverage)
    return build_table(
        "runs-by-point",
        "Planned, taken and entered, point by point",
        columns,
        material.coverage,
        "Planned: set-ups times repetitions, as the plan's file says, else its newest record. Taken: stored "
        "trials; retaken: those beyond one a place (an invalid one taken again, a set-up that broke off taken "
        "again). Points of a plan without any run are listed where the plan's file was given (--plan FILE)."
        + (" Records of format 1 do not say what was planned." if bare else ""),
    )


# -- throughput over load ----------------------------------------------------------------------------------------------
# Forwarded over offered bandwidth: a panel per frame size, a curve per platform. Rates are in Mbit/s as in the
# papers.


def build_one_source_figure(material: Material) -> Figure | None:
    """Build the figure from trials with one source and no second guest."""
    return _figure(material.evaluation.points, 1, "figure-3", _throttled(material))


def build_multi_source_figures(material: Material) -> list[Figure]:
    """Build the same figure for every other number of sources that was measured."""
    points, throttled = material.evaluation.points, _throttled(material)
    numbers = sorted({point.sources for point in points if point.background == DEDICATED} - {1})
    figures = [_figure(points, sources, f"figure-3-{sources}-sources", throttled) for sources in numbers]
    return [figure for figure in figures if figure is not None]


def _throttled(material: Material) -> set[str]:
    """Return runs whose sources were throttled by pause frames."""
    return {each.run_id for each in material.digest.throttled}


def _figure(points: Sequence[PointSummary], sources: int, name: str, throttled: Collection[str]) -> Figure | None:
    chosen = [p for p in points if p.sources == sources and p.background == DEDICATED]
    panels = []
    for size in collect_sizes(chosen):
        here = [p for p in chosen if p.frame == size]
        curves = []
        for platform in collect_platforms(chosen):
            own = sorted((p for p in here if p.platform == platform), key=lambda p: p.offered_bps.mean)
            if own:
                curves.append(PlottedCurve(platform, tuple(_mark(p, throttled) for p in own)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Forwarding rate over offered bandwidth, {format_noun_count(sources, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption(
            f"Mean {_describe_rate(chosen)} over mean offered bandwidth{_describe_throttling(panels)}", panels
        ),
    )


def _mark(point: PointSummary, throttled: Collection[str]) -> Mark:
    mark = build_mark(point.offered_bps.mean / MEGA, point.rate_bps, _dots(point))
    return replace(mark, word=THROTTLED) if any(each in throttled for each in point.run_ids) else mark


def _describe_throttling(panels: Sequence[Panel]) -> str:
    marked = any(mark.word for panel in panels for curve in panel.curves for mark in curve.marks)
    return f"; {THROTTLED}: pause frames throttled a source in some of its trials" if marked else ""


def _dots(point: PointSummary) -> list[float]:
    return list(set_up_means(point.values_bps).values())


def _describe_rate(points: Sequence[PointSummary]) -> str:
    methods = {p.design.conditions.method for p in points}
    if methods <= {1, None}:
        return "measured throughput (method 1: over the sending time)"
    return "forwarding rate" + (" (method 1: measured over the sending time)" if methods & {1, None} else "")


THROTTLED = "throttled"
PAPER = ("schlosser", "figure 3")


UNITS = (
    ReportUnit(name="results", place=160, make=build_results_table),
    ReportUnit(name="runs-by-point", place=140, make=build_runs_table),
    ReportUnit(name="figure-3", place=10, paper=PAPER, make=build_one_source_figure),
    ReportUnit(name="figure-3-by-sources", place=11, paper=PAPER, make=build_multi_source_figures),
)
