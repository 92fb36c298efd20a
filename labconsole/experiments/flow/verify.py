"""Recomputation of a stored trial of flows: rates from packets, their sums, and the verdict from observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from labconsole.experiments.flow.record import (
    FlowRecord,
    LimiterRecord,
    ReceiverRecord,
    RingGuestRecord,
    SenderRecord,
    SinkFlowRecord,
    WeightStepRecord,
)
from labconsole.experiments.flow.rules import IN_RULES, NEVER, OUT_RULES, RING_RULES
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, differences, same
from labconsole.measure.recompute.guest_trial import (
    VerdictRules,
    empty_trial_problems,
    recompute_verdict,
    unjudged_reasons,
)

# -- plausibility ------------------------------------------------------------------------------------------------------
# Implausible counts in a record of flows: more packets than existed or fit on the link, or in no time. Pure.

FRAME_BYTES = 46
"""Bytes of a frame without its payload: Ethernet, IPv4, UDP and the check sequence."""

SHARED_QUEUE = "htb on ifb"
"""Limiter kind of guests that share by weights: they are classes of one queue, on one interface."""


def find_implausible(record: FlowRecord) -> Iterator[Discrepancy]:
    """Find values in a record that no trial can have produced."""
    yield from trial.common_problems(record)
    yield from _request(record)
    yield from trial.program_problems("program", record.program, record.requested.guests)
    yield from trial.sink_problems("sink", record.sink)
    for where, guests in (("senders", record.senders), ("ring", record.ring), ("receivers", record.receivers)):
        keys = {
            "guest": lambda each: each.guest,
            "host_interface": lambda each: each.host_interface,
        }
        yield from trial.duplicate_problems(where, guests, keys)
        yield from trial.address_problems(record, where, guests)
        for place, each in enumerate(guests):
            yield from _limiter(f"{where}[{place}].limiter", getattr(each, "limiter", None), each)
    limited: list[SenderRecord | RingGuestRecord] = [*record.senders, *record.ring]
    queues = [each for each in limited if each.limiter is not None and each.limiter.kind != SHARED_QUEUE]
    queue_of = {"limiter.interface": lambda each: each.limiter.interface}
    yield from trial.duplicate_problems("senders" if record.senders else "ring", queues, queue_of)
    yield from _flows(record)
    yield from _implausible_ring(record)
    yield from _received(record)
    yield from _scenario(record)


def _request(record: FlowRecord) -> Iterator[Discrepancy]:
    requested = record.requested
    is_possible = (
        requested.offered_bps >= 0 and 0 < requested.bin_s <= requested.duration_s and requested.payload_bytes > 0
    )
    if not is_possible or requested.second_after_s < 0 or min(requested.limits_bps, default=1) <= 0:
        yield against("requested", "asks for an impossible load, duration, bin, limit or payload")
    if record.link_speed_bps <= 0:
        yield against("link_speed_bps", "is not a speed", record.link_speed_bps)


def _limiter(where: str, seen: LimiterRecord | None, guest: object) -> Iterator[Discrepancy]:
    """The packets that a limiter passed and dropped must have left the guest."""
    if seen is None:
        return
    yield from trial.sign_problems(((f"{where}.rate_bps", seen.rate_bps), (f"{where}.burst_bytes", seen.burst_bytes)))
    left = getattr(guest, "host_packets", None)
    if seen.dropped_packets is not None:
        both = seen.dropped_packets + (seen.passed_packets or 0)
        yield from trial.excess_problems(
            f"{where}.dropped_packets", both, left, "were passed on or dropped by a limiter"
        )


def _flows(record: FlowRecord) -> Iterator[Discrepancy]:
    requested, flows = record.requested, record.flows
    yield from trial.duplicate_problems("flows", flows, {"udp_source_port": lambda each: each.udp_source_port})
    yield from trial.numbering_problems("flows", "flow", flows)
    guests = {sender.guest for sender in record.senders}
    for place, each in enumerate(flows):
        if each.guest not in guests:
            yield against(f"flows[{place}].guest", "is not one of the senders", each.guest[:80])
        yield from trial.bin_problems(f"flows[{place}]", each, record.origin_ns, requested.bin_s)
    firsts = [each.first_at_ns for each in flows if each.first_at_ns is not None]
    lasts = [each.last_at_ns for each in flows if each.last_at_ns is not None]
    if not firsts or not lasts:
        return
    span_s = (max(lasts) - min(firsts)) / 1e9
    yield from trial.duration_problems(record, [("flows", span_s)])
    is_ours = record.sink is not None and not record.sink.foreign_packets and record.disk is None
    if record.origin_ns is not None and min(firsts) != record.origin_ns and is_ours:
        yield against("origin_ns", "is not when the first packet of all came", record.origin_ns)
    if "offered_over" not in {reason.code for reason in record.verdict.reasons}:
        frame_bytes = requested.payload_bytes + FRAME_BYTES
        packets = sum(each.packets for each in flows)
        yield from trial.link_problems("flows", packets, frame_bytes, span_s, record.link_speed_bps)


def _implausible_ring(record: FlowRecord) -> Iterator[Discrepancy]:
    yield from trial.duration_problems(record, [("window_s", record.window_s)])
    yield from trial.sign_problems([("window_s", record.window_s)])
    for place, each in enumerate(record.ring):
        of = ((f"ring[{place}].out_bytes", each.out_bytes), (f"ring[{place}].in_bytes", each.in_bytes))
        yield from trial.sign_problems((*of, (f"ring[{place}].said_bps", each.said_bps)))


def _received(record: FlowRecord) -> Iterator[Discrepancy]:
    """Guests receive only what one port received over one link."""
    receivers, source = record.receivers, record.source
    for place, each in enumerate(receivers):
        where = f"receivers[{place}].sent_s"
        yield from trial.duration_problems(record, [(where, each.sent_s)])
    times_s = [each.sent_s for each in receivers if each.sent_s is not None]
    if source is None or not times_s or len(times_s) < len(receivers):
        return
    handed = [each.handed_packets for each in receivers]
    if None not in handed:
        total = sum(each or 0 for each in handed)
        yield from trial.excess_problems(
            "source.uut_packets", total, source.uut_packets, "were handed to guests", len(handed)
        )
    frame_bytes, sent_s = record.requested.payload_bytes + FRAME_BYTES, max(times_s) + (record.start_skew_s or 0.0)
    read = sum(each.udp_packets or 0 for each in receivers)
    for where, packets in (("receivers", read), ("source.uut_packets", source.uut_packets)):
        yield from trial.link_problems(where, packets, frame_bytes, sent_s, record.link_speed_bps)


def _scenario(record: FlowRecord) -> Iterator[Discrepancy]:
    """Disk work and weight changes must be in order and within the trial."""
    disk, weights = record.disk, record.weights
    if disk is not None:
        if record.requested.disk is not None and disk.job != record.requested.disk.job:
            yield against("disk.job", f"is {disk.job[:80]}, but another one was requested", disk.job[:80])
        if (disk.mark_packets == 0) != (disk.start_ns is None and disk.end_ns is None):
            yield against("disk.mark_packets", "has no times, or times without packets", disk.mark_packets)
        if disk.start_ns is not None and disk.end_ns is not None:
            took_s = (disk.end_ns - disk.start_ns) / 1e9
            yield from trial.sign_problems([("disk.end_ns", took_s)])
            yield from trial.duration_problems(record, [("disk.end_ns", took_s)])
        if disk.guest in {sender.guest for sender in record.senders}:
            yield against("disk.guest", "is one of those that send", disk.guest[:80])
    if weights is not None:
        if weights.looked_ns is not None and weights.begun_ns is not None and weights.looked_ns > weights.begun_ns:
            yield against("weights.looked_ns", "is after the queue was seen to be in use", weights.looked_ns)
        of = [(f"weights.steps[{place}].taken_s", step.taken_s) for place, step in enumerate(weights.steps)]
        yield from trial.duration_problems(record, of)
        yield from trial.sign_problems(of)
        taken = [found for _, found in of if found is not None]
        if taken != sorted(taken):
            yield against("weights.steps", "did not take effect in their order")


# -- weights, and work on a disk ---------------------------------------------------------------------------------------
# Recomputation of the results of weights and of work on a disk, from packets in bins.
#
# Shares no code with the functions that made the record.

SETTLED_NS = 200_000_000


def recompute_weights(record: FlowRecord) -> Iterator[Discrepancy]:
    """Find values of the weights' steps that do not follow from the packets."""
    requested, seen = record.requested.weights, record.weights
    if requested is None or seen is None:
        if (requested is None) != (seen is None):
            yield against("weights", "is present though none were requested, or is missing")
        return
    frame_bytes = record.requested.payload_bytes + 42
    share = int(0.985 * record.link_speed_bps * frame_bytes / (frame_bytes + 24))
    if abs(seen.link_bps - share) > 1:
        yield Discrepancy(where="weights.link_bps", stored=seen.link_bps, recomputed=share)
    if tuple(step.weights for step in seen.steps) != requested.steps:
        yield against("weights.steps", "are not what was requested")
        return
    errors = []
    for number, step in enumerate(seen.steps):
        due_s = number * requested.every_s
        yield from _compared(f"weights.steps[{number}].due_s", step.due_s, due_s)
        until_s = None if number + 1 == len(seen.steps) else due_s + requested.every_s
        yield from _step(record, f"weights.steps[{number}]", step, until_s)
        errors.append(step.error_ratio)
    known = [each for each in errors if each is not None]
    mean = sum(known) / len(known) if known and len(known) == len(errors) else None
    yield from _compared("weights.mean_error_ratio", seen.mean_error_ratio, mean)


def _step(record: FlowRecord, where: str, step: WeightStepRecord, until_s: float | None) -> Iterator[Discrepancy]:
    bin_ns, first, stop = round(record.requested.bin_s * 1e9), record.shared_from, record.shared_to
    bins: list[int] = []
    if step.taken_s is not None and first is not None and stop is not None:
        from_ns = round(step.taken_s * 1e9) + SETTLED_NS
        until_ns = stop * bin_ns if until_s is None else round(until_s * 1e9)
        bins = [
            each
            for each in range(first, min(stop, _counted(record)))
            if each * bin_ns >= from_ns and (each + 1) * bin_ns <= until_ns
        ]
    packets = [
        sum(
            flow.bin_packets[each]
            for flow in record.flows
            if flow.guest == sender.guest
            for each in bins
            if each < len(flow.bin_packets)
        )
        for sender in record.senders
    ]
    total, weight = sum(packets), sum(step.weights)
    if not total:
        bins = []
    shares = [each / total for each in packets] if bins else []
    apart = [abs(share - own / weight) for share, own in zip(shares, step.weights, strict=False)]
    yield from _compared(f"{where}.first_bin", step.first_bin, bins[0] if bins else None)
    yield from _compared(f"{where}.stop_bin", step.stop_bin, bins[-1] + 1 if bins else None)
    error = sum(apart) / len(apart) if apart and not record.requested.limits_bps else None
    yield from _compared(f"{where}.error_ratio", step.error_ratio, error)
    filled = None
    if bins and record.weights is not None:
        frame_bits = 8 * (record.requested.payload_bytes + 42)
        filled = total * frame_bits / (len(bins) * record.requested.bin_s) / record.weights.link_bps
    yield from _compared(f"{where}.filled_ratio", step.filled_ratio, filled)
    if len(shares) != len(step.share_ratios) or not all(map(same, step.share_ratios, shares)):
        yield against(f"{where}.share_ratios", "do not follow from the packets in its bins")


def recompute_disk(record: FlowRecord) -> Iterator[Discrepancy]:
    """Find values of the work on a disk that do not follow from the packets."""
    requested, seen = record.requested.disk, record.disk
    if requested is None or seen is None:
        if seen is not None or (requested is not None and record.senders):
            yield against("disk", "is present though none was requested, or is missing")
        return
    begun = [flow.first_at_ns for flow in record.flows]
    ended = [flow.last_at_ns for flow in record.flows]
    before: list[int] = []
    during: list[int] = []
    after: list[int] = []
    if seen.start_ns is not None and seen.end_ns is not None and record.origin_ns is not None and None not in begun:
        origin_ns, bin_ns = record.origin_ns, round(record.requested.bin_s * 1e9)
        last_ns = min(each for each in ended if each is not None)
        for number in range(min((last_ns - origin_ns) // bin_ns, _counted(record))):
            from_ns = origin_ns + number * bin_ns
            if any(each is not None and from_ns < each for each in begun):
                continue
            before += [number] if from_ns + bin_ns <= seen.start_ns else []
            during += [number] if from_ns >= seen.start_ns and from_ns + bin_ns <= seen.end_ns else []
            after += [number] if from_ns >= seen.end_ns else []

    def packets(number: int) -> int:
        return sum(flow.bin_packets[number] for flow in record.flows if number < len(flow.bin_packets))

    base = sum(map(packets, before)) / len(before) if before else 0.0
    ratio = sum(map(packets, during)) / len(during) / base if base and during else None
    again = next((number for number in after if packets(number) >= 0.95 * base), None)
    again = again if before and during else None
    recovered_s = None if again is None else (again - after[0]) * record.requested.bin_s
    for where, bins, stored in (("before", before, seen.before_bins), ("during", during, seen.during_bins)):
        if stored != ((bins[0], bins[-1] + 1) if bins else None):
            yield against(f"disk.{where}_bins", "are not those between the marks")
    yield from _compared("disk.during_ratio", seen.during_ratio, ratio)
    yield from _compared("disk.recovered_s", seen.recovered_s, recovered_s)


def _counted(record: FlowRecord) -> int:
    """One more than the number of bins with counts."""
    return 1 + max((len(flow.bin_packets) for flow in record.flows), default=0)


def _compared(where: str, stored: Number, recomputed: Number) -> Iterator[Discrepancy]:
    yield from differences({where: (stored, recomputed)})


# -- recomputation -----------------------------------------------------------------------------------------------------

SEEN_NOTHING: VerdictRules[FlowRecord] = VerdictRules(only=NEVER, also={}, excused={})
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
    wanted: dict[str, tuple[Number, Number]] = {}
    for index, each in enumerate(ring):
        took_s, again = record.window_s, None
        if each.out_bytes is not None and took_s:
            again = 8 * each.out_bytes / took_s
            rates.append(again)
        wanted[f"ring[{index}].out_bps"] = each.out_bps, again
    whole = len(rates) == len(ring) and bool(rates)
    wanted |= {
        "line_bps": (record.line_bps, _line_bps(record)),
        "sum_bps": (record.sum_bps, sum(rates) if whole else None),
        "jain": (record.jain, trial.compute_jain(rates) if whole else None),
    }
    yield from differences(wanted)


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
    whole, total_bps, most_bps = bool(rates) and len(rates) == len(receivers), sum(rates), _line_bps(record)
    wanted |= {
        "line_bps": (record.line_bps, most_bps),
        "sum_bps": (record.sum_bps, total_bps if whole else None),
        "line_ratio": (record.line_ratio, total_bps / most_bps if whole else None),
        "start_skew_s": (record.start_skew_s, trial.compute_skew_s(each.started_ns for each in receivers)),
    }
    if whole and (jain := trial.compute_jain(rates)) is not None:
        wanted["jain"] = record.jain, jain
    yield from differences(wanted)


def _line_bps(record: FlowRecord) -> float:
    """What the link carries of this payload: each datagram has Ethernet 14, IPv4 20, UDP 8, check sequence 4, preamble
    and gap 20 in addition.
    """
    payload_bytes = record.requested.payload_bytes
    return record.link_speed_bps * payload_bytes / (payload_bytes + 66)


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
    bits = 8 * requested.payload_bytes
    window = trial.find_shared_bins(record.flows, record.origin_ns, requested.bin_s)
    each_bps: dict[str, float] = {}
    if window is not None:
        for sender in record.senders:
            counts = [each.bin_packets[window.start : window.stop] for each in _guest_flows(record, sender.guest)]
            each_bps[sender.guest] = sum(map(sum, counts)) * bits / (len(window) * requested.bin_s)
    total_bps = sum(each_bps.values()) if each_bps else None
    most_bps = _line_bps(record)
    firsts = [_least(each.first_at_ns for each in _guest_flows(record, sender.guest)) for sender in record.senders]
    late_ns = round(requested.second_after_s * 1e9)
    known = [first if place == 0 else first - late_ns for place, first in enumerate(firsts) if first is not None]
    wanted: dict[str, tuple[Number, Number]] = {
        "line_bps": (record.line_bps, most_bps),
        "shared_from": (record.shared_from, None if window is None else window.start),
        "shared_to": (record.shared_to, None if window is None else window.stop),
        "sum_bps": (record.sum_bps, total_bps),
        "jain": (record.jain, trial.compute_jain(each_bps.values())),
        "line_ratio": (record.line_ratio, None if total_bps is None else total_bps / most_bps),
        "start_skew_s": (record.start_skew_s, trial.compute_skew_s(known)),
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
    yield from differences(wanted)


def _guest_flows(record: FlowRecord, guest: str) -> list[SinkFlowRecord]:
    return [each for each in record.flows if each.guest == guest]


def _least(times: Iterable[int | None]) -> int | None:
    return min((each for each in times if each is not None), default=None)


RECOMPUTE = recompute_flow


def UNJUDGED(record: FlowRecord) -> Iterator[str]:
    """Reasons of its verdict that cannot be judged again."""
    return unjudged_reasons(record, _rules(record))
