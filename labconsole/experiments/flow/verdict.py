"""The verdict on one trial of flows: what was seen of guests, limiters, sink and surroundings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.model.inventory import Inventory
from labconsole.model.record.flow import FlowRequested, FlowSeen, SenderSeen, SinkSeen
from labconsole.model.record.run import Reason, Verdict
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import changes
from labconsole.verdict.consequences import weighed
from labconsole.verdict.influences import doubts
from labconsole.verdict.observed import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.verdict.timekeeper import swap_reasons

START_SKEW_RATIO = 0.01
"""Guests that are to begin together do so within this share of the duration."""

RATE_ERROR = 0.001
"""A limiter's rate as it is read back: a kernel counts in bytes a second."""


def judge(
    seen: TrialObservations,
    requested: FlowRequested,
    flows: Sequence[FlowSeen],
    senders: Sequence[SenderSeen],
    sink: SinkSeen | None,
    *,
    line_bps: float,
    capture_failure: str,
    start_skew_s: float | None,
    swapped_pages: int | None,
    guest_problems: Sequence[str],
    limits: Tolerances,
    inventory: Inventory,
) -> Verdict:
    """``guest_problems``: a sentence for every guest that did not answer, or is not what was set up."""
    found = [*seen.doubts, *(reason("guests_missing", problem) for problem in guest_problems)]
    if capture_failure:
        found.append(reason("not_measured", f"the sink's capture cannot be counted: {capture_failure}"))
    found += shown_reasons(
        requested, flows, senders, sink, line_bps=line_bps, start_skew_s=start_skew_s, swapped_pages=swapped_pages,
        limits=limits,
    )  # fmt: skip
    found += changes(seen, limits, inventory.uut)
    found += doubts(seen, (), limits, inventory.uut, emulated=inventory.emulated)
    return weighed(found)


def shown_reasons(
    requested: FlowRequested,
    flows: Sequence[FlowSeen],
    senders: Sequence[SenderSeen],
    sink: SinkSeen | None,
    *,
    line_bps: float,
    start_skew_s: float | None,
    swapped_pages: int | None,
    limits: Tolerances,
) -> list[Reason]:
    """Those that follow from what a record holds, so that whoever has it can judge again."""
    found: list[Reason] = []
    for number, sender in enumerate(senders):
        found += _sender(sender)
        found += _limiter(requested, number, sender)
        found += _offered(requested, number, sender, line_bps, limits)
    if sink is not None:
        found += (
            reason("no_packets", f"{flow.guest}: nothing of its flow {flow.flow} came to the sink", guest=flow.guest)
            for flow in flows
            if not flow.packets
        )
        found += _sink(sink, limits)
    if start_skew_s is not None and start_skew_s > START_SKEW_RATIO * requested.duration_s:
        detail = f"the guests began {start_skew_s:.3f} s apart, in a trial of {requested.duration_s:g} s"
        found.append(reason("start_skew", detail, start_skew_s=start_skew_s, duration_s=requested.duration_s))
    found += swap_reasons(swapped_pages)
    return found


def _sender(sender: SenderSeen) -> Iterator[Reason]:
    if sender.exit_status is None:
        detail = f"{sender.guest}: did not say in a readable way how sending ended"
        yield reason("guests_missing", detail, guest=sender.guest)
    elif sender.exit_status != 0:
        why = f": {sender.output}" if sender.output else ""
        detail = f"{sender.guest}: iperf ended with status {sender.exit_status}{why}"
        yield reason("generator_failed", detail, guest=sender.guest, exit_status=sender.exit_status)
    if sender.host_packets is not None and sender.packets > sender.host_packets:
        detail = f"{sender.guest}: {sender.host_packets} packets came out of it, and {sender.packets} came to the sink"
        yield reason("witnesses_disagree", detail, guest=sender.guest)


def _offered(
    requested: FlowRequested, number: int, sender: SenderSeen, line_bps: float, limits: Tolerances
) -> Iterator[Reason]:
    """What would fit on the link, and the guest did not send: more than fits is asked for to see what it can."""
    intended_bps = requested.offered_bps * (requested.greedy if number == 0 else 1)
    if sender.offered_bps is None or intended_bps > line_bps:
        return
    if sender.offered_bps < (1 - limits.offered_ratio) * intended_bps:
        detail = f"{sender.guest}: sent {sender.offered_bps:.0f} bit/s of payload, of {intended_bps} that it was told"
        yield reason("offered_short", detail, guest=sender.guest, offered_bps=sender.offered_bps)


def _limiter(requested: FlowRequested, number: int, sender: SenderSeen) -> Iterator[Reason]:
    if not requested.limits_bps:
        return
    wanted_bps = requested.limits_bps[number % len(requested.limits_bps)]
    found = sender.limiter
    if found is None or found.rate_bps is None:
        detail = f"{sender.guest}: its limit of {wanted_bps} bit/s was not there when it was read back"
        yield reason("limiter_missing", detail, guest=sender.guest, rate_bps=wanted_bps)
    elif abs(found.rate_bps - wanted_bps) > RATE_ERROR * wanted_bps:
        detail = f"{sender.guest}: it is limited to {found.rate_bps} bit/s, not to {wanted_bps}"
        yield reason("limiter_missing", detail, guest=sender.guest, rate_bps=wanted_bps, found_bps=found.rate_bps)


def _sink(sink: SinkSeen, limits: Tolerances) -> Iterator[Reason]:
    where = f"{sink.node}/{sink.interface}"
    if sink.dropped_packets:
        detail = f"{where}: the capture missed {sink.dropped_packets} packets"
        yield reason("capture_incomplete", detail, node=sink.node, dropped_packets=sink.dropped_packets)
    if sink.nic_packets is not None and sink.nic_packets > sink.captured_packets + (sink.dropped_packets or 0):
        detail = f"{where}: the NIC received {sink.nic_packets} packets, and {sink.captured_packets} were captured"
        yield reason("capture_incomplete", detail, node=sink.node)
    strangers = sink.foreign_packets + sink.other_packets
    if strangers > limits.foreign_packets:
        detail = (
            f"{where}: {strangers} packets are not the crew's: {sink.foreign_packets} of other flows, "
            f"{sink.other_packets} of none"
        )
        yield reason("foreign_frames", detail, node=sink.node, packets=strangers)
