"""Rules for the reasons of a trial of flows, stated a second time: code to condition over its record. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from labconsole.experiments.flow.record import (
    FlowRecord,
    ReceiverRecord,
    RingGuestRecord,
    SenderRecord,
    SinkFlowRecord,
    WeightStepRecord,
)
from labconsole.measure.recompute import guest_trial as common
from labconsole.measure.recompute.guest_trial import Condition, VerdictRules
from labconsole.model.tolerances import Tolerances

# -- guests that send --------------------------------------------------------------------------------------------------
# Shares no code with verdict.py, weights.py and disk.py, which judged it. docs/flow.md and docs/data-format.md explain
# the codes. Rings and guests that receive have rules of their own.

HEADERS = 42
"""Bytes of a frame without payload and check sequence: Ethernet, IPv4 and UDP."""

CREDIT = "netback credit"
"""The limiter of Xen's back end, which makes a guest wait. It gives up to a tenth less, in steps of 160 bit/s."""

CREDIT_SHARE, CREDIT_STEP_BPS, CREDIT_BYTES, SOCKET_BYTES = 0.9, 160, 256 * 1514, 212_992
QUEUE_S = 0.05
FULL_RATIO, BEYOND_RATIO, QUEUE_RATIO = 0.99, 1.005, 0.985
"""Shares of the line rate: where the link limits guests, what is impossible, and what a queue of weights passes."""

RATE_ERROR, LATE_S, FILLED_RATIO = 0.001, 0.01, 0.97


def _is_credit(sender: SenderRecord | RingGuestRecord) -> bool:
    return sender.limiter is not None and sender.limiter.kind == CREDIT


def _limited(record: FlowRecord) -> tuple[SenderRecord | RingGuestRecord, ...]:
    """The guests that a limiter may limit."""
    return (*record.senders, *record.ring)


def _limit_bps(record: FlowRecord, place: int) -> int | None:
    limits = record.requested.limits_bps
    return limits[place % len(limits)] if limits else None


def is_unlimited(record: FlowRecord, limits: Tolerances) -> bool:
    """A requested limit was missing, had another rate, or was bypassed."""
    for place, each in enumerate(_limited(record)):
        limit_bps, found = _limit_bps(record, place), each.limiter
        if limit_bps is not None:
            if found is None or found.rate_bps is None:
                return True
            allowed_bps = max(RATE_ERROR * limit_bps, CREDIT_STEP_BPS if _is_credit(each) else 0)
            if abs(found.rate_bps - limit_bps) > allowed_bps:
                return True
        passed = None if found is None or isinstance(each, RingGuestRecord) else found.passed_packets
        if passed is not None and isinstance(each, SenderRecord) and passed < each.packets:
            return True
    return False


def is_limited_unasked(record: FlowRecord, limits: Tolerances) -> bool:
    """A guest's back end had a limit, although none was requested."""
    return any(
        _limit_bps(record, place) is None and each.limiter is not None and each.limiter.rate_bps is not None
        for place, each in enumerate(_limited(record))
        if _is_credit(each)
    )


def _guest_flows(record: FlowRecord, sender: SenderRecord) -> list[SinkFlowRecord]:
    return [flow for flow in record.flows if flow.guest == sender.guest]


def _intended_bps(record: FlowRecord, place: int) -> int:
    """Payload rate requested of a guest."""
    return record.requested.offered_bps * (record.requested.greedy if place == 0 else 1)


def _payload_bps(record: FlowRecord, frames_bps: float) -> float:
    return frames_bps * record.requested.payload_bytes / (record.requested.payload_bytes + HEADERS)


def is_link_limited(record: FlowRecord, limits: Tolerances) -> bool:
    """Guests want more than the link carries, or than a queue of weights lets through, and that was full."""
    carried_bps = record.line_bps * (1 if record.requested.weights is None else QUEUE_RATIO)
    wanted_bps = 0.0
    for place in range(record.requested.guests - (record.requested.disk is not None)):
        limit_bps = _limit_bps(record, place)
        intended_bps = float(_intended_bps(record, place))
        wanted_bps += intended_bps if limit_bps is None else min(intended_bps, _payload_bps(record, limit_bps))
    arrived_bps = sum(sender.shared_bps or 0.0 for sender in record.senders)
    return wanted_bps > carried_bps and arrived_bps >= FULL_RATIO * carried_bps


def _is_short(record: FlowRecord, limits: Tolerances) -> bool:
    """A guest sent less than requested although there was room, or guests did not fill what they share."""
    if any(_is_unfilled(record, step) for step in _steps(record)):
        return True
    if is_link_limited(record, limits):
        return False
    for place, sender in enumerate(record.senders):
        limit_bps, due_bps = _limit_bps(record, place), _intended_bps(record, place)
        is_seen = sender.host_packets is not None
        sent_bps = sender.offered_bps if is_seen else sender.payload_bps
        if sent_bps is None or due_bps > record.line_bps or (not is_seen and limit_bps):
            continue
        if _is_credit(sender) and limit_bps is not None:
            due_bps = min(due_bps, round(_payload_bps(record, CREDIT_SHARE * limit_bps)))
        if sent_bps < (1 - limits.offered_ratio) * due_bps:
            return True
    return False


def _steps(record: FlowRecord) -> tuple[WeightStepRecord, ...]:
    """The steps that took effect, of weights that were in use."""
    if record.requested.weights is None or record.weights is None or record.weights.begun_ns is None:
        return ()
    return tuple(step for step in record.weights.steps if step.taken_s is not None)


def _is_unfilled(record: FlowRecord, step: WeightStepRecord) -> bool:
    if record.weights is None or step.first_bin is None or step.filled_ratio is None:
        return False
    link_bps = record.weights.link_bps
    most = [_limit_bps(record, place) or link_bps for place in range(record.requested.guests)]
    return link_bps > 0 and step.filled_ratio < FILLED_RATIO * min(link_bps, sum(most)) / link_bps


def _took_s(flows: list[SinkFlowRecord]) -> float | None:
    firsts = [flow.first_at_ns for flow in flows if flow.first_at_ns is not None]
    lasts = [flow.last_at_ns for flow in flows if flow.last_at_ns is not None]
    took_ns = max(lasts) - min(firsts) if firsts and lasts else 0
    return took_ns / 1e9 if took_ns > 0 else None


def _times(record: FlowRecord) -> list[tuple[int, float, float]]:
    """(place, time over which its packets arrived, requested sending time) of every guest with both times known."""
    found = []
    for place, sender in enumerate(record.senders):
        took_s = _took_s(_guest_flows(record, sender))
        if took_s is not None:
            late_s = record.requested.second_after_s if place else 0.0
            found.append((place, took_s, record.requested.duration_s - late_s))
    return found


def _is_cut(record: FlowRecord, limits: Tolerances) -> bool:
    return any(took_s < (1 - limits.duration_ratio) * due_s for _, took_s, due_s in _times(record))


def _is_stretched(record: FlowRecord, limits: Tolerances) -> bool:
    """Packets arrived for longer than requested and than a queue takes to drain, while all fits on the link."""
    senders = range(record.requested.guests - (record.requested.disk is not None))
    if sum(_intended_bps(record, place) for place in senders) > record.line_bps:
        return False
    for place, took_s, due_s in _times(record):
        queue_s, limit_bps = QUEUE_S, _limit_bps(record, place)
        if _is_credit(record.senders[place]) and limit_bps is not None:
            flows = record.requested.greedy if place == 0 else 1
            queue_s = 8 * (CREDIT_BYTES + flows * SOCKET_BYTES) / (CREDIT_SHARE * limit_bps)
        if took_s > (1 + limits.duration_ratio) * due_s + queue_s:
            return True
    return False


def _is_uncertain(record: FlowRecord, limits: Tolerances) -> bool:
    """Packets lie outside the bins, a step has no bin, or work on a disk has none before it or in it."""
    outside = any(
        any(flow.outside_packets for flow in _guest_flows(record, sender))
        and _took_s(_guest_flows(record, sender)) is not None
        for sender in record.senders
    )
    disk = record.disk if record.requested.disk is not None else None
    is_unseen = disk is not None and None not in (disk.start_ns, disk.end_ns) and disk.during_ratio is None
    return outside or is_unseen or any(step.first_bin is None for step in _steps(record))


def _is_failed(record: FlowRecord, limits: Tolerances) -> bool:
    """A guest's sender did not end well, or sent datagrams of another size."""
    frame_bytes = record.requested.payload_bytes + HEADERS
    return any(
        sender.exit_status not in (None, 0)
        or any(
            sum(flow.bytes for flow in own) != frame_bytes * sum(flow.packets for flow in own)
            for own in [_guest_flows(record, sender)]
        )
        for sender in record.senders
    )


def _is_contradicted(record: FlowRecord, limits: Tolerances) -> bool:
    more = any(sender.host_packets is not None and sender.packets > sender.host_packets for sender in record.senders)
    return more or common.is_beyond_nic(record.sink)


def _is_without_weights(record: FlowRecord, limits: Tolerances) -> bool:
    requested, seen = record.requested.weights, record.weights
    if requested is None:
        return False
    if seen is None or seen.begun_ns is None:
        return True
    for step in seen.steps:
        if step.taken_s is None:
            return True
        total = max(1, sum(step.weights))
        due = [
            min(_limit_bps(record, place) or seen.link_bps, seen.link_bps * weight // total)
            for place, weight in enumerate(step.weights)
        ]
        for found in (step.rates_bps, step.kept_bps):
            if len(found) != len(due) or any(
                rate is None or abs(rate - wanted) > RATE_ERROR * wanted
                for rate, wanted in zip(found, due, strict=True)
            ):
                return True
    return False


def _is_late(record: FlowRecord, limits: Tolerances) -> bool:
    seen = record.weights
    if record.requested.weights is None or seen is None or seen.begun_ns is None:
        return False
    is_unseen = seen.looked_ns is None or seen.begun_ns - seen.looked_ns > LATE_S * 1e9
    return is_unseen or any((step.taken_s or 0.0) - step.due_s > LATE_S for step in _steps(record))


def _is_beyond_link(record: FlowRecord, limits: Tolerances) -> bool:
    return sum(sender.shared_bps or 0.0 for sender in record.senders) > BEYOND_RATIO * record.line_bps


def _is_disk_mark_lost(record: FlowRecord, limits: Tolerances) -> bool:
    disk = record.disk if record.requested.disk is not None else None
    return disk is not None and None in (disk.start_ns, disk.end_ns)


def _is_disk_failed(record: FlowRecord, limits: Tolerances) -> bool:
    disk = record.disk if record.requested.disk is not None else None
    return disk is not None and disk.exit_status not in (None, 0)


def _is_silent(record: FlowRecord, limits: Tolerances) -> bool:
    disk = record.disk if record.requested.disk is not None else None
    is_disk_silent = disk is not None and disk.exit_status is None
    return is_disk_silent or any(sender.exit_status is None for sender in record.senders)


OUT_RULES: VerdictRules[FlowRecord] = VerdictRules(
    only={
        "no_packets": lambda record, limits: record.sink is not None and any(not flow.packets for flow in record.flows),
        "generator_failed": _is_failed,
        "limiter_missing": is_unlimited,
        "limiter_unasked": is_limited_unasked,
        "start_skew": common.is_start_apart,
        "swapped": common.is_swapped,
        "offered_short": _is_short,
        "offered_over": _is_beyond_link,
        "duration_cut": _is_cut,
        "duration_stretched": _is_stretched,
        "rate_uncertain": _is_uncertain,
        "capture_incomplete": lambda record, limits: common.is_capture_short(record.sink),
        "witnesses_disagree": _is_contradicted,
        "programs_differ": lambda record, limits: common.is_program_unlike(record.program),
        "weights_missing": _is_without_weights,
        "weights_late": _is_late,
        "mark_lost": _is_disk_mark_lost,
        "job_failed": _is_disk_failed,
    },
    also={
        "guests_missing": _is_silent,
        "foreign_frames": lambda record, limits: common.has_foreign_packets(record.sink, limits),
        "not_observed": lambda record, limits: (
            common.is_nic_unread(record.sink) or common.is_program_unknown(record.program)
        ),
        "not_measured": lambda record, limits: record.requested.disk is not None and record.disk is None,
    },
    excused={"offered_short": is_link_limited},  # an earlier version gave this reason on a full link
)

NEVER: Final[Mapping[str, Condition[FlowRecord]]] = dict.fromkeys(OUT_RULES.only, lambda record, limits: False)
"""Reasons that a trial has only if its guests send to the sink, or for what its own rules say."""


# -- guests in a ring, or that receive ---------------------------------------------------------------------------------
# Rules for the reasons of a trial of guests in a ring, or that receive, stated a second time.
#
# Shares no code with ring.py and verdict.py, which judged it.

RING_ERROR = 0.05
"""Largest relative difference between the bytes out of a ring's guests and into them."""


def _is_ring_failed(record: FlowRecord, each: RingGuestRecord) -> bool:
    if each.exit_status is None:
        return False
    return each.exit_status != 0 or (record.window_s is not None and each.said_bps is None)


def _is_ring_silent(record: FlowRecord, limits: Tolerances) -> bool:
    return any(each.exit_status is None for each in record.ring)


def _is_ring_empty(record: FlowRecord, limits: Tolerances) -> bool:
    return any(
        each.exit_status == 0 and not _is_ring_failed(record, each) and each.out_bytes == 0 for each in record.ring
    )


def _is_ring_apart(record: FlowRecord, limits: Tolerances) -> bool:
    """There is no window, and no other reason explains it."""
    if not record.ring or record.window_s is not None:
        return False
    return all(each.exit_status == 0 and each.out_bytes != 0 for each in record.ring)


def _is_ring_open(record: FlowRecord, limits: Tolerances) -> bool:
    out, into = [each.out_bytes for each in record.ring], [each.in_bytes for each in record.ring]
    if not record.ring or None in out or None in into:
        return False
    out_bytes, in_bytes = sum(each or 0 for each in out), sum(each or 0 for each in into)
    return abs(out_bytes - in_bytes) > RING_ERROR * out_bytes


RING_RULES: VerdictRules[FlowRecord] = VerdictRules(
    only={
        **NEVER,
        "generator_failed": lambda record, limits: any(_is_ring_failed(record, each) for each in record.ring),
        "no_packets": _is_ring_empty,
        "witnesses_disagree": _is_ring_open,
        "limiter_missing": is_unlimited,
        "limiter_unasked": is_limited_unasked,
        "programs_differ": lambda record, limits: common.is_program_unlike(record.program),
        "swapped": common.is_swapped,
    },
    also={
        "guests_missing": _is_ring_silent,
        "not_measured": _is_ring_apart,
        "not_observed": lambda record, limits: common.is_program_unknown(record.program),
    },
    excused={},
)
"""A ring has no offered load, no capture and no limited time, so it never has the reasons for those."""


def _is_unsent(each: ReceiverRecord) -> bool:
    return each.sent_packets is None or each.sent_s is None or each.stopped_by == "error"


def _sent(record: FlowRecord) -> list[ReceiverRecord]:
    return [each for each in record.receivers if not _is_unsent(each)]


def _is_source_short(record: FlowRecord, limits: Tolerances) -> bool:
    least_bps = (1 - limits.offered_ratio) * record.requested.offered_bps
    return any((each.offered_bps or 0.0) < least_bps for each in _sent(record))


def _is_source_cut(record: FlowRecord, limits: Tolerances) -> bool:
    least_s = (1 - limits.duration_ratio) * record.requested.duration_s
    return any(each.sent_s is not None and each.sent_s < least_s for each in _sent(record))


def _is_source_stretched(record: FlowRecord, limits: Tolerances) -> bool:
    most_s = (1 + limits.duration_ratio) * record.requested.duration_s
    return any(each.sent_s is not None and each.sent_s > most_s for each in _sent(record))


def _is_empty(record: FlowRecord, limits: Tolerances) -> bool:
    """Nothing was sent to a guest, or nothing arrived there."""
    return any(each.sent_packets == 0 for each in _sent(record)) or any(
        each.sent_packets
        and each.udp_packets == 0
        and not (each.socket_full_packets or each.no_reader_packets or each.ip_packets)
        for each in record.receivers
    )


def _is_unread(record: FlowRecord, limits: Tolerances) -> bool:
    return any(each.udp_packets is not None and not each.reader for each in record.receivers)


def _counts(each: ReceiverRecord) -> Iterator[int]:
    """Known counts on the way from the interface to a guest, and the sum over its UDP layer if known."""
    taken = (each.udp_packets, each.socket_full_packets, each.no_reader_packets, each.error_packets)
    at_udp = None if None in taken else sum(count or 0 for count in taken)
    places = (each.handed_packets, each.nic_packets, each.ip_packets, at_udp)
    yield from (count for count in places if count is not None)


def _are_receivers_contradicted(record: FlowRecord, limits: Tolerances) -> bool:
    """A guest counts more than it was given, or read more than was sent."""
    for each in record.receivers:
        if any(after > before for before, after in pairwise(_counts(each))):
            return True
        if each.udp_packets is not None and each.sent_packets is not None and each.udp_packets > each.sent_packets:
            return True
    return False


def _total(record: FlowRecord) -> int | None:
    """Packets sent to all guests, or None if not known or without a record of the source."""
    sent = [each.sent_packets for each in record.receivers]
    return None if record.source is None or not sent or None in sent else sum(each or 0 for each in sent)


def _has_foreign_packets(record: FlowRecord, limits: Tolerances) -> bool:
    """A guest was handed more than was sent to it, or more arrived at the unit under test."""
    for each in record.receivers:
        sent = each.sent_packets
        if each.handed_packets is not None and sent is not None and each.handed_packets - sent > limits.foreign_packets:
            return True
    total, source = _total(record), record.source
    if total is None or source is None or source.uut_packets is None:
        return False
    return source.uut_packets - total > limits.foreign_packets


def _is_lost_at_source(record: FlowRecord, limits: Tolerances) -> bool:
    total, source = _total(record), record.source
    return total is not None and source is not None and source.nic_packets is not None and source.nic_packets < total


IN_RULES: VerdictRules[FlowRecord] = VerdictRules(
    only={
        **NEVER,
        "generator_failed": lambda record, limits: any(map(_is_unsent, record.receivers)),
        "generator_errors": lambda record, limits: any(each.errors for each in _sent(record)),
        "no_packets": _is_empty,
        "offered_short": _is_source_short,
        "duration_cut": _is_source_cut,
        "duration_stretched": _is_source_stretched,
        "not_measured": lambda record, limits: any(each.udp_packets is None for each in record.receivers),
        "reader_missing": _is_unread,
        "witnesses_disagree": _are_receivers_contradicted,
        "foreign_frames": _has_foreign_packets,
        "lost_at_source": _is_lost_at_source,
        "start_skew": common.is_start_apart,
        "programs_differ": lambda record, limits: common.is_program_unlike(record.program),
        "swapped": common.is_swapped,
    },
    also={"not_observed": lambda record, limits: common.is_program_unknown(record.program)},
    excused={},
)
"""Guests that receive have no limiter, no weights and no capture, so they never have the reasons for those."""
