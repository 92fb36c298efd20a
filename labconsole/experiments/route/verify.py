"""Recomputation of a stored trial of routers: rates from packets, their sums, and the verdict from observations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from labconsole.experiments.route.record import RouteRecord, RouterRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, differences
from labconsole.measure.recompute.guest_trial import (
    VerdictRules,
    empty_trial_problems,
    recompute_verdict,
    unjudged_reasons,
)
from labconsole.model.tolerances import Tolerances

# -- plausibility ------------------------------------------------------------------------------------------------------
# Implausible counts in a record of routers: more packets than existed or fit on the link, or in no time. Pure.


def find_implausible(record: RouteRecord) -> Iterator[Discrepancy]:
    """Find values in a record that no trial can have produced."""
    yield from trial.common_problems(record)
    yield from _request(record)
    yield from _routers(record)
    yield from _totals(record)
    yield from trial.sink_problems("sink", record.sink)
    if record.busy_ratio is not None and record.busy_ratio > trial.RATIO_ERROR:
        yield against(
            "busy_ratio", f"{record.busy_ratio:.0%} of the processors cannot have been busy", record.busy_ratio
        )


def _request(record: RouteRecord) -> Iterator[Discrepancy]:
    requested = record.requested
    if requested.duration_s <= 0 or not 0 < requested.bin_s <= requested.duration_s or requested.frame_bytes < 64:
        yield against("requested", "asks for an impossible duration, bin or frame")
    if record.link_speed_bps <= 0:
        yield against("link_speed_bps", "is not a speed", record.link_speed_bps)


def _routers(record: RouteRecord) -> Iterator[Discrepancy]:
    requested, routers = record.requested, record.routers
    keys = {"guest": lambda each: each.guest, "udp_source_port": lambda each: each.udp_source_port}
    yield from trial.duplicate_problems("routers", routers, keys)
    yield from trial.address_problems(record, "routers", routers, ("mac", "inbound_mac"))
    for place, each in enumerate(routers):
        where = f"routers[{place}]"
        yield from trial.bin_problems(where, each, record.origin_ns, requested.bin_s)
        yield from trial.sign_problems(((f"{where}.sent_for_s", each.sent_for_s), (f"{where}.load_s", each.load_s)))
        yield from trial.duration_problems(
            record, ((f"{where}.sent_for_s", each.sent_for_s), (f"{where}.last_at_ns", _arrival_span_s(each)))
        )


def _arrival_span_s(each: object) -> float | None:
    first_ns, last_ns = getattr(each, "first_at_ns", None), getattr(each, "last_at_ns", None)
    return None if first_ns is None or last_ns is None else (last_ns - first_ns) / 1e9


def _totals(record: RouteRecord) -> Iterator[Discrepancy]:
    """All routers together get only what one port received and what one link carries."""
    requested, routers = record.requested, record.routers
    given = [each.to_packets for each in routers]
    if routers and None not in given:
        total = sum(each or 0 for each in given)
        yield from trial.excess_problems(
            "in_packets", total, record.in_packets, "were handed to the routers", len(routers)
        )
    firsts = [each.first_at_ns for each in routers if each.first_at_ns is not None]
    lasts = [each.last_at_ns for each in routers if each.last_at_ns is not None]
    span_s = (max(lasts) - min(firsts)) / 1e9 if firsts and lasts else None
    packets = sum(each.packets for each in routers)
    yield from trial.link_problems("routers", packets, requested.frame_bytes, span_s, record.link_speed_bps)
    times_s = [each.sent_for_s for each in routers if each.sent_for_s is not None]
    if times_s and len(times_s) == len(routers):
        sent_s = max(max(times_s) + (record.start_skew_s or 0.0), span_s or 0.0)
        yield from trial.link_problems(
            "in_packets", record.in_packets, requested.frame_bytes, sent_s, record.link_speed_bps
        )


# -- rules -------------------------------------------------------------------------------------------------------------
# Rules for the reasons of a trial of routers, stated a second time: code to condition over its record. Pure.
#
# Shares no code with verdict.py, which judged it. docs/route.md and docs/data-format.md explain the codes.


def _is_lacking_routes(record: RouteRecord, limits: Tolerances) -> bool:
    requested = record.requested
    routes = {requested.routes + requested.destinations}
    return any(
        {each.routes, each.routes_after} != routes
        or {each.filters or 0, each.filters_after or 0} != {requested.filters}
        for each in record.routers
    )


def _is_failed(each: RouterRecord) -> bool:
    return bool(each.error) or each.stopped_by == "error" or each.sent_packets is None


def _is_cut(record: RouteRecord, limits: Tolerances) -> bool:
    least_s = (1 - limits.duration_ratio) * record.requested.duration_s
    sent = [each.sent_for_s for each in record.routers if not _is_failed(each) and each.sent_for_s is not None]
    arrived = [
        (each.last_at_ns - each.first_at_ns) / 1e9
        for each in record.routers
        if record.sink is not None and each.packets and each.first_at_ns is not None and each.last_at_ns is not None
    ]
    return any(took_s < least_s for took_s in (*sent, *arrived))


def _is_short(record: RouteRecord, limits: Tolerances) -> bool:
    if record.requested.target_pps is None:
        return False
    due_pps = record.requested.target_pps / record.requested.guests
    sent = [each.sent_pps for each in record.routers if not _is_failed(each) and each.sent_pps is not None]
    return any(each < (1 - limits.offered_ratio) * due_pps for each in sent)


def _is_empty(record: RouteRecord, limits: Tolerances) -> bool:
    return any(
        (each.sent_packets == 0 and not _is_failed(each))
        or (record.sink is not None and each.sent_packets and not each.packets)
        for each in record.routers
    )


def _is_contradicted(record: RouteRecord, limits: Tolerances) -> bool:
    """More packets behind a place than before it, frames of another size, or more captured than arrived."""
    for each in record.routers:
        way = (each.sent_packets, each.to_packets, each.from_packets, each.packets)
        if any(
            before is not None and after is not None and after - before > limits.foreign_packets
            for before, after in pairwise(way)
        ):
            return True
        frames_bytes = each.packets * (record.requested.frame_bytes - 4)
        if record.sink is not None and each.packets and each.bytes != frames_bytes:
            return True
    return trial.is_beyond_nic(record.sink)


def _is_uncertain(record: RouteRecord, limits: Tolerances) -> bool:
    if record.sink is None:
        return False
    if any(each.packets and each.outside_packets for each in record.routers):
        return True
    return all(each.packets for each in record.routers) and any(each.forwarded_pps is None for each in record.routers)


RULES: VerdictRules[RouteRecord] = VerdictRules(
    only={
        "routes_missing": _is_lacking_routes,
        "generator_failed": lambda record, limits: any(map(_is_failed, record.routers)),
        "no_packets": _is_empty,
        "duration_cut": _is_cut,
        "offered_short": _is_short,
        "witnesses_disagree": _is_contradicted,
        "rate_uncertain": _is_uncertain,
        "capture_incomplete": lambda record, limits: trial.is_capture_short(record.sink),
        "start_skew": trial.is_start_apart,
        "swapped": trial.is_swapped,
    },
    also={
        "foreign_frames": lambda record, limits: trial.has_foreign_packets(record.sink, limits),
        "not_observed": lambda record, limits: trial.is_nic_unread(record.sink),
    },
    excused={},
)


# -- recomputation -----------------------------------------------------------------------------------------------------


def recompute_route(record: RouteRecord) -> list[Discrepancy]:
    """Find values of a trial that do not follow from its data, or contradict each other."""
    if record.set_up is None:
        found = [*empty_trial_problems(record, record.routers), *_rates(record)]
    else:
        found = [*_counts(record), *_rates(record)]
    return [*found, *find_implausible(record), *recompute_verdict(record, RULES)]


def _counts(record: RouteRecord) -> Iterator[Discrepancy]:
    if len(record.routers) != record.requested.guests:
        yield Discrepancy(where="routers", stored=len(record.routers), recomputed=record.requested.guests)
    for index, each in enumerate(record.routers):
        total = sum(each.bin_packets) + each.outside_packets
        if total != each.packets:
            yield Discrepancy(where=f"routers[{index}].packets", stored=each.packets, recomputed=total)
    sink = record.sink
    if sink is not None:
        total = sum(each.packets for each in record.routers) + sink.foreign_packets + sink.other_packets
        if total != sink.captured_packets:
            yield Discrepancy(where="sink.captured_packets", stored=sink.captured_packets, recomputed=total)


def _rates(record: RouteRecord) -> Iterator[Discrepancy]:
    """Check rates by the formulas of docs/route.md, without the functions that made the record."""
    bin_s = record.requested.bin_s
    bins = trial.find_shared_bins(record.routers, record.origin_ns, bin_s)
    each_pps: list[float] = []
    wanted: dict[str, tuple[Number, Number]] = {
        "shared_from": (record.shared_from, None if bins is None else bins.start),
        "shared_to": (record.shared_to, None if bins is None else bins.stop),
    }
    for index, each in enumerate(record.routers):
        again = None
        if bins is not None:
            again = sum(each.bin_packets[bins.start : bins.stop]) / (len(bins) * bin_s)
            each_pps.append(again)
        wanted[f"routers[{index}].forwarded_pps"] = each.forwarded_pps, again
        sent_pps = None if each.sent_packets is None or not each.sent_for_s else each.sent_packets / each.sent_for_s
        wanted[f"routers[{index}].sent_pps"] = each.sent_pps, sent_pps
    wanted |= {
        "sum_pps": (record.sum_pps, sum(each_pps) if each_pps else None),
        "jain": (record.jain, trial.compute_jain(each_pps)),
        "start_skew_s": (record.start_skew_s, trial.compute_skew_s(each.first_at_ns for each in record.routers)),
    }
    yield from differences(wanted)


RECOMPUTE = recompute_route
UNJUDGED = partial(unjudged_reasons, rules=RULES)
