"""Rules for the reasons of a trial of guests in a ring, or that receive, stated a second time. Pure.

Shares no code with ring.py and receive_verdict.py, which judged it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from labconsole.experiments.flow.record import FlowRecord, ReceiverRecord, RingGuestRecord
from labconsole.experiments.flow.rules import is_limited_unasked, is_unlimited
from labconsole.measure.recompute import verdict_check as common
from labconsole.measure.recompute.verdict_check import VerdictRules
from labconsole.model.tolerances import Tolerances

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
        "generator_failed": lambda record, limits: any(_is_ring_failed(record, each) for each in record.ring),
        "no_packets": _is_ring_empty,
        "witnesses_disagree": _is_ring_open,
        "limiter_missing": is_unlimited,
        "limiter_unasked": is_limited_unasked,
        "programs_differ": lambda record, limits: common.is_program_unlike(record.program),
        "swapped": common.is_swapped,
        **dict.fromkeys(
            (
                "start_skew",
                "offered_short",
                "offered_over",
                "duration_cut",
                "duration_stretched",
                "rate_uncertain",
                "capture_incomplete",
                "weights_missing",
                "weights_late",
                "mark_lost",
                "job_failed",
            ),
            lambda record, limits: False,
        ),
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


def _is_short(record: FlowRecord, limits: Tolerances) -> bool:
    least_bps = (1 - limits.offered_ratio) * record.requested.offered_bps
    return any((each.offered_bps or 0.0) < least_bps for each in _sent(record))


def _is_cut(record: FlowRecord, limits: Tolerances) -> bool:
    least_s = (1 - limits.duration_ratio) * record.requested.duration_s
    return any(each.sent_s is not None and each.sent_s < least_s for each in _sent(record))


def _is_stretched(record: FlowRecord, limits: Tolerances) -> bool:
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


def _is_contradicted(record: FlowRecord, limits: Tolerances) -> bool:
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
        "generator_failed": lambda record, limits: any(map(_is_unsent, record.receivers)),
        "generator_errors": lambda record, limits: any(each.errors for each in _sent(record)),
        "no_packets": _is_empty,
        "offered_short": _is_short,
        "duration_cut": _is_cut,
        "duration_stretched": _is_stretched,
        "not_measured": lambda record, limits: any(each.udp_packets is None for each in record.receivers),
        "reader_missing": _is_unread,
        "witnesses_disagree": _is_contradicted,
        "foreign_frames": _has_foreign_packets,
        "lost_at_source": _is_lost_at_source,
        "start_skew": common.is_start_apart,
        "programs_differ": lambda record, limits: common.is_program_unlike(record.program),
        "swapped": common.is_swapped,
        **dict.fromkeys(
            (
                "limiter_missing",
                "limiter_unasked",
                "offered_over",
                "rate_uncertain",
                "capture_incomplete",
                "weights_missing",
                "weights_late",
                "mark_lost",
                "job_failed",
            ),
            lambda record, limits: False,
        ),
    },
    also={"not_observed": lambda record, limits: common.is_program_unknown(record.program)},
    excused={},
)
"""Guests that receive have no limiter, no weights and no capture, so they never have the reasons for those."""
