"""The verdict on one trial of routers, from observations of them, the source, the sink and the surroundings. Pure.

Loss in a router is a finding and no reason to doubt a trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.experiments.route.record import RouteRequested, RouterRecord, RouteSinkRecord
from labconsole.model.design_point import FCS_BYTES
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.crew_trial import sink_reasons
from labconsole.verdict.reasons import reason, swap_reasons

START_SKEW_RATIO = 0.01
"""Largest difference in start of routers that are to forward together, as a share of the duration."""


def derive_reasons(
    requested: RouteRequested,
    routers: Sequence[RouterRecord],
    sink: RouteSinkRecord | None,
    *,
    start_skew_s: float | None,
    swapped_pages: int | None,
    limits: Tolerances,
) -> list[Reason]:
    """Reasons derived from the record alone, so that anyone can judge it again."""
    found: list[Reason] = []
    for router in routers:
        found += _routes(requested, router)
        found += _sent(requested, router, limits)
        found += _ledger(router, limits)
        if sink is not None:
            found += _arrival(requested, router, limits)
    if sink is not None:
        found += sink_reasons(sink, "the routers'", limits)
        if all(router.packets for router in routers) and any(router.forwarded_pps is None for router in routers):
            found.append(reason("rate_uncertain", "there is no bin in which all routers forward"))
    if start_skew_s is not None and start_skew_s > START_SKEW_RATIO * requested.duration_s:
        detail = f"the routers began {start_skew_s:.3f} s apart, in a trial of {requested.duration_s:g} s"
        found.append(reason("start_skew", detail, start_skew_s=start_skew_s, duration_s=requested.duration_s))
    found += swap_reasons(swapped_pages)
    return found


def _routes(requested: RouteRequested, router: RouterRecord) -> Iterator[Reason]:
    """A router must have the routes and filters that it was given, before and after the trial."""
    wanted = requested.routes + requested.destinations
    for when, found in (("before the trial", router.routes), ("after it", router.routes_after)):
        if found == wanted:
            continue
        has = "did not say how many routes it had" if found is None else f"had {found} routes"
        said = f": {router.said}" if router.said else ""
        detail = f"{router.guest}: it {has} {when}, of {wanted} that it was given{said}"
        yield reason("routes_missing", detail, guest=router.guest, routes=found, wanted=wanted)
        return
    for found in (router.filters, router.filters_after):
        if (found or 0) != requested.filters:
            detail = f"{router.guest}: it had {found or 0} filter rules, of {requested.filters} that it was given"
            yield reason("routes_missing", detail, guest=router.guest, filters=found, wanted=requested.filters)
            return


def _sent(requested: RouteRequested, router: RouterRecord, limits: Tolerances) -> Iterator[Reason]:
    if router.error or router.stopped_by == "error" or router.sent_packets is None:
        why = router.error or "the source does not say what it sent"
        yield reason("generator_failed", f"the stream to {router.guest}: {why}", guest=router.guest)
        return
    if not router.sent_packets:
        yield reason("no_packets", f"nothing was sent to {router.guest}", guest=router.guest)
    if router.sent_for_s is not None and router.sent_for_s < (1 - limits.duration_ratio) * requested.duration_s:
        detail = f"{router.guest}: was sent to for {router.sent_for_s:.3f} s, of {requested.duration_s:g}"
        yield reason("duration_cut", detail, guest=router.guest, sent_s=router.sent_for_s)
    if requested.target_pps is None or router.sent_pps is None:
        return
    wanted_pps = requested.target_pps / requested.guests
    if router.sent_pps < (1 - limits.offered_ratio) * wanted_pps:
        detail = f"{router.guest}: {router.sent_pps:.0f} packets/s were sent to it, of {wanted_pps:.0f} intended"
        yield reason("offered_short", detail, guest=router.guest, offered_pps=router.sent_pps)


def _ledger(router: RouterRecord, limits: Tolerances) -> Iterator[Reason]:
    """There cannot be more packets behind a hop than before it."""
    hops = (
        ("was sent to it", router.sent_packets, "went into it", router.to_packets),
        ("went into it", router.to_packets, "came out of it", router.from_packets),
        ("came out of it", router.from_packets, "arrived at the sink", router.packets),
    )
    for before_place, before, after_place, after in hops:
        if before is not None and after is not None and after > before + limits.foreign_packets:
            detail = f"{router.guest}: {before} packets {before_place}, and {after} {after_place}"
            yield reason("witnesses_disagree", detail, guest=router.guest, before=before, after=after)


def _arrival(requested: RouteRequested, router: RouterRecord, limits: Tolerances) -> Iterator[Reason]:
    """Packets must arrive, have the right size, last for the duration, and lie in the bins."""
    if not router.packets:
        if router.sent_packets:
            yield reason(
                "no_packets", f"{router.guest}: nothing of what was sent to it arrived at the sink", guest=router.guest
            )
        return
    each_bytes = requested.frame_bytes - FCS_BYTES
    if router.bytes != router.packets * each_bytes:
        detail = f"{router.guest}: its {router.packets} packets hold {router.bytes} bytes, not {each_bytes} each"
        yield reason("witnesses_disagree", detail, guest=router.guest, packets=router.packets, bytes=router.bytes)
    if router.first_at_ns is not None and router.last_at_ns is not None:
        took_s = (router.last_at_ns - router.first_at_ns) / 1e9
        if took_s < (1 - limits.duration_ratio) * requested.duration_s:
            detail = f"{router.guest}: its packets came for {took_s:.3f} s, of {requested.duration_s:g}"
            yield reason("duration_cut", detail, guest=router.guest, came_s=took_s)
    if router.outside_packets:
        detail = f"{router.guest}: {router.outside_packets} of its packets came before or after the bins"
        yield reason("rate_uncertain", detail, guest=router.guest, packets=router.outside_packets)
