"""Rules for the reasons of a trial of routers, stated a second time: code to condition over its record. Pure.

Shares no code with verdict.py, which judged it. docs/route.md and docs/data-format.md explain the codes.
"""

from __future__ import annotations

from itertools import pairwise

from labconsole.experiments.route.record import RouteRecord, RouterRecord
from labconsole.measure.recompute import verdict_check as common
from labconsole.measure.recompute.verdict_check import VerdictRules
from labconsole.model.tolerances import Tolerances


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
    return common.is_beyond_nic(record.sink)


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
        "capture_incomplete": lambda record, limits: common.is_capture_short(record.sink),
        "start_skew": common.is_start_apart,
        "swapped": common.is_swapped,
    },
    also={
        "foreign_frames": lambda record, limits: common.has_foreign_packets(record.sink, limits),
        "not_observed": lambda record, limits: common.is_nic_unread(record.sink),
    },
    excused={},
)
