"""What a reader should be pointed to, in sentences, each with the runs behind it. Pure; method.md section 4.

A finding never says more than its evidence: where an interval does not allow a statement, none is made, and where two
platforms cannot be told apart, that is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from labconsole.measure.statistics import Difference, difference, jain_index, order_effect, outliers
from labconsole.model.record import Reason, RunRecord
from labconsole.report.evaluation import DEDICATED, Point, maxima
from labconsole.report.figures import size_words
from labconsole.report.tables import number, target_words, with_interval
from labconsole.units import format_rate_bps

COLLAPSE_RATIO = 0.02
"""Below the maximum by more than this share, and detectably, at a higher offered load: a collapse."""

SPREAD_FACTOR = 5.0
"""A point's deviation relative to its mean, against the median of all points of the same platform."""

MIN_SPREAD_RATIO = 0.02
UNEQUAL_BELOW = 0.95
"""Jain's index of the streams' measured rates; 1 is perfectly equal."""

THROTTLED = "offered_short"
BEFORE_GUEST = ("source_nic", "uut_in", "uut in", "bridge_in", "tap_in")
"""Hops of the ledger up to which loss happened before the guest saw the packet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``kind`` is stable, for machines; ``sentence`` for people; ``run_ids`` are the evidence."""

    kind: str
    sentence: str
    run_ids: tuple[str, ...]


def _where(point: Point) -> str:
    size = size_words(point.frame_size_bytes, point.frame_size_includes_fcs)
    plural = "source" if point.sources == 1 else "sources"
    beside = "" if point.background == DEDICATED else f", background {point.background}"
    return f"{point.platform}, {size}, {point.sources} {plural}{beside}"


def find_all(points: Sequence[Point], records: Sequence[RunRecord]) -> list[Finding]:
    """Every finding, in a fixed order of kinds. ``records``: the runs behind the points, or a part of them.

    No invalid ones: an aborted run has unequal streams, and that says nothing of the platform.
    """
    return [
        *collapses(points),
        *wide_spreads(points),
        *outlying(points),
        *order_effects(records),
        *indistinguishable(points),
        *throttled(records),
        *unequal_streams(records),
        *lost_before_guest(records),
        *instrument_limited(records),
    ]


def collapses(points: Sequence[Point]) -> Iterator[Finding]:
    """Settings whose measured rate falls beyond their maximum while more is offered."""
    for key, best in maxima(points).items():
        beyond = [p for p in points if p.key == key and p.offered_bps.mean > best.offered_bps.mean]
        fallen = [
            p
            for p in beyond
            if p.measured_bps.mean < best.measured_bps.mean * (1 - COLLAPSE_RATIO)
            and (min(p.n, best.n) >= 2 and difference(best.measured_values_bps, p.measured_values_bps).detectable)
        ]
        if fallen:
            worst = min(fallen, key=lambda p: p.measured_bps.mean)
            share = 1 - worst.measured_bps.mean / best.measured_bps.mean
            yield Finding(
                kind="collapse",
                sentence=(
                    f"{_where(best)}: collapses beyond its maximum; {with_interval(best.measured_bps)} Mbit/s measured "
                    f"at {number(best.offered_bps.mean / 1e6)} offered, {with_interval(worst.measured_bps)} at "
                    f"{number(worst.offered_bps.mean / 1e6)} ({share:.1%} less)."
                ),
                run_ids=(*best.run_ids, *worst.run_ids),
            )


def wide_spreads(points: Sequence[Point]) -> Iterator[Finding]:
    """Points whose repetitions differ far more than those of the platform's other points."""
    spreads: dict[str, list[tuple[float, Point]]] = {}
    for p in points:
        if p.measured_bps.sd is not None and p.n >= 3 and p.measured_bps.mean > 0:
            spreads.setdefault(p.platform, []).append((p.measured_bps.sd / p.measured_bps.mean, p))
    for held in spreads.values():
        usual = sorted(value for value, _ in held)[len(held) // 2]
        for value, p in held:
            if value > MIN_SPREAD_RATIO and value > SPREAD_FACTOR * usual:
                yield Finding(
                    kind="wide_spread",
                    sentence=(
                        f"{_where(p)}, target {target_words(p.target_bps)}: the repetitions differ by {value:.1%} of "
                        f"their mean (standard deviation), where {usual:.1%} is usual on this platform."
                    ),
                    run_ids=p.run_ids,
                )


def outlying(points: Sequence[Point]) -> Iterator[Finding]:
    """Runs that lie apart from the other repetitions of their point. They stay in its mean."""
    for p in points:
        places = outliers(p.measured_values_bps)
        if places:
            apart = ", ".join(number(p.measured_values_bps[place] / 1e6) for place in places)
            yield Finding(
                kind="outlier",
                sentence=(
                    f"{_where(p)}, target {target_words(p.target_bps)}: {apart} Mbit/s measured in {len(places)} of "
                    f"{p.n} runs, far from the others ({with_interval(p.measured_bps)} with all; Rosner's test, 5 %)."
                ),
                run_ids=tuple(p.run_ids[place] for place in places),
            )


def order_effects(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Plans whose results depend on when in the schedule they were taken, on one testbed."""
    plans: dict[tuple[str, str], list[tuple[RunRecord, int, float]]] = {}
    for record in sorted(records, key=lambda r: r.started_at):
        if record.plan is not None and record.total.measured_bps is not None:
            taken = plans.setdefault((record.plan.hash, record.testbed_fingerprint), [])
            taken.append((record, record.plan.point, record.total.measured_bps))
    for taken in plans.values():
        values, where = [value for _, _, value in taken], [point for _, point, _ in taken]
        found = order_effect(range(1, len(taken) + 1), values, where, relative=True)
        if not found.detectable or found.change is None or found.slope_per_position is None:
            continue
        low, high = (
            (bound or 0.0) * found.change / found.slope_per_position for bound in (found.ci_low, found.ci_high)
        )
        plan = taken[0][0].plan
        yield Finding(
            kind="order_effect",
            sentence=(
                f"Plan {plan.name if plan is not None else ''}: measured rates change by {found.change:+.2%} from its "
                f"first run to its last (95 % interval {low:+.2%} to {high:+.2%}), each point against its own mean: "
                "the testbed drifted."
            ),
            run_ids=tuple(record.run_id for record, _, _ in taken),
        )


def indistinguishable(points: Sequence[Point]) -> Iterator[Finding]:
    """Pairs of platforms whose maxima in the same setting show no detectable difference (Welch, 95 %)."""
    best = maxima(points)
    by_setting: dict[tuple[object, ...], list[Point]] = {}
    for key, point in best.items():
        by_setting.setdefault(key[1:], []).append(point)
    for held in by_setting.values():
        for a, b in combinations(held, 2):
            compared = difference(a.measured_values_bps, b.measured_values_bps)
            if compared.detectable is False:
                yield Finding(
                    kind="no_detectable_difference",
                    sentence=(
                        f"{_where(a)} against {b.platform}: no detectable difference of the maxima "
                        f"({with_interval(a.measured_bps)} and {with_interval(b.measured_bps)} Mbit/s"
                        f"{_interval(compared)})."
                    ),
                    run_ids=(*a.run_ids, *b.run_ids),
                )


def _asked(record: RunRecord) -> str:
    target = record.requested.target_bps
    words = "max" if target == "max" else format_rate_bps(target)
    size = size_words(record.requested.frame_size_bytes, record.requested.frame_size_includes_fcs)
    return f"{record.requested.platform}, {size}, {record.requested.sources} × {words}"


def _grouped(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_asked(record), []).append(record)
    return groups


def _interval(compared: Difference) -> str:
    if compared.ci_low is None or compared.ci_high is None:
        return ""
    low, high = number(compared.ci_low / 1e6), number(compared.ci_high / 1e6)
    return f"; 95 % interval of the difference {low} to {high}"


def throttled(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Points whose generator sent less than intended; by flow control where the verdict's evidence says so."""
    short = [r for r in records if any(reason.code == THROTTLED for reason in r.verdict.reasons)]
    for asked, held in _grouped(short).items():
        reasons = [reason for r in held for reason in r.verdict.reasons if reason.code == THROTTLED]
        paused = sum(any(map(_by_flow_control, r.verdict.reasons)) for r in held)
        why = f", in {paused} of them held back by flow control" if paused else ""
        yield Finding(
            kind="generator_short",
            sentence=f"{asked}: the generator sent less than intended in {len(held)} runs{why} ({reasons[0].detail}).",
            run_ids=tuple(r.run_id for r in held),
        )


def _by_flow_control(reason: Reason) -> bool:
    causes = (reason.evidence or {}).get("causes")
    return (
        reason.code == THROTTLED
        and isinstance(causes, list)
        and any(isinstance(cause, dict) and cause.get("cause") == "flow_control" for cause in causes)
    )


def unequal_streams(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Runs whose streams were offered the same and fared differently: Jain's index of the measured rates."""
    unequal: list[tuple[float, RunRecord]] = []
    for record in records:
        rates = [s.measured_pps for s in record.streams if s.measured_pps is not None]
        offered = [s.offered_pps for s in record.streams if s.offered_pps is not None]
        if len(rates) == len(offered) == len(record.streams) > 1 and any(rates):
            index, offered_index = jain_index(rates), jain_index(offered)
            if index is not None and index < UNEQUAL_BELOW <= (offered_index or 0.0):
                unequal.append((index, record))
    for asked, held in _grouped([record for _, record in unequal]).items():
        ids = {r.run_id for r in held}
        worst = min(index for index, r in unequal if r.run_id in ids)
        yield Finding(
            kind="unequal_streams",
            sentence=(
                f"{asked}: the streams of one trial fare unequally in {len(held)} runs "
                f"(Jain's index down to {worst:.3f})."
            ),
            run_ids=tuple(r.run_id for r in held),
        )


def lost_before_guest(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Runs in which most of the loss happened before the packet reached the guest or the UUT's forwarding."""
    early = []
    for record in records:
        lost = sum(s.loss_packets or 0 for s in record.streams)
        before = sum(hop.lost_packets or 0 for s in record.streams for hop in s.ledger if hop.hop in BEFORE_GUEST)
        if lost > 0 and before > lost / 2:
            early.append(record)
    for asked, held in _grouped(early).items():
        yield Finding(
            kind="lost_before_guest",
            sentence=f"{asked}: most of the loss happens before the guest in {len(held)} runs.",
            run_ids=tuple(r.run_id for r in held),
        )


def instrument_limited(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Runs beyond what the generator or the sink were calibrated for."""
    limited = [r for r in records if any(reason.code == "instrument_limited" for reason in r.verdict.reasons)]
    for asked, held in _grouped(limited).items():
        yield Finding(
            kind="instrument_limited",
            sentence=(
                f"{asked}: {len(held)} runs are beyond the calibrated instrument; they say nothing of the platform."
            ),
            run_ids=tuple(r.run_id for r in held),
        )
