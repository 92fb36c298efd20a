"""Reasons to doubt a trial of guests that receive, derived from its record. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from labconsole.experiments.flow.record import FlowRequested, ReceiverRecord, SourceRecord
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import reason


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
