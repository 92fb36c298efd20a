"""Recomputation of a stored trial of flows: rates from packets, their sums, and the verdict from observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from labconsole.experiments.flow.plausibility import find_implausible
from labconsole.experiments.flow.record import FlowRecord, ReceiverRecord, SinkFlowRecord
from labconsole.experiments.flow.ring_receive_rules import IN_RULES, RING_RULES
from labconsole.experiments.flow.rules import OUT_RULES
from labconsole.experiments.flow.verify_scenarios import recompute_disk, recompute_weights
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, same
from labconsole.measure.recompute.verdict_check import (
    VerdictRules,
    empty_trial_problems,
    recompute_verdict,
    unjudged_reasons,
)

SEEN_NOTHING: VerdictRules[FlowRecord] = VerdictRules(
    only=dict.fromkeys(OUT_RULES.only, lambda record, limits: False), also={}, excused={}
)
"""Rules for a trial without guests, which has no reason that rests on what they did."""


def recompute_flow(record: FlowRecord) -> list[Discrepancy]:
    """Find values of a trial that do not follow from its data, or contradict each other."""
    return [*_recomputed(record), *find_implausible(record), *recompute_verdict(record, _rules(record))]


def _recomputed(record: FlowRecord) -> Iterator[Discrepancy]:
    if record.set_up is None:
        seen = (*record.flows, *record.senders, *record.ring, *record.receivers)
        yield from empty_trial_problems(record, seen)
        yield from _rates(record)
    elif record.requested.pattern == "ring":
        yield from _ring(record)
    elif record.requested.pattern == "in":
        yield from _receive(record)
    else:
        for check in (_counts, _rates, recompute_weights, recompute_disk):
            yield from check(record)


def _rules(record: FlowRecord) -> VerdictRules[FlowRecord]:
    """The rules for what the record's guests do."""
    if record.set_up is None:
        return SEEN_NOTHING
    return {"out": OUT_RULES, "ring": RING_RULES, "in": IN_RULES}[record.requested.pattern]


def _ring(record: FlowRecord) -> Iterator[Discrepancy]:
    """Check that the ring is closed, and its rates against its bytes."""
    ring, names = record.ring, [each.guest for each in record.ring]
    if len(ring) != record.requested.guests or record.flows or record.senders or record.sink is not None:
        yield Discrepancy(where="ring", stored=len(ring), recomputed=record.requested.guests)
    for index, (each, after) in enumerate(zip(ring, [*names[1:], *names[:1]], strict=True)):
        if each.to != after:
            yield Discrepancy(where=f"ring[{index}].to", stored=each.to, recomputed=after)
    rates: list[float] = []
    for index, each in enumerate(ring):
        took_s, again = record.window_s, None
        if each.out_bytes is not None and took_s:
            again = 8 * each.out_bytes / took_s
            rates.append(again)
        if not same(each.out_bps, again):
            yield Discrepancy(where=f"ring[{index}].out_bps", stored=each.out_bps, recomputed=again)
    whole = len(rates) == len(ring) and bool(rates)
    payload_bytes = record.requested.payload_bytes
    most_bps = record.link_speed_bps * payload_bytes / (payload_bytes + 66)
    total_bps, squares = sum(rates), sum(rate * rate for rate in rates)
    wanted: dict[str, tuple[Number, Number]] = {
        "line_bps": (record.line_bps, most_bps),
        "sum_bps": (record.sum_bps, total_bps if whole else None),
        "jain": (record.jain, total_bps * total_bps / (len(rates) * squares) if whole and squares else None),
    }
    for where, (stored, computed) in wanted.items():
        if not same(stored, computed):
            yield Discrepancy(where=where, stored=stored, recomputed=computed)


def _receive(record: FlowRecord) -> Iterator[Discrepancy]:
    """Check guests that receive: losses against the counts around each place, and rates against what was read."""
    requested, receivers = record.requested, record.receivers
    if len(receivers) != requested.guests or record.flows or record.senders or record.sink is not None:
        yield Discrepancy(where="receivers", stored=len(receivers), recomputed=requested.guests)
    wanted: dict[str, tuple[Number, Number]] = {}
    rates: list[float] = []
    for index, each in enumerate(receivers):
        where = f"receivers[{index}]"
        losses, reported = _losses(each), {loss.hop: loss.packets for loss in each.losses}
        if reported != losses:
            yield against(f"{where}.losses", f"are {reported}, and by the counts {losses}")
        known = each.sent_packets is not None and each.udp_packets is not None
        lost = (each.sent_packets or 0) - (each.udp_packets or 0) if known else None
        wanted[f"{where}.lost_packets"] = each.lost_packets, lost
        wanted[f"{where}.unplaced_packets"] = (
            each.unplaced_packets,
            None if lost is None else lost - sum(losses.values()),
        )
        for name, packets in (("offered_bps", each.sent_packets), ("payload_bps", each.udp_packets)):
            again = None if packets is None or not each.sent_s else 8 * requested.payload_bytes * packets / each.sent_s
            wanted[f"{where}.{name}"] = getattr(each, name), again
            if name == "payload_bps" and again is not None:
                rates.append(again)
    whole, total_bps, squares = len(rates) == len(receivers), sum(rates), sum(rate * rate for rate in rates)
    whole = whole and bool(rates)
    begun = [each.started_ns for each in receivers if each.started_ns is not None]
    most_bps = record.link_speed_bps * requested.payload_bytes / (requested.payload_bytes + 66)
    wanted |= {
        "line_bps": (record.line_bps, most_bps),
        "sum_bps": (record.sum_bps, total_bps if whole else None),
        "line_ratio": (record.line_ratio, total_bps / most_bps if whole else None),
        "start_skew_s": (record.start_skew_s, (max(begun) - min(begun)) / 1e9 if len(begun) > 1 else None),
    }
    if whole and squares:
        wanted["jain"] = record.jain, total_bps * total_bps / (len(rates) * squares)
    yield from (
        Discrepancy(where=where, stored=stored, recomputed=again)
        for where, (stored, again) in wanted.items()
        if not same(stored, again)
    )


def _losses(each: ReceiverRecord) -> dict[str, int]:
    """Losses by place, as docs/flow.md defines them."""
    way = [
        ("", each.sent_packets),
        ("to_guest", each.handed_packets),
        ("guest_nic", each.nic_packets),
        ("guest_udp", each.ip_packets),
    ]
    known = [(place, count) for place, count in way if count is not None]
    found = {place: former - count for (_, former), (place, count) in pairwise(known)}
    refused = {
        "guest_no_reader": each.no_reader_packets,
        "guest_socket_full": each.socket_full_packets,
        "guest_errors": each.error_packets,
    }
    found |= {place: count for place, count in refused.items() if count is not None}
    taken = [each.udp_packets, *refused.values()]
    if each.ip_packets is not None and None not in taken:
        found["guest_unread"] = each.ip_packets - sum(count or 0 for count in taken)
    return found


def _counts(record: FlowRecord) -> Iterator[Discrepancy]:
    requested = record.requested
    if len(record.senders) != requested.senders:
        yield Discrepancy(where="senders", stored=len(record.senders), recomputed=requested.senders)
    wanted = requested.senders - 1 + requested.greedy
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
        total += 0 if record.disk is None else record.disk.mark_packets
        if total != sink.captured_packets:
            yield Discrepancy(where="sink.captured_packets", stored=sink.captured_packets, recomputed=total)


def _rates(record: FlowRecord) -> Iterator[Discrepancy]:
    """Check rates by the formulas of docs/flow.md, without the functions that made the record."""
    requested = record.requested
    bits, window = 8 * requested.payload_bytes, _shared_bins(record)
    each_bps: dict[str, float] = {}
    if window is not None:
        for sender in record.senders:
            counts = [each.bin_packets[window.start : window.stop] for each in _guest_flows(record, sender.guest)]
            each_bps[sender.guest] = sum(map(sum, counts)) * bits / (len(window) * requested.bin_s)
    total_bps = sum(each_bps.values()) if each_bps else None
    squares = sum(rate * rate for rate in each_bps.values())
    wire_bytes = requested.payload_bytes + 66  # Ethernet 14, IPv4 20, UDP 8, check sequence 4, preamble and gap 20
    most_bps = record.link_speed_bps * requested.payload_bytes / wire_bytes
    firsts = [_least(each.first_at_ns for each in _guest_flows(record, sender.guest)) for sender in record.senders]
    late_ns = round(requested.second_after_s * 1e9)
    known = [first if place == 0 else first - late_ns for place, first in enumerate(firsts) if first is not None]
    skew_s = (max(known) - min(known)) / 1e9 if len(known) > 1 else None
    wanted: dict[str, tuple[Number, Number]] = {
        "line_bps": (record.line_bps, most_bps),
        "shared_from": (record.shared_from, None if window is None else window.start),
        "shared_to": (record.shared_to, None if window is None else window.stop),
        "sum_bps": (record.sum_bps, total_bps),
        "jain": (record.jain, total_bps * total_bps / (len(each_bps) * squares) if total_bps and squares else None),
        "line_ratio": (record.line_ratio, None if total_bps is None else total_bps / most_bps),
        "start_skew_s": (record.start_skew_s, skew_s),
    }
    for index, sender in enumerate(record.senders):
        own = _guest_flows(record, sender.guest)
        first, packets = _least(each.first_at_ns for each in own), sum(each.packets for each in own)
        last = max((each.last_at_ns for each in own if each.last_at_ns is not None), default=None)
        took_ns = None if first is None or last is None else last - first
        took_ns = took_ns if took_ns is not None and took_ns > 0 else None
        own_bps = (packets - 1) * bits / (took_ns / 1e9) if took_ns else None
        wanted[f"senders[{index}].payload_bps"] = sender.payload_bps, own_bps
        offered_bps = (
            None if sender.host_packets is None or not took_ns else sender.host_packets * bits / (took_ns / 1e9)
        )
        wanted[f"senders[{index}].offered_bps"] = sender.offered_bps, offered_bps
        wanted[f"senders[{index}].shared_bps"] = sender.shared_bps, each_bps.get(sender.guest)
    for where, (stored, again) in wanted.items():
        if not same(stored, again):
            yield Discrepancy(where=where, stored=stored, recomputed=again)


def _guest_flows(record: FlowRecord, guest: str) -> list[SinkFlowRecord]:
    return [each for each in record.flows if each.guest == guest]


def _least(times: Iterable[int | None]) -> int | None:
    return min((each for each in times if each is not None), default=None)


def _shared_bins(record: FlowRecord) -> range | None:
    """The bins that begin after the first packet of every flow and end before the last of every one, or None without
    any.
    """
    bin_ns, origin_ns = round(record.requested.bin_s * 1e9), record.origin_ns
    begun, ended = [each.first_at_ns for each in record.flows], [each.last_at_ns for each in record.flows]
    if origin_ns is None or not begun or None in begun or None in ended:
        return None
    inside = [
        number
        for number in range(max(len(each.bin_packets) for each in record.flows))
        if all(first is not None and origin_ns + number * bin_ns >= first for first in begun)
        and all(last is not None and origin_ns + (number + 1) * bin_ns <= last for last in ended)
    ]
    return range(inside[0], inside[-1] + 1) if inside else None


RECOMPUTE = recompute_flow


def UNJUDGED(record: FlowRecord) -> Iterator[str]:
    """Reasons of its verdict that cannot be judged again."""
    return unjudged_reasons(record, _rules(record))
