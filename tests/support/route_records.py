"""Records of routers whose numbers follow from each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.engine.crew_sink import FlowArrivals, start_skew_s
from labconsole.experiments.route.rates import derive_router_rates
from labconsole.experiments.route.record import RouteRecord, RouteRequested, RouterRecord, RouteSinkRecord
from labconsole.experiments.route.verdict import derive_reasons
from labconsole.model.record.kind import CrewTrialRef
from labconsole.model.record.run import InForce, SetUp
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import weighed

ORIGIN_NS = 1_790_000_000_000_000_000
BIN_S = 0.1
BINS = 20


def route_record(
    each_bin: Sequence[int] = (200,),
    *,
    routes: int = 0,
    filters: int = 0,
    lost_inside: Sequence[int] = (),
    had: int | None = None,
    block: int = 1,
    repetition: int = 1,
    platform: str = "container",
    target_pps: int | None = None,
    **changes: Any,
) -> RouteRecord:
    """``each_bin``: what of each router comes in every bin of 0.1 s; ``lost_inside``: what each loses; ``had``: routes
    that the last one had, where these are not all.
    """
    guests, wanted = len(each_bin), routes + 1
    requested = RouteRequested(
        platform=platform,
        guests=guests,
        cpu="any",
        routes=routes,
        destinations=1,
        filters=filters,
        target_pps=target_pps,
        frame_bytes=64,
        duration_s=BINS * BIN_S,
        bin_s=BIN_S,
    )
    names = [f"g{number}" for number in range(1, guests + 1)]
    end_ns = ORIGIN_NS + round(BINS * BIN_S * 1e9)
    came = {
        name: FlowArrivals(
            packets=packets * BINS,
            bytes=packets * BINS * 60,
            first_at_ns=ORIGIN_NS,
            last_at_ns=end_ns,
            bin_packets=(packets,) * BINS,
        )
        for name, packets in zip(names, each_bin, strict=True)
    }
    common = derive_router_rates(came, ORIGIN_NS, BIN_S)
    lost = [*lost_inside, *[0] * guests][:guests]
    routers = tuple(
        RouterRecord(
            guest=name,
            inbound_mac=f"02:6c:77:01:00:{place:02x}",
            mac=f"02:6c:77:00:00:{place:02x}",
            udp_source_port=30_001 + place,
            inbound_interface=f"lcgi{place + 1}",
            host_interface=f"lcg{place + 1}",
            generator="afpacket",
            stopped_by="duration",
            error=None,
            sent_packets=each.packets + lost[place],
            sent_for_s=BINS * BIN_S,
            to_packets=each.packets + lost[place],
            from_packets=each.packets,
            packets=each.packets,
            bytes=each.bytes,
            first_at_ns=each.first_at_ns,
            last_at_ns=each.last_at_ns,
            bin_packets=each.bin_packets,
            outside_packets=0,
            sent_pps=(each.packets + lost[place]) / (BINS * BIN_S),
            forwarded_pps=(common.each or {}).get(name),
            routes=wanted if had is None or name != names[-1] else had,
            routes_after=wanted,
            filters=filters,
            filters_after=filters,
            load_s=0.1,
        )
        for place, (name, each) in enumerate(came.items())
    )
    total = sum(each.packets for each in routers)
    sink = RouteSinkRecord(
        node="snk1",
        interface="eth1",
        mac="02:00:00:00:00:09",
        captured_packets=total,
        dropped_packets=0,
        nic_packets=total,
        other_packets=0,
        foreign_packets=0,
    )
    limits, skew_s = Tolerances(), start_skew_s([each.first_at_ns for each in routers])
    verdict = weighed(derive_reasons(requested, routers, sink, start_skew_s=skew_s, swapped_pages=0, limits=limits))
    meant = f"route-{platform}{guests}/{routes}/{filters}/{target_pps}/{block}/{repetition}"
    values: dict[str, Any] = {
        "route_id": f"20260101T0000{block:02d}Z-{guests}{routes}{filters}{repetition}",
        # Every second block has the order of the one before it reversed.
        "started_at": f"2026-01-01T00:00:{block:02d}.{_turn(routes, filters, guests, block):06d}Z",
        "finished_at": "2026-01-01T00:01:00.000000Z",
        "testbed": "lab",
        "testbed_fingerprint": "f" * 16,
        "emulated": False,
        "operator": "ann",
        "labconsole_version": "0",
        "plan": CrewTrialRef(
            name="p",
            hash=meant,
            point=0,
            block=block,
            repetition=repetition,
            position=1,
            seed=1,
            set_ups=10,
            repetitions=1,
        ),
        "requested": requested,
        "link_speed_bps": 10**9,
        "source": "src1",
        "origin_ns": ORIGIN_NS,
        "in_packets": total,
        "set_up": SetUp(
            id=f"s-{platform}-{guests}-{block}", started_at="2026-01-01T00:00:00.000000Z", setup_s=1.0, trial=1
        ),
        "routers": routers,
        "sink": sink,
        "shared_from": common.first,
        "shared_to": common.stop,
        "sum_pps": common.total,
        "jain": common.jain,
        "start_skew_s": skew_s,
        "switches_per_s": 1000.0,
        "busy_ratio": 0.5,
        "swapped_pages": 0,
        "verdict": verdict,
        "attestation": {},
        "environment": {"nodes": {"uut": {"facts": {"boot_id": "boot-1"}}}},
        "in_force": InForce(tolerances=limits.model_dump(), settle_s=None, drain_s=None),
        "status": "failed" if verdict.status == "invalid" else "done",
    }
    return RouteRecord(**(values | changes))


def _turn(routes: int, filters: int, guests: int, block: int) -> int:
    place = 10 * guests + (routes > 0) + 2 * (filters > 0)
    return place if block % 2 else 1000 - place
