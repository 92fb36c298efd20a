"""Records of flows out of guests whose numbers follow from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labconsole.engine.crew_sink import start_skew_s
from labconsole.experiments.flow.limiters import KIND
from labconsole.experiments.flow.rates import (
    HEADER_BYTES,
    begin_skew_s,
    derive_guest_rates,
    line_bps,
    offered_bps,
    own_rate,
    sent_for_s,
    sum_rates,
)
from labconsole.experiments.flow.receive import (
    GuestCounts,
    ReceiveWindow,
    ReceivingGuest,
    build_receiver,
    build_source,
)
from labconsole.experiments.flow.record import (
    FlowRecord,
    FlowRequested,
    LimiterRecord,
    RingGuestRecord,
    SenderRecord,
    SinkFlowRecord,
    SinkRecord,
)
from labconsole.experiments.flow.script import SINK_ADDRESS, Sending
from labconsole.experiments.flow.verdict import derive_reasons, derive_receive_reasons, derive_ring_reasons
from labconsole.measure.counts import CounterSample
from labconsole.model.record.kind import CrewTrialRef
from labconsole.model.record.run import InForce, SetUp
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import weighed
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.generator import SentStream

ORIGIN_NS = 1_790_000_000_000_000_000
PAYLOAD_BYTES = 1472


def flow(guest: str, packets: Sequence[int], *, port: int, begin_bin: int = 0, bin_s: float = 1.0) -> SinkFlowRecord:
    """``packets``: in every bin from ``begin_bin`` on, spread evenly over each."""
    bin_ns = round(bin_s * 1e9)
    total, last_bin = sum(packets), begin_bin + len(packets)
    return SinkFlowRecord(
        guest=guest,
        flow=1,
        udp_source_port=port,
        packets=total,
        bytes=total * (PAYLOAD_BYTES + HEADER_BYTES),
        first_at_ns=ORIGIN_NS + begin_bin * bin_ns if total else None,
        last_at_ns=ORIGIN_NS + last_bin * bin_ns - 1 + 1 if total else None,
        bin_packets=(*([0] * begin_bin), *packets) if total else (),
    )


def flow_record(
    packets: Sequence[Sequence[int]],
    *,
    begin_bins: Sequence[int] = (),
    limits_bps: tuple[int, ...] = (),
    found_limits: Sequence[int | None] | None = None,
    second_after_s: float = 0.0,
    bin_s: float = 1.0,
    platform: str = "lxc",
    block: int = 1,
    repetition: int = 1,
    flow_id: str = "20260101T000000000000Z-0001",
    **changes: Any,
) -> FlowRecord:
    """``packets``: of each guest in each bin, from its ``begin_bins`` on."""
    names = [f"g{number}" for number in range(1, len(packets) + 1)]
    begin = begin_bins or [0] * len(packets)
    ports = [Sending(place, "198.18.64.1", 1, 1, PAYLOAD_BYTES, 1.0).ports[0] for place in range(len(packets))]
    flows = tuple(
        flow(name, own, port=port, begin_bin=first, bin_s=bin_s)
        for name, own, port, first in zip(names, packets, ports, begin, strict=True)
    )
    bins = max(first + len(own) for own, first in zip(packets, begin, strict=True))
    requested = FlowRequested(
        platform=platform,
        guests=len(names),
        cpu="any",
        offered_bps=100_000_000,
        limits_bps=limits_bps,
        greedy=1,
        second_after_s=second_after_s,
        payload_bytes=PAYLOAD_BYTES,
        duration_s=bins * bin_s,
        bin_s=bin_s,
    )
    common = derive_guest_rates(flows, names, ORIGIN_NS, PAYLOAD_BYTES, bin_s)
    told = (
        found_limits
        if found_limits is not None
        else [limits_bps[place % len(limits_bps)] if limits_bps else None for place in range(len(names))]
    )
    senders = tuple(
        SenderRecord(
            guest=each.guest,
            address=f"198.18.64.{place + 1}",
            mac=f"02:6c:77:00:00:{place:02x}",
            host_interface=f"lcg{place + 1}",
            host_packets=each.packets,
            offered_bps=offered_bps(each.packets, sent_for_s(flows, each.guest), PAYLOAD_BYTES),
            limiter=LimiterRecord(
                kind=KIND,
                interface=f"lcq{place + 1}",
                rate_bps=told[place],
                burst_bytes=3028,
                passed_packets=each.packets,
                dropped_packets=0,
            )
            if limits_bps
            else None,
            exit_status=0,
            output="",
            packets=each.packets,
            lost_packets=0,
            payload_bps=own_rate(flows, each.guest, PAYLOAD_BYTES),
            shared_bps=(common.each or {}).get(each.guest),
        )
        for place, each in enumerate(flows)
    )
    total = sum(each.packets for each in flows)
    sink = SinkRecord(
        node="snk1",
        interface="eth0",
        address=SINK_ADDRESS,
        mac="02:00:00:00:00:09",
        captured_packets=total,
        dropped_packets=0,
        nic_packets=total,
        other_packets=0,
        foreign_packets=0,
        fragments=0,
    )
    skew_s = begin_skew_s(flows, names, second_after_s)
    limits = Tolerances()
    most_bps = line_bps(100_000_000, PAYLOAD_BYTES)
    verdict = weighed(
        derive_reasons(
            requested,
            flows,
            senders,
            sink,
            line_bps=most_bps,
            start_skew_s=skew_s,
            swapped_pages=0,
            program=None,
            limits=limits,
        )
    )
    values: dict[str, Any] = {
        "flow_id": flow_id,
        "started_at": f"2026-01-01T00:00:{block:02d}.{repetition:06d}Z",
        "finished_at": "2026-01-01T00:01:00.000000Z",
        "testbed": "lab",
        "testbed_fingerprint": "f" * 16,
        "emulated": False,
        "operator": "ann",
        "labconsole_version": "0",
        "plan": CrewTrialRef(
            name="p",
            hash=f"flow-{platform}{limits_bps}{len(names)}{second_after_s}{block}{repetition}",
            point=0,
            block=block,
            repetition=repetition,
            position=1,
            seed=1,
            set_ups=3,
            repetitions=1,
        ),
        "requested": requested,
        "link_speed_bps": 100_000_000,
        "line_bps": most_bps,
        "origin_ns": ORIGIN_NS,
        "set_up": SetUp(
            id=f"set-up-{platform}-{block}", started_at="2026-01-01T00:00:00.000000Z", setup_s=1.0, trial=1
        ),
        "flows": flows,
        "senders": senders,
        "sink": sink,
        "shared_from": common.first,
        "shared_to": common.stop,
        "sum_bps": common.total,
        "jain": common.jain,
        "line_ratio": None if common.total is None else common.total / most_bps,
        "start_skew_s": skew_s,
        "swapped_pages": 0,
        "verdict": verdict,
        "attestation": {},
        "environment": {"nodes": {"uut": {"facts": {"boot_id": "boot-1"}}}},
        "in_force": InForce(tolerances=limits.model_dump(), settle_s=None, drain_s=None),
        "status": "failed" if verdict.status == "invalid" else "done",
    }
    return FlowRecord(**(values | changes))


def ring_record(
    out_bps: Sequence[float | None],
    *,
    lost_ratio: float = 0.0,
    limits_bps: tuple[int, ...] = (),
    exits: Sequence[int | None] = (),
    window_s: float | None = 4.0,
    **changes: Any,
) -> FlowRecord:
    """Guests in a ring that send at these rates; ``lost_ratio``: of what came out of all, never went in."""
    base = flow_record([[1, 1]], **changes)
    names = [f"g{number}" for number in range(1, len(out_bps) + 1)]
    counted = [None if rate is None or window_s is None else round(rate * window_s / 8) for rate in out_bps]
    into = [None if each is None else round(each * (1 - lost_ratio)) for each in (counted[-1:] + counted[:-1])]
    rates = [None if each is None or not window_s else each * 8 / window_s for each in counted]
    ring = tuple(
        RingGuestRecord(
            guest=name,
            to=names[(place + 1) % len(names)],
            address=f"198.18.64.{place + 1}",
            mac=f"02:6c:77:00:00:{place:02x}",
            host_interface=f"lcg{place + 1}",
            out_bytes=counted[place],
            in_bytes=into[place],
            out_bps=rates[place],
            said_bps=out_bps[place],
            limiter=LimiterRecord(
                kind=KIND,
                interface=f"lcq{place + 1}",
                rate_bps=limits_bps[place % len(limits_bps)],
                burst_bytes=3028,
                passed_packets=1,
                dropped_packets=0,
            )
            if limits_bps
            else None,
            exit_status=exits[place] if exits else 0,
            output="",
        )
        for place, name in enumerate(names)
    )
    requested = base.requested.model_copy(
        update={"guests": len(names), "pattern": "ring", "limits_bps": limits_bps, "duration_s": 4.0}
    )
    verdict = weighed(derive_ring_reasons(requested, ring, window_s, 0, None))
    sum_bps, jain = sum_rates(each.out_bps for each in ring)
    return base.model_copy(
        update={
            "requested": requested,
            "ring": ring,
            "window_s": window_s,
            "sum_bps": sum_bps,
            "jain": jain,
            "flows": (),
            "senders": (),
            "sink": None,
            "origin_ns": None,
            "shared_from": None,
            "shared_to": None,
            "line_ratio": None,
            "start_skew_s": None,
            "verdict": verdict,
            "status": "failed" if verdict.status == "invalid" else "done",
            "failure": verdict.reasons[0].detail if verdict.status == "invalid" else None,
        }
    )


def inward_record(
    sent: Sequence[int | None],
    *,
    losses: Sequence[Mapping[str, int]] = (),
    sent_s: float = 2.0,
    guest: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    **changes: Any,
) -> FlowRecord:
    """Guests that are sent so many packets each; ``losses``: of each guest, by place. ``guest``: counts of the first
    guest that are others than these make, ``source`` of the source.
    """
    base = flow_record([[1, 1]], **changes)
    names = [f"g{number}" for number in range(1, len(sent) + 1)]
    total = sum(each or 0 for each in sent)
    offered = round((sent[0] or 0) / sent_s * PAYLOAD_BYTES * 8)

    def stream(name: str, packets: int | None) -> SentStream:
        return SentStream(
            stream=name,
            generator="pktgen",
            version=None,
            interface="eth1",
            sent_packets=packets,
            errors=0,
            error_text=None,
            started_monotonic_ns=10**9,
            stopped_monotonic_ns=3 * 10**9,
            started_wall_ns=None,
            elapsed_ns=round(sent_s * 1e9),
            idle_ns=None,
            delay_ns=1,
            burst_packets=None,
            requested_count=packets,
            stopped_by="count",
            raw=None,
        )

    guests = [
        ReceivingGuest(
            name=name,
            address=f"198.18.64.{place + 1}",
            mac=f"02:6c:77:00:00:{place:02x}",
            host_interface=f"lcg{place + 1}",
            own_stack=True,
        )
        for place, name in enumerate(names)
    ]
    uut, nic, counted = {}, [0] * len(STAT_NAMES), {}
    none = GuestCounts(nic=0, others=0, ip=0, udp=0, socket_full=0, no_reader=0, errors=0, reader=True)
    for place, (each, packets) in enumerate(zip(guests, sent, strict=True)):
        lost = {**(losses[place] if losses else {})}
        handed = (packets or 0) - lost.get("to_guest", 0)
        at_nic = handed - lost.get("guest_nic", 0)
        at_ip = at_nic - lost.get("guest_udp", 0)
        refused = {key: lost.get(f"guest_{key}", 0) for key in ("socket_full", "no_reader", "errors")}
        told = GuestCounts(
            nic=at_nic,
            others=0,
            ip=at_ip,
            udp=at_ip - sum(refused.values()) - lost.get("guest_unread", 0),
            socket_full=refused["socket_full"],
            no_reader=refused["no_reader"],
            errors=refused["errors"] + refused["socket_full"],
            reader=True,
        )
        counted[each.name] = (none, replace(told, **(guest or {})) if place == 0 else told)
        uut["", str(each.host_interface)] = list(nic)
        uut["", str(each.host_interface)][STAT_NAMES.index("tx_packets")] = handed
    uut["", "eth1"], at_source = list(nic), list(nic)
    uut["", "eth1"][STAT_NAMES.index("rx_packets")] = total
    at_source[STAT_NAMES.index("tx_packets")] = total

    def snapshot(values: Mapping[tuple[str, str], list[int]]) -> dict[tuple[str, str], CounterSample]:
        return {key: CounterSample(1, tuple(each)) for key, each in values.items()}

    window = ReceiveWindow(
        sent={each.name: stream(each.name, packets) for each, packets in zip(guests, sent, strict=True)},
        before=(snapshot(dict.fromkeys(uut, nic)), snapshot({("", "eth1"): nic})),
        after=(snapshot(uut), snapshot({("", "eth1"): at_source})),
        counted=counted,
    )
    receivers = tuple(build_receiver(each, window, PAYLOAD_BYTES) for each in guests)
    seen = build_source("src1", "eth1", "02:00:00:00:00:08", "eth1", window, "pktgen").model_copy(update=source or {})
    requested = base.requested.model_copy(
        update={"guests": len(names), "pattern": "in", "duration_s": sent_s, "offered_bps": offered}
    )
    sum_bps, jain = sum_rates(each.payload_bps for each in receivers)
    skew_s = start_skew_s(each.started_ns for each in receivers)
    most_bps = line_bps(base.link_speed_bps, PAYLOAD_BYTES)
    verdict = weighed(derive_receive_reasons(requested, receivers, seen, skew_s, 0, None, Tolerances()))
    return base.model_copy(
        update={
            "requested": requested,
            "receivers": receivers,
            "source": seen,
            "sum_bps": sum_bps,
            "jain": jain,
            "line_ratio": None if sum_bps is None else sum_bps / most_bps,
            "start_skew_s": skew_s,
            "flows": (),
            "line_bps": most_bps,
            "senders": (),
            "sink": None,
            "origin_ns": None,
            "shared_from": None,
            "shared_to": None,
            "verdict": verdict,
            "status": "failed" if verdict.status == "invalid" else "done",
            "failure": verdict.reasons[0].detail if verdict.status == "invalid" else None,
        }
    )
