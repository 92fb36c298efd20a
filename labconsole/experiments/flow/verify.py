"""A stored trial of flows computed again: its rates from its packets, its sums, its verdict from what is seen."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.flow.figures import line_bps, own_rate, shared, start_skew_s
from labconsole.experiments.flow.verdict import shown_reasons
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, same
from labconsole.measure.recompute.judged_again import judged_again, limits_of
from labconsole.model.record.flow import FlowRecord

SHOWN_ONLY = frozenset({"no_packets", "generator_failed", "limiter_missing", "start_skew", "swapped"})
"""Codes that nothing gives but what the record holds."""


def recompute_flow(record: FlowRecord) -> list[Discrepancy]:
    """What of a trial does not follow, or contradicts itself."""
    return [*_counts(record), *_rates(record), *_verdict(record)]


def _counts(record: FlowRecord) -> Iterator[Discrepancy]:
    asked = record.requested
    if len(record.senders) != asked.guests:
        yield Discrepancy(where="senders", stored=len(record.senders), recomputed=asked.guests)
    wanted = asked.guests - 1 + asked.greedy
    if record.sink is not None and len(record.flows) != wanted:
        yield Discrepancy(where="flows", stored=len(record.flows), recomputed=wanted)
    for index, flow in enumerate(record.flows):
        total = sum(flow.bin_packets) + flow.outside_packets
        if total != flow.packets:
            yield Discrepancy(where=f"flows[{index}].packets", stored=flow.packets, recomputed=total)
    for index, sender in enumerate(record.senders):
        packets = sum(flow.packets for flow in record.flows if flow.guest == sender.guest)
        if sender.packets != packets:
            yield Discrepancy(where=f"senders[{index}].packets", stored=sender.packets, recomputed=packets)
        if sender.lost_packets is not None and sender.lost_packets != (sender.host_packets or 0) - packets:
            yield against(f"senders[{index}].lost_packets", "is not what came out of the guest less what arrived")
    sink = record.sink
    if sink is not None:
        total = sum(flow.packets for flow in record.flows) + sink.foreign_packets + sink.other_packets
        if total != sink.captured_packets:
            yield Discrepancy(where="sink.captured_packets", stored=sink.captured_packets, recomputed=total)


def _rates(record: FlowRecord) -> Iterator[Discrepancy]:
    asked, names = record.requested, [sender.guest for sender in record.senders]
    common = shared(record.flows, names, record.origin_ns, asked.payload_bytes, asked.bin_s)
    most_bps = line_bps(record.link_speed_bps, asked.payload_bytes)
    skew_s = None if asked.second_after_s else start_skew_s(record.flows, names)
    wanted: dict[str, tuple[Number, Number]] = {
        "line_bps": (record.line_bps, most_bps),
        "shared_from": (record.shared_from, common.first),
        "shared_to": (record.shared_to, common.stop),
        "sum_bps": (record.sum_bps, common.sum_bps),
        "jain": (record.jain, common.jain),
        "line_ratio": (record.line_ratio, None if common.sum_bps is None else common.sum_bps / most_bps),
        "start_skew_s": (record.start_skew_s, skew_s),
    }
    for index, sender in enumerate(record.senders):
        own_bps = own_rate(record.flows, sender.guest, asked.payload_bytes)
        wanted[f"senders[{index}].payload_bps"] = sender.payload_bps, own_bps
        shared_bps = None if common.each_bps is None else common.each_bps.get(sender.guest)
        wanted[f"senders[{index}].shared_bps"] = sender.shared_bps, shared_bps
    for where, (stored, again) in wanted.items():
        if not same(stored, again):
            yield Discrepancy(where=where, stored=stored, recomputed=again)


def _verdict(record: FlowRecord) -> Iterator[Discrepancy]:
    """What the record shows has its reason, and nothing else of that kind."""
    again = shown_reasons(
        record.requested,
        record.flows,
        record.senders,
        record.sink,
        start_skew_s=record.start_skew_s,
        swapped_pages=record.swapped_pages,
        limits=limits_of(record.in_force),
    )
    yield from judged_again(record, again, SHOWN_ONLY)


RECOMPUTE = recompute_flow
