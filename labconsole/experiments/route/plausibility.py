"""Implausible counts in a record of routers: more packets than existed or fit on the link, or in no time. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.route.record import RouteRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, against


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
