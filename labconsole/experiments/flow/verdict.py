"""The verdict on one trial of flows, from observations of guests, limiters, sink and surroundings. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from labconsole.experiments.flow.disk import disk_reasons
from labconsole.experiments.flow.limiters import (
    CREDIT_RATIO,
    CREDIT_STEP_BPS,
    QUEUE_S,
    credit_queue_s,
    waits_for_credit,
)
from labconsole.experiments.flow.rates import (
    FULL_LINE_RATIO,
    HEADER_BYTES,
    intended_bps,
    intended_time_s,
    let_through_bps,
    sent_for_s,
)
from labconsole.experiments.flow.record import (
    BackgroundDiskRecord,
    FlowRequested,
    ReceiverRecord,
    RingGuestRecord,
    SenderRecord,
    SinkFlowRecord,
    SinkRecord,
    SourceRecord,
    WeightsRecord,
)
from labconsole.experiments.flow.ring import ring_reasons
from labconsole.experiments.flow.weights import LINK_RATIO, weight_reasons
from labconsole.model.record.kind import ProgramRecord
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.crew_trial import sink_reasons
from labconsole.verdict.reasons import program_reasons, reason, swap_reasons

# -- guests that receive -----------------------------------------------------------------------------------------------
# Reasons to doubt a trial of guests that receive, derived from its record.


def receive_reasons(
    requested: FlowRequested, receivers: Sequence[ReceiverRecord], source: SourceRecord | None, limits: Tolerances
) -> Iterator[Reason]:
    """Reasons derived from the record alone, so that anyone can judge it again."""
    for each in receivers:
        yield from _sent(requested, each, limits)
        yield from _read(each)
        yield from _more_than_given(each, limits)
    sent = [each.sent_packets for each in receivers]
    if source is None or not receivers or None in sent:
        return
    total = sum(packets or 0 for packets in sent)
    where = f"{source.node}/{source.interface}"
    if source.nic_packets is not None and source.nic_packets < total:
        detail = f"{where}: {total} packets were sent, and {source.nic_packets} left its NIC"
        yield reason("lost_at_source", detail, node=source.node, packets=total - source.nic_packets)
    if source.uut_packets is not None and source.uut_packets - total > limits.foreign_packets:
        detail = f"{source.uut_packets} packets arrived at {source.uut_interface}, of {total} that were sent"
        yield reason("foreign_frames", detail, packets=source.uut_packets - total)


def _sent(requested: FlowRequested, each: ReceiverRecord, limits: Tolerances) -> Iterator[Reason]:
    if each.sent_packets is None or each.sent_s is None or each.stopped_by == "error":
        why = f": {each.output}" if each.output else ""
        yield reason("generator_failed", f"the source did not send to {each.guest} as requested{why}", guest=each.guest)
        return
    if each.sent_packets == 0:
        yield reason("no_packets", f"nothing was sent to {each.guest}", guest=each.guest)
    if each.errors:
        yield reason("generator_errors", f"{each.errors} errors in sending to {each.guest}", guest=each.guest)
    offered_bps = each.offered_bps or 0.0
    if offered_bps < (1 - limits.offered_ratio) * requested.offered_bps:
        detail = f"{each.guest} was sent {offered_bps:.0f} bit/s of payload, of {requested.offered_bps} requested"
        yield reason("offered_short", detail, guest=each.guest, offered_bps=offered_bps)
    if each.sent_s < (1 - limits.duration_ratio) * requested.duration_s:
        detail = f"{each.guest} was sent to for {each.sent_s:.3f} s, of {requested.duration_s:g}"
        yield reason("duration_cut", detail, guest=each.guest, sent_s=each.sent_s)
    elif each.sent_s > (1 + limits.duration_ratio) * requested.duration_s:
        detail = f"{each.guest} was sent to for {each.sent_s:.3f} s instead of {requested.duration_s:g}"
        yield reason("duration_stretched", detail, guest=each.guest, sent_s=each.sent_s)


def _read(each: ReceiverRecord) -> Iterator[Reason]:
    arrived = [each.udp_packets, each.socket_full_packets, each.no_reader_packets, each.ip_packets]
    if each.sent_packets and each.udp_packets == 0 and not any(arrived):
        detail = f"{each.guest}: none of the {each.sent_packets} packets sent to it arrived"
        yield reason("no_packets", detail, guest=each.guest)
    if each.udp_packets is None:
        yield reason("not_measured", f"{each.guest} did not say how many datagrams it read", guest=each.guest)
    elif not each.reader:
        detail = f"{each.guest}: its reader had no socket at both ends of the trial"
        yield reason("reader_missing", detail, guest=each.guest)


def _more_than_given(each: ReceiverRecord, limits: Tolerances) -> Iterator[Reason]:
    """A guest cannot count more than it was given: no packets appear on the way."""
    if None not in (each.handed_packets, each.sent_packets):
        surplus = (each.handed_packets or 0) - (each.sent_packets or 0)
        if surplus > limits.foreign_packets:
            detail = f"{each.guest} was handed {surplus} packets more than were sent to it"
            yield reason("foreign_frames", detail, guest=each.guest, packets=surplus)
    taken = [each.udp_packets, each.socket_full_packets, each.no_reader_packets, each.error_packets]
    at_udp = None if None in taken else sum(count or 0 for count in taken)
    places = [
        ("sent to it", each.sent_packets),
        ("handed to it", each.handed_packets),
        ("in at its NIC", each.nic_packets),
        ("delivered by its IP layer", each.ip_packets),
        ("counted by its UDP layer", at_udp),
    ]
    known = [(place, count) for place, count in places if count is not None]
    for (place, count), (next_place, more) in itertools.pairwise(known):
        if more > count and place != "sent to it":
            detail = f"{each.guest}: {more} packets {next_place}, and {count} {place}"
            yield reason("witnesses_disagree", detail, guest=each.guest)
    if None not in (each.udp_packets, each.sent_packets) and (each.udp_packets or 0) > (each.sent_packets or 0):
        detail = f"{each.guest} read {each.udp_packets} datagrams, and was sent {each.sent_packets}"
        yield reason("witnesses_disagree", detail, guest=each.guest)


# -- the verdict -------------------------------------------------------------------------------------------------------

START_SKEW_RATIO = 0.01
"""Largest difference in start of guests that are to begin together, as a share of the duration."""

BEYOND_RATIO = 1.005
"""Highest share of the line rate that rounding can explain."""

RATE_ERROR = 0.001
"""Relative tolerance of a limiter's rate as read back: a kernel counts in bytes per second."""


def derive_reasons(
    requested: FlowRequested,
    flows: Sequence[SinkFlowRecord],
    senders: Sequence[SenderRecord],
    sink: SinkRecord | None,
    *,
    line_bps: float,
    start_skew_s: float | None,
    swapped_pages: int | None,
    program: ProgramRecord | None,
    limits: Tolerances,
    weights: WeightsRecord | None = None,
    disk: BackgroundDiskRecord | None = None,
) -> list[Reason]:
    """Reasons derived from the record alone, so that anyone can judge it again."""
    found: list[Reason] = []
    is_limited = is_link_limited(requested, senders, line_bps)
    for number, sender in enumerate(senders):
        own = [flow for flow in flows if flow.guest == sender.guest]
        found += _sender(sender)
        found += _limiter(requested, number, sender)
        found += _passed(requested, sender)
        if not is_limited:
            found += _offered(requested, number, sender, line_bps, limits)
        found += _sending_time(requested, number, sender, own, line_bps, limits)
        found += _sizes(requested, sender, own)
    found += weight_reasons(requested, weights)
    found += disk_reasons(requested, disk)
    found += _beyond(senders, line_bps)
    if sink is not None:
        found += (
            reason("no_packets", f"{flow.guest}: nothing of its flow {flow.flow} arrived at the sink", guest=flow.guest)
            for flow in flows
            if not flow.packets
        )
        found += sink_reasons(sink, "the crew's", limits)
    found += _skew(requested, start_skew_s, "by their first packets")
    found += program_reasons(program)
    found += swap_reasons(swapped_pages)
    return found


def derive_ring_reasons(
    requested: FlowRequested,
    ring: Sequence[RingGuestRecord],
    window_s: float | None,
    swapped_pages: int | None,
    program: ProgramRecord | None,
) -> list[Reason]:
    """Like derive_reasons(), for guests in a ring."""
    found = [*ring_reasons(ring, window_s)]
    for number, each in enumerate(ring):
        found += _limiter(requested, number, each)
    return [*found, *program_reasons(program), *swap_reasons(swapped_pages)]


def derive_receive_reasons(
    requested: FlowRequested,
    receivers: Sequence[ReceiverRecord],
    source: SourceRecord | None,
    start_skew_s: float | None,
    swapped_pages: int | None,
    program: ProgramRecord | None,
    limits: Tolerances,
) -> list[Reason]:
    """Like derive_reasons(), for guests that receive."""
    found = [
        *receive_reasons(requested, receivers, source, limits),
        *_skew(requested, start_skew_s, "as the source began"),
    ]
    return [*found, *program_reasons(program), *swap_reasons(swapped_pages)]


def _skew(requested: FlowRequested, start_skew_s: float | None, by: str) -> Iterator[Reason]:
    if start_skew_s is not None and start_skew_s > START_SKEW_RATIO * requested.duration_s:
        expected = f"{requested.second_after_s:g} s apart" if requested.second_after_s else "at once"
        detail = (
            f"the guests were to begin {expected} and were {start_skew_s:.3f} s off, {by}, in a trial "
            f"of {requested.duration_s:g} s"
        )
        yield reason("start_skew", detail, start_skew_s=start_skew_s, duration_s=requested.duration_s)


def _sender(sender: SenderRecord) -> Iterator[Reason]:
    if sender.exit_status is None:
        detail = f"{sender.guest}: its report on the end of sending is unreadable"
        yield reason("guests_missing", detail, guest=sender.guest)
    elif sender.exit_status != 0:
        why = f": {sender.output}" if sender.output else ""
        detail = f"{sender.guest}: iperf ended with status {sender.exit_status}{why}"
        yield reason("generator_failed", detail, guest=sender.guest, exit_status=sender.exit_status)
    if sender.host_packets is not None and sender.packets > sender.host_packets:
        detail = (
            f"{sender.guest}: {sender.host_packets} packets came out of it, and {sender.packets} arrived at the sink"
        )
        yield reason("witnesses_disagree", detail, guest=sender.guest)


def is_link_limited(requested: FlowRequested, senders: Sequence[SenderRecord], line_bps: float) -> bool:
    """Whether guests want more than the link carries, or than its queue of weights lets through, and that was full.
    Then what a guest did not send cannot be distinguished from what the link kept it from sending.
    """
    carried_bps = line_bps * (1.0 if requested.weights is None else LINK_RATIO)
    wanted_bps = sum(let_through_bps(requested, place) for place in range(requested.senders))
    arrived_bps = sum(sender.shared_bps or 0.0 for sender in senders)
    return wanted_bps > carried_bps and arrived_bps >= FULL_LINE_RATIO * carried_bps


def _offered(
    requested: FlowRequested, number: int, sender: SenderRecord, line_bps: float, limits: Tolerances
) -> Iterator[Reason]:
    """Reasons for a guest that did not send what would fit on the link. A request for more than fits only tests what a
    guest can do. For a guest without an interface on the UUT, the sink's count decides. A guest that waits for credit
    must send what the credit gives.
    """
    wanted_bps = intended_bps(requested, number)
    sent_bps = sender.payload_bps if sender.host_packets is None else sender.offered_bps
    if sent_bps is None or wanted_bps > line_bps or (sender.host_packets is None and requested.limit_of(number)):
        return
    if waits_for_credit(sender.limiter) and (limit_bps := requested.limit_of(number)) is not None:
        frames = (requested.payload_bytes + HEADER_BYTES) / requested.payload_bytes
        wanted_bps = min(wanted_bps, round((1 - CREDIT_RATIO) * limit_bps / frames))
    if sent_bps < (1 - limits.offered_ratio) * wanted_bps:
        whence = (
            "arrived from it at the sink" if sender.host_packets is None else "came out of it over its time at the sink"
        )
        detail = f"{sender.guest}: {sent_bps:.0f} bit/s of payload {whence}, of {wanted_bps} that it was to send"
        yield reason("offered_short", detail, guest=sender.guest, offered_bps=sent_bps)


def _sending_time(
    requested: FlowRequested,
    number: int,
    sender: SenderRecord,
    flows: Sequence[SinkFlowRecord],
    line_bps: float,
    limits: Tolerances,
) -> Iterator[Reason]:
    """Judge the sending time by the sink's clock, whatever the guest's says. If more is sent than fits, a queue on the
    way sends for longer.
    """
    took_s, wanted_s = sent_for_s(flows, sender.guest), intended_time_s(requested, number)
    every_bps = sum(intended_bps(requested, place) for place in range(requested.senders))
    if took_s is None:
        return
    evidence = {"guest": sender.guest, "sent_s": took_s, "told_s": wanted_s}
    detail = f"{sender.guest}: its packets came for {took_s:.3f} s, of {wanted_s:g} that it was to send"
    if took_s < (1 - limits.duration_ratio) * wanted_s:
        yield reason("duration_cut", detail, **evidence)
    elif took_s > (1 + limits.duration_ratio) * wanted_s + _queue_s(requested, number, sender) and (
        every_bps <= line_bps
    ):
        yield reason("duration_stretched", detail, **evidence)
    if outside := sum(flow.outside_packets for flow in flows):
        detail = f"{sender.guest}: {outside} of its packets came before or after the bins that were counted"
        yield reason("rate_uncertain", detail, guest=sender.guest, packets=outside)


def _queue_s(requested: FlowRequested, number: int, sender: SenderRecord) -> float:
    """Time for which a guest's limiter still lets through what the guest sent."""
    if waits_for_credit(sender.limiter) and (limit_bps := requested.limit_of(number)) is not None:
        return credit_queue_s(limit_bps, requested.flows_of(number))
    return QUEUE_S


def _sizes(requested: FlowRequested, sender: SenderRecord, flows: Sequence[SinkFlowRecord]) -> Iterator[Reason]:
    """Rates are computed from packets, so all packets must have the requested size."""
    packets, found = sum(flow.packets for flow in flows), sum(flow.bytes for flow in flows)
    if found != packets * (requested.payload_bytes + HEADER_BYTES):
        each_bytes = requested.payload_bytes + HEADER_BYTES
        detail = f"{sender.guest}: its {packets} packets hold {found} bytes, not {each_bytes} each"
        yield reason("generator_failed", detail, guest=sender.guest, packets=packets, bytes=found)


def _beyond(senders: Sequence[SenderRecord], line_bps: float) -> Iterator[Reason]:
    """A rate above the line rate: the link's speed differs from hosts.yaml."""
    rates = [sender.shared_bps for sender in senders if sender.shared_bps is not None]
    if sum(rates) > BEYOND_RATIO * line_bps:
        detail = (
            f"{sum(rates):.0f} bit/s of payload came through a link that carries {line_bps:.0f} at most: its speed is "
            "not what hosts.yaml says"
        )
        yield reason("offered_over", detail, payload_bps=sum(rates), line_bps=line_bps)


def _passed(requested: FlowRequested, sender: SenderRecord) -> Iterator[Reason]:
    """A limiter that frames bypass limits nothing."""
    found = sender.limiter
    if found is not None and found.passed_packets is not None and found.passed_packets < sender.packets:
        detail = (
            f"{sender.guest}: {sender.packets} packets came from it, and {found.passed_packets} went through its "
            "limiter"
        )
        yield reason("limiter_missing", detail, guest=sender.guest, passed_packets=found.passed_packets)


def _limiter(requested: FlowRequested, number: int, sender: SenderRecord | RingGuestRecord) -> Iterator[Reason]:
    wanted_bps, found = requested.limit_of(number), sender.limiter
    credit = waits_for_credit(found)
    if wanted_bps is None:
        if found is not None and found.rate_bps is not None and credit:
            detail = (
                f"{sender.guest}: it is to have no limit, and the back end of its NIC has one of {found.rate_bps} bit/s"
            )
            yield reason("limiter_unasked", detail, guest=sender.guest, found_bps=found.rate_bps)
        return
    if found is None or found.rate_bps is None:
        detail = f"{sender.guest}: its limit of {wanted_bps} bit/s was not there, or not to be read, afterwards"
        yield reason("limiter_missing", detail, guest=sender.guest, rate_bps=wanted_bps)
    elif abs(found.rate_bps - wanted_bps) > max(RATE_ERROR * wanted_bps, CREDIT_STEP_BPS if credit else 0):
        detail = f"{sender.guest}: it is limited to {found.rate_bps} bit/s, not to {wanted_bps}"
        yield reason("limiter_missing", detail, guest=sender.guest, rate_bps=wanted_bps, found_bps=found.rate_bps)
