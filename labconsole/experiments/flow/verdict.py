"""The verdict on one trial of flows, from observations of guests, limiters, sink and surroundings. Pure."""

from __future__ import annotations

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
from labconsole.experiments.flow.receive_verdict import receive_reasons
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
from labconsole.model.record.crew_trial import ProgramRecord
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.crew_trial import sink_reasons
from labconsole.verdict.programs import program_reasons
from labconsole.verdict.reasons import reason
from labconsole.verdict.timekeeper import swap_reasons

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
