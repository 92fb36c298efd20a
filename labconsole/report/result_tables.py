"""Every design point with its rate, its loss and its delay; planned against taken; where the spread comes from. "
"Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from labconsole.measure.components import Components
from labconsole.measure.setups import SetUpMean
from labconsole.report.points import Point, RunFacts, Values, mean_of_point
from labconsole.report.sample import Coverage
from labconsole.report.tables import (
    UNKNOWN,
    Cell,
    Table,
    loss_words,
    number,
    size_number,
    target_words,
    with_interval,
)

NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class DelayAt:
    """Delay at one point: medians and 99th percentiles of its trials. ``kind``: over the shortest (RFC 5481, PDV)
    where the clocks of the nodes are not shown to agree."""

    kind: Literal["one way", "over the shortest"]
    p50_ns: SetUpMean
    p99_ns: SetUpMean


def delay_at(point: Point, facts: Mapping[str, RunFacts]) -> DelayAt | None:
    """None unless trials of the point know a delay; one way only where all that know any know that."""
    held = [
        (block, facts[run_id])
        for run_id, block in zip(point.run_ids, point.blocks_of_runs, strict=True)
        if run_id in facts and facts[run_id].pdv_ns is not None
    ]
    if not held:
        return None
    one_way = all(fact.one_way_ns is not None for _, fact in held)
    p50: Values = {}
    p99: Values = {}
    for block, fact in held:
        known = fact.one_way_ns if one_way else fact.pdv_ns
        if known is not None:
            p50.setdefault(block, []).append(known[0])
            p99.setdefault(block, []).append(known[1])
    return DelayAt("one way" if one_way else "over the shortest", mean_of_point(p50), mean_of_point(p99))


def set_ups_words(rate: SetUpMean) -> str:
    """``5 × 3`` set-ups by trials, ``1 × 9``; where set-ups differ, ``5, 14 trials``."""
    if rate.trials % rate.set_ups == 0:
        return f"{rate.set_ups} × {rate.trials // rate.set_ups}"
    return f"{rate.set_ups}, {rate.trials} trials"


def results(points: Sequence[Point], facts: Mapping[str, RunFacts]) -> Table:
    """Every design point with its means, intervals and set-ups."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    delays = [delay_at(point, facts) for point in points]
    with_delay = any(delay is not None for delay in delays)
    for p, delay in zip(points, delays, strict=True):
        rows.append(
            (
                p.platform, p.frame_size_bytes, p.frame_size_includes_fcs, p.sources,
                "max" if p.target_bps is None else p.target_bps, p.background, p.design.conditions.method,
                p.set_ups, p.n, p.rate_bps.scope, p.offered_bps.mean, p.rate_bps.mean, p.rate_bps.ci_low,
                p.rate_bps.ci_high, p.rate_bps.sd, p.rate_pps.mean, p.loss_of, p.loss_trials,
                *_loss_cells(p),
                *((None,) * 5 if delay is None else (
                    delay.kind, delay.p50_ns.mean, delay.p99_ns.mean, delay.p99_ns.ci_low, delay.p99_ns.ci_high
                )),
            )
        )  # fmt: skip
        words = (
            p.platform, size_number(p.frame_size_bytes, p.frame_size_includes_fcs), str(p.sources),
            target_words(p.target_bps), p.background, set_ups_words(p.rate_bps), number(p.offered_bps.mean / 1e6),
            with_interval(p.rate_bps), _loss_words(p),
        )  # fmt: skip
        shown.append((*words, *_delay_words(delay)) if with_delay else words)
    return Table(
        name="results",
        title="Every design point",
        columns=(
            "platform", "frame_size_bytes", "frame_size_includes_fcs", "sources", "target_bps", "background", "method",
            "set_ups", "trials", "interval_of", "offered_mean_bps", "forwarding_mean_bps", "forwarding_ci_low_bps",
            "forwarding_ci_high_bps", "forwarding_sd_bps", "forwarding_mean_pps", "loss_of", "loss_trials",
            "lost_packets", "offered_packets", "loss_ratio", "loss_ci_low_ratio", "loss_ci_high_ratio",
            "loss_below_ratio", "lossy_trials_below_ratio", "delay_kind", "delay_p50_ns", "delay_p99_ns",
            "delay_p99_ci_low_ns", "delay_p99_ci_high_ns",
        ),
        rows=tuple(rows),
        headings=(
            "platform", "size, B", "sources", "target, Mbit/s", "background", "set-ups × trials", "offered, Mbit/s",
            "forwarded, Mbit/s", "loss", *(("p50, µs", "p99, µs") if with_delay else ()),
        ),
        shown=tuple(shown),
        note=_note(points, delays),
    )  # fmt: skip


def _loss_words(p: Point) -> str:
    """With the trials that it rests on, where that is not all."""
    rests = f"; {p.loss_trials} of {p.n} trials" if 0 < p.loss_trials < p.n else ""
    return f"{loss_words(p.loss)}{rests}"


def _loss_cells(p: Point) -> tuple[Cell, ...]:
    loss = p.loss
    if loss is None:
        return (None,) * 7
    return (
        loss.lost_packets, loss.offered_packets, loss.ratio, loss.low, loss.high, loss.upper_if_none_lost,
        loss.upper_share_of_lossy_trials,
    )  # fmt: skip


def _delay_words(delay: DelayAt | None) -> tuple[str, str]:
    if delay is None:
        return UNKNOWN, UNKNOWN
    return tuple(with_interval(each, NS_PER_US) for each in (delay.p50_ns, delay.p99_ns))  # type: ignore[return-value]


def _note(points: Sequence[Point], delays: Sequence[DelayAt | None]) -> str:
    words = ["Bandwidth on the wire, summed over the streams; the target is per source; ± half the 95 % interval."]
    if any(p.rate_bps.scope == "this set-up only" for p in points):
        words.append("One set-up: its interval is about this set-up only, another may lie elsewhere.")
    if any(p.rate_bps.scope == "set-ups" for p in points):
        words.append("From three set-ups on the interval is that of their means.")
    if any(p.loss_of == "all" for p in points):
        words.append(
            "Method 1: rates are over the sending time, and hold what a queue gave on afterwards; loss is everything "
            "offered and not measured, on whatever side."
        )
    if any(p.loss_of == "uut" for p in points):
        words.append("Loss is the unit under test's, of what was offered on the wire.")
    words += _unknown_losses(points)
    of_trials = sorted(
        {(p.loss_trials, p.loss.upper_share_of_lossy_trials) for p in points
         if p.loss is not None and p.loss.upper_share_of_lossy_trials is not None}
    )  # fmt: skip
    if of_trials:
        told = ", ".join(f"{100 * share:.0f} % after {n}" for n, share in of_trials if share is not None)
        words.append(f"Where no trial lost anything, that share of trials may still lose something: {told}.")
    kinds = {delay.kind for delay in delays if delay is not None}
    if kinds:
        told = " and ".join(sorted(kinds))
        words.append(f"Delay ({told}) is that of packets that arrived, and says nothing of those that were lost.")
    return " ".join(words)


def _unknown_losses(points: Sequence[Point]) -> Iterator[str]:
    """Why a loss is not told, and how many trials are not in those that are."""
    if any(p.loss_trials == 0 for p in points):
        yield (
            "A point's loss is unknown where in one of its trials more came out of the unit under test than went in, "
            "beyond a few frames of its own, or where no trial's counters were read."
        )
    left_out = sum(p.n - p.loss_trials for p in points if p.loss_trials)
    if left_out:
        yield f"Left out of the loss, since a counter was not read: {left_out} of {sum(p.n for p in points)} trials."


def runs_by_point(found: Sequence[Coverage]) -> Table:
    """What plans ask for, what is stored of it, and what enters."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in found:
        counts = (each.planned, each.taken, each.retaken, each.entered, each.missing)
        rows.append(
            (
                each.plan, each.plan_hash, each.fingerprint, each.point, each.platform, each.frame_size_bytes,
                each.frame_size_includes_fcs, each.sources, "max" if each.target_bps is None else each.target_bps,
                each.background, *counts,
            )
        )  # fmt: skip
        shown.append(
            (
                each.plan, str(each.point), each.platform,
                size_number(each.frame_size_bytes, each.frame_size_includes_fcs), str(each.sources),
                target_words(each.target_bps), each.background,
                *(UNKNOWN if count is None else str(count) for count in counts),
            )
        )  # fmt: skip
    bare = any(each.planned is None for each in found)
    return Table(
        name="runs-by-point",
        title="Planned, taken and entered, point by point",
        columns=(
            "plan", "plan_hash", "testbed_fingerprint", "point", "platform", "frame_size_bytes",
            "frame_size_includes_fcs", "sources", "target_bps", "background", "planned", "taken", "retaken", "entered",
            "missing",
        ),
        rows=tuple(rows),
        headings=(
            "plan", "point", "platform", "size, B", "sources", "target, Mbit/s", "background", "planned", "taken",
            "retaken", "entered", "missing",
        ),
        shown=tuple(shown),
        note=(
            "Planned: set-ups times repetitions, as the plan's file says, else its newest record. Taken: stored "
            "trials; retaken: those beyond one a place (an invalid one taken again, a set-up that broke off taken "
            "again). Points of a plan without any run are listed where the plan's file was given (--plan FILE)."
            + (" Records of format 1 do not say what was planned." if bare else "")
        ),
    )  # fmt: skip


def spread(found: Mapping[str, Components]) -> Table:
    """Variance between set-ups and within them, by platform, as relative deviations."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for platform, parts in found.items():
        between = parts.variance_between
        rows.append(
            (
                platform, parts.points, parts.set_ups, parts.repetitions, parts.variance_within,
                parts.variance_of_means, between,
            )
        )  # fmt: skip
        root = math.copysign(math.sqrt(abs(between)), between)
        shown.append(
            (
                platform, str(parts.points), str(parts.set_ups), f"{parts.repetitions:.3g}",
                number(100 * math.sqrt(parts.variance_within), 2), number(100 * math.sqrt(parts.variance_of_means), 2),
                number(100 * root, 2),
            )
        )  # fmt: skip
    return Table(
        name="spread",
        title="Where the spread comes from: between set-ups, and within them",
        columns=(
            "platform", "points", "set_ups", "repetitions", "variance_within", "variance_of_set_up_means",
            "variance_between",
        ),
        rows=tuple(rows),
        headings=(
            "platform", "points", "set-ups", "repetitions", "within, %", "of set-up means, %", "between, %",
        ),
        shown=tuple(shown),
        note=(
            "Standard deviations relative to the mean, pooled over a platform's points with three set-ups of two "
            "repetitions; between: what set-ups add to what their trials explain, with a minus where they lie closer "
            "than trials make likely (Kalibera and Jones 2013). `labconsole plan advise` reckons set-ups and "
            "repetitions from it."
        ),
    )  # fmt: skip
