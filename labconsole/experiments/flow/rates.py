"""Rates of each guest and their shares of the NIC, derived from the flows of a trial. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labconsole.engine.crew_sink import SharedTime, derive_shared_time, start_skew_s
from labconsole.experiments.flow.record import FlowRecord, FlowRequested, ReceiverRecord, SinkFlowRecord
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.model.design_point import FCS_BYTES, PREAMBLE_AND_GAP_BYTES
from labconsole.packets.flows import MAX_BINS

HEADER_BYTES = 14 + 20 + 8
"""Ethernet, IPv4 and UDP headers."""

FULL_LINE_RATIO = 0.99
"""Share of the line rate from which the link limits the rate, and not the platform."""

SAME_TIME_RATIO = 0.001
"""Largest relative difference between the guests' receive times that count as one time."""


def line_bps(link_speed_bps: int, payload_bytes: int) -> float:
    """Highest payload rate of a link: every datagram costs header, check sequence, preamble and gap."""
    wire_bytes = payload_bytes + HEADER_BYTES + FCS_BYTES + PREAMBLE_AND_GAP_BYTES
    return link_speed_bps * payload_bytes / wire_bytes


def line_frames_bps(link_speed_bps: int, payload_bytes: int) -> float:
    """Like line_bps(), in whole frames without their check sequence, as limits count."""
    return line_bps(link_speed_bps, payload_bytes) * (payload_bytes + HEADER_BYTES) / payload_bytes


def bin_rates(flows: Sequence[SinkFlowRecord], guest: str, bins: int, payload_bytes: int, bin_s: float) -> list[float]:
    """Payload rate of a guest in each of the first ``bins`` bins, in bit/s, as far as a record may name bins.

    Their number may come from times in another person's record.
    """
    packets = [0] * min(bins, 2 * MAX_BINS)
    for flow in flows:
        if flow.guest == guest:
            for number, count in enumerate(flow.bin_packets[: len(packets)]):
                packets[number] += count
    return [count * payload_bytes * 8 / bin_s for count in packets]


def own_rate(flows: Sequence[SinkFlowRecord], guest: str, payload_bytes: int) -> float | None:
    """Payload rate between a guest's first and last packet in bit/s, from n - 1 of its n packets. None for fewer than
    two packets.
    """
    took_s, packets = sent_for_s(flows, guest), sum(flow.packets for flow in flows if flow.guest == guest)
    return (packets - 1) * payload_bytes * 8 / took_s if took_s else None


def sent_for_s(flows: Sequence[SinkFlowRecord], guest: str) -> float | None:
    """Time between a guest's first and last packet by the sink's clock, or None for fewer than two packets."""
    own = [flow for flow in flows if flow.guest == guest]
    firsts = [flow.first_at_ns for flow in own if flow.first_at_ns is not None]
    lasts = [flow.last_at_ns for flow in own if flow.last_at_ns is not None]
    took_ns = max(lasts) - min(firsts) if firsts and lasts else 0
    return took_ns / 1e9 if took_ns > 0 else None


def sent_to_at_once(receivers: Sequence[ReceiverRecord]) -> bool:
    """Whether all guests were sent to over the same time. Only then do their rates add up to a rate."""
    times_s = [each.sent_s for each in receivers if each.sent_s is not None]
    return not times_s or max(times_s) - min(times_s) <= SAME_TIME_RATIO * max(times_s)


def arrived_packets(record: FlowRecord) -> int:
    """Packets of all flows of a trial that arrived at the sink or that guests read; 0 for a ring, whose packets are not
    counted.
    """
    read = [each.udp_packets or 0 for each in record.receivers]
    return sum(read) if read else sum(each.packets for each in record.senders)


def intended_bps(requested: FlowRequested, place: int) -> int:
    """Payload rate requested of the guest at this place, from 0."""
    return requested.offered_bps * requested.flows_of(place)


def let_through_bps(requested: FlowRequested, place: int) -> float:
    """The part of intended_bps() that the guest's limit lets through; limits count whole frames."""
    requested_bps, limit_bps = float(intended_bps(requested, place)), requested.limit_of(place)
    if limit_bps is None:
        return requested_bps
    return min(requested_bps, limit_bps * requested.payload_bytes / (requested.payload_bytes + HEADER_BYTES))


def intended_time_s(requested: FlowRequested, place: int) -> float:
    """Sending time requested of the guest at this place, from 0."""
    return requested.duration_s - (requested.second_after_s if place else 0.0)


def offered_bps(host_packets: int | None, sent_s: float | None, payload_bytes: int) -> float | None:
    """Payload rate out of a guest over the time its packets arrived at the sink, as its own clock may be wrong."""
    return None if host_packets is None or not sent_s else host_packets * payload_bytes * 8 / sent_s


def sum_rates(rates_bps: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Sum of the guests' rates, and Jain's index over them; both are None if one rate is not known."""
    every = list(rates_bps)
    known = [each for each in every if each is not None]
    return (sum(known), jain_index(known)) if known and len(known) == len(every) else (None, None)


def derive_guest_rates(
    flows: Sequence[SinkFlowRecord], guests: Sequence[str], origin_ns: int | None, payload_bytes: int, bin_s: float
) -> SharedTime:
    """Derive all guests' rates over the time in which all of them send."""

    def rate_bps(guest: str, first: int, stop: int) -> float:
        rates = bin_rates(flows, guest, stop, payload_bytes, bin_s)[first:]
        return sum(rates) / len(rates)

    by_guest = {guest: [flow for flow in flows if flow.guest == guest] for guest in guests}
    return derive_shared_time(by_guest, origin_ns, bin_s, rate_bps)


def begin_skew_s(flows: Sequence[SinkFlowRecord], guests: Sequence[str], second_after_s: float = 0.0) -> float | None:
    """Time between the guests' first packets, less the requested delay of each, or None for fewer than two guests."""
    begun = []
    for place, guest in enumerate(guests):
        own = [flow.first_at_ns for flow in flows if flow.guest == guest and flow.first_at_ns is not None]
        begun += [min(own) - round(second_after_s * 1e9) * (place > 0)] if own else []
    return start_skew_s(begun)
