"""Every design point with its rate, its loss and its delay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.report.delays import NS_PER_US, DelayAt, find_delay
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_loss,
    format_number,
    format_set_ups,
    format_size_number,
    format_target_number,
    format_with_interval,
    size_cells,
    target_cell,
)
from labconsole.report.material import Material
from labconsole.report.points import PointSummary, RunFacts


def make(material: Material) -> Table:
    """Build the table of all included runs."""
    return results(material.evaluation.points, material.digest.facts)


def results(points: Sequence[PointSummary], facts: Mapping[str, RunFacts]) -> Table:
    """Build the table of these points with means, intervals and set-ups."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    delays = [find_delay(point, facts) for point in points]
    with_delay = any(delay is not None for delay in delays)
    for p, delay in zip(points, delays, strict=True):
        rows.append(
            (
                p.platform,
                *size_cells(p.frame),
                p.sources,
                target_cell(p),
                p.background,
                p.design.conditions.method,
                p.set_ups,
                p.n,
                p.rate_bps.scope,
                p.offered_bps.mean,
                p.rate_bps.mean,
                p.rate_bps.ci_low,
                p.rate_bps.ci_high,
                p.rate_bps.sd,
                p.rate_pps.mean,
                p.loss_of,
                p.loss_trials,
                *_loss_cells(p),
                *(
                    (None,) * 5
                    if delay is None
                    else (delay.kind, delay.p50_ns.mean, delay.p99_ns.mean, delay.p99_ns.ci_low, delay.p99_ns.ci_high)
                ),
            )
        )
        cells = (
            p.platform,
            format_size_number(p.frame),
            str(p.sources),
            format_target_number(p.target_bps, p.frame),
            p.background,
            format_set_ups(p.rate_bps),
            format_number(p.offered_bps.mean / 1e6),
            format_with_interval(p.rate_bps),
            _format_loss(p),
        )
        shown.append((*cells, *_format_delay(delay)) if with_delay else cells)
    return Table(
        name="results",
        title="Every design point",
        columns=(
            "platform",
            *SIZE_COLUMNS,
            "sources",
            "target_bps",
            "background",
            "method",
            "set_ups",
            "trials",
            "interval_of",
            "offered_mean_bps",
            "forwarding_mean_bps",
            "forwarding_ci_low_bps",
            "forwarding_ci_high_bps",
            "forwarding_sd_bps",
            "forwarding_mean_pps",
            "loss_of",
            "loss_trials",
            "lost_packets",
            "offered_packets",
            "loss_ratio",
            "loss_ci_low_ratio",
            "loss_ci_high_ratio",
            "loss_below_ratio",
            "lossy_trials_below_ratio",
            "delay_kind",
            "delay_p50_ns",
            "delay_p99_ns",
            "delay_p99_ci_low_ns",
            "delay_p99_ci_high_ns",
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "size, B",
            "sources",
            "target, Mbit/s",
            "background",
            "set-ups × trials",
            "offered, Mbit/s",
            "forwarded, Mbit/s",
            "loss",
            *(("p50, µs", "p99, µs") if with_delay else ()),
        ),
        shown=tuple(shown),
        note=_note(points, delays),
    )


def _format_loss(p: PointSummary) -> str:
    """Format the loss, with the number of its trials unless these are all."""
    rests = f"; {p.loss_trials} of {p.n} trials" if 0 < p.loss_trials < p.n else ""
    return f"{format_loss(p.loss)}{rests}"


def _loss_cells(p: PointSummary) -> tuple[Cell, ...]:
    loss = p.loss
    if loss is None:
        return (None,) * 7
    return (
        loss.lost_packets,
        loss.offered_packets,
        loss.ratio,
        loss.low,
        loss.high,
        loss.upper_if_none_lost,
        loss.upper_share_of_lossy_trials,
    )


def _format_delay(delay: DelayAt | None) -> tuple[str, str]:
    if delay is None:
        return UNKNOWN, UNKNOWN
    return tuple(format_with_interval(each, NS_PER_US) for each in (delay.p50_ns, delay.p99_ns))  # type: ignore[return-value]


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
