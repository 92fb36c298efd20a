"""Every design point with its rate, its loss and its delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.measure.statistics.loss_interval import LossEstimate
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.captions import MEGA
from labconsole.report.delays import NS_PER_US, DelayAt, find_delay
from labconsole.report.formatting import UNKNOWN, format_loss, format_set_ups, format_with_interval
from labconsole.report.material import Material
from labconsole.report.point_columns import design_columns, rate_columns
from labconsole.report.points import PointSummary, RunFacts
from labconsole.report.table_builder import TableColumn, build_table, csv_column, number_column, printed_column


def make(material: Material) -> Table:
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


UNITS = (ReportUnit(name="results", place=160, make=make),)
