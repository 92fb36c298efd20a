"""Implausible counts in a record of flows: more packets than existed or fit on the link, or in no time. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.flow.record import FlowRecord, LimiterRecord, RingGuestRecord, SenderRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, against

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
    yield from _ring(record)
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


def _ring(record: FlowRecord) -> Iterator[Discrepancy]:
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
