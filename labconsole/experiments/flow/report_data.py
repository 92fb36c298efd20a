"""Shared parts of the figures and tables of flows, and the comparison with the bare host as end point. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from labconsole.experiments.flow.rates import FULL_LINE_RATIO, arrived_packets, sent_to_at_once
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.summary import (
    BareHostComparison,
    FlowPointKey,
    FlowPointResult,
    FlowsSummary,
    flow_key,
    summarize_flows,
)
from labconsole.measure.paired_blocks import (
    BARE_HOST,
    Blocks,
    adjusted,
    assign_points,
    find_outer_hypervisor,
    newest_trials,
    sort_key,
)
from labconsole.measure.statistics.effects import Effect, equivalence_p, word
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.report.formatting import format_left_out, format_mean
from labconsole.report.material import Material

# -- report data -------------------------------------------------------------------------------------------------------
# Shared parts of the figures and tables of flows.

MEGA = 1e6
FULL_RATIO = 0.999
"""Share of the line rate that counts as full, because each guest's rate is a whole number of bit/s."""


def select_send_records(material: Material) -> list[FlowRecord]:
    """All trials of guests that send in the report's material."""
    return [each for each in _flows(material) if each.requested.pattern == "out"]


def select_receive_records(material: Material) -> list[FlowRecord]:
    """All trials of guests that receive in the report's material."""
    return [each for each in _flows(material) if each.requested.pattern == "in"]


def select_ring_records(material: Material) -> list[FlowRecord]:
    """All trials of guests in a ring in the report's material."""
    return [each for each in _flows(material) if each.requested.pattern == "ring"]


def _flows(material: Material) -> list[FlowRecord]:
    return [record for record in material.of("flow") if isinstance(record, FlowRecord)]


def build_summary(material: Material) -> FlowsSummary:
    """Summarize the trials of guests that send."""
    return summarize_flows(select_send_records(material))


def full(points: Sequence[FlowPointResult]) -> list[FlowPointResult]:
    """The points whose guests are sent all that the link carries."""
    return [point for point in points if point.key.offered_bps * point.key.guests >= FULL_RATIO * point.line_bps]


def plain(points: Sequence[FlowPointResult]) -> list[FlowPointResult]:
    """The points whose guests send more than fits: no limit, no greedy guest, all from the start."""
    return [
        point
        for point in points
        if not point.key.limits_bps
        and not point.key.weights
        and not point.key.disk
        and point.key.greedy == 1
        and not point.key.second_after_s
        and point.key.offered_bps >= point.line_bps
    ]


NOTHING_OF = {
    "out": "there is no bin in which all guests send",
    "in": "what one of the guests read is not known",
    "ring": "what one of the guests sent while all did is not known",
}


def describe_missing_result(point: FlowPointResult) -> str:
    """Why a point says nothing about how its guests share."""
    why = NOTHING_OF[point.key.pattern] if point.flow_ids else "no trial is valid"
    return why + (f" (left out: {format_left_out(point.left_out)})" if point.left_out else "")


def format_set_up_mean(found: SetUpMean | None, unit: float = MEGA, places: int = 2) -> str:
    """Format a mean with its interval over set-ups."""
    return format_mean(found, unit, places)


# -- bare host comparison ----------------------------------------------------------------------------------------------
# Comparison of what guests send and read with the bare host as end point, in pairs of blocks.

WAYS = {"out": "from the guest", "in": "to the guest"}


def summarize_compared(records: Iterable[FlowRecord]) -> FlowsSummary:
    """Summarize the points, with their comparisons with the bare host."""
    every = list(records)
    return replace(summarize_flows(every), compared=compare_flows(every))


def compare_flows(records: Iterable[FlowRecord], family: Sequence[float] = ()) -> tuple[BareHostComparison, ...]:
    """Compare every guest point with the same point on the bare host, where both were measured. ``family``: p values of
    all claims shown together with these; if it is empty, these form a family of their own.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.flow_id))
    newest = newest_trials(every)
    entered: dict[FlowPointKey, list[FlowRecord]] = {}
    for key, record in assign_points(newest, flow_key):
        if record.verdict.status == "valid" and record.sum_bps is not None and key.pattern in WAYS:
            entered.setdefault(key, []).append(record)
    margins = {each.plan.margin_ratio for each in newest}
    margin_ratio = margins.pop() if len(margins) == 1 else None
    bare = sorted((key for key, group in entered.items() if any(map(is_bare, group))), key=sort_key)
    hosts = {(key.testbed_fingerprint, key.platform) for key in bare}
    guests = [key for key in entered if (key.testbed_fingerprint, key.platform) not in hosts]
    pairs = [
        (key, than)
        for key in sorted(guests, key=sort_key)
        if (than := _find_bare(key, bare, entered[key][0].line_bps)) is not None
    ]
    effects = compare_payloads(every, [(entered[key], entered[than]) for key, than in pairs])
    different = adjusted([effect.p for effect in effects], family)
    equal = adjusted([None if margin_ratio is None else equivalence_p(each, margin_ratio) for each in effects])
    return tuple(
        _compare(key, than, entered, effect, (p, equivalent), margin_ratio)
        for (key, than), effect, p, equivalent in zip(pairs, effects, different, equal, strict=True)
    )


def _compare(
    key: FlowPointKey,
    than: FlowPointKey,
    entered: Mapping[FlowPointKey, Sequence[FlowRecord]],
    effect: Effect,
    p_values: tuple[float | None, float | None],
    margin_ratio: float | None,
) -> BareHostComparison:
    sides = entered[key], entered[than]
    ours, bare = map(_mean_bps, sides)
    full = [
        mean.mean >= FULL_LINE_RATIO * side[0].line_bps and all(sent_to_at_once(each.receivers) for each in side)
        for mean, side in zip((ours, bare), sides, strict=True)
    ]
    return BareHostComparison(
        key=key,
        bare=than,
        ours_bps=ours,
        bare_bps=bare,
        effect=effect,
        adjusted_p=p_values[0],
        equivalent_p=p_values[1],
        margin_ratio=margin_ratio,
        word=word(*p_values),
        both_full=all(full),
        one_full=any(full) and not all(full),
        trials=tuple(each.flow_id for side in sides for each in side),
    )


def is_bare(record: FlowRecord) -> bool:
    """Whether the guests of this record are processes of the bare host."""
    return record.attestation.get("driver") == BARE_HOST


def _find_bare(key: FlowPointKey, bare: Sequence[FlowPointKey], line_bps: float) -> FlowPointKey | None:
    """Find the bare host's point for the same request, or None. It has as many processes, or one process that sends or
    receives what all guests do together. For a load that fills the link by itself, one process with the same load
    matches.
    """
    for guests in dict.fromkeys((key.guests, 1)):
        offered = {key.offered_bps} if guests == key.guests else {key.offered_bps * key.guests}
        if key.offered_bps >= FULL_LINE_RATIO * line_bps:
            offered.add(key.offered_bps)
        for than in bare:
            wanted = key._replace(
                platform=than.platform,
                guests=guests,
                hypervisor=than.hypervisor,
                memory_mib=than.memory_mib,
                offered_bps=than.offered_bps,
            )
            if (
                than == wanted
                and find_outer_hypervisor(than) == find_outer_hypervisor(key)
                and any(_alike(than.offered_bps, each) for each in offered)
            ):
                return than
    return None


def _alike(one_bps: int, other_bps: int) -> bool:
    """Whether two loads are equal up to rounding: an equal part of what fits is a whole number of bit/s."""
    return abs(one_bps - other_bps) <= max(64, 1e-6 * other_bps)


def _sum_bps(record: FlowRecord) -> float | None:
    return record.sum_bps


def _mean_bps(records: Sequence[FlowRecord]) -> SetUpMean:
    values: dict[str, list[float]] = {}
    for each in records:
        if each.sum_bps is not None:
            values.setdefault(each.set_up_id, []).append(each.sum_bps)
    return mean_over_set_ups(values)


def _fewest(records: Sequence[FlowRecord]) -> float | None:
    """The lowest number of packets that arrived in any of the trials, or None if none arrived."""
    return min((each for record in records if (each := arrived_packets(record))), default=None)


def compare_payloads(
    records: Sequence[FlowRecord], pairs: Sequence[tuple[Sequence[FlowRecord], Sequence[FlowRecord]]]
) -> list[Effect]:
    """The difference of our payload from theirs, for each pair. ``records``: all records that make up the blocks."""
    blocks = Blocks(records)
    return [blocks.effect(ours, theirs, _sum_bps, packets=_fewest([*ours, *theirs])) for ours, theirs in pairs]
