"""What follows from the flows of a trial: each guest's rates, and how all of them share the NIC. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labconsole.measure.fairness import whole_bins
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.model.design_point import FCS_BYTES, PREAMBLE_AND_GAP_BYTES
from labconsole.model.record.flow import FlowRecord, FlowRequested, ReceiverRecord, SinkFlowRecord

HEADER_BYTES = 14 + 20 + 8
"""Ethernet, IPv4, UDP."""

FULL_LINE_RATIO = 0.99
"""From this share of what the link carries on it is the link that decides, and not the platform."""

SAME_TIME_RATIO = 0.001
"""Times in which guests were sent to that differ by no more than this are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTime:
    """The bins in which all guests send, the second not included, and what came in them; None: there are none."""

    first: int | None = None
    stop: int | None = None
    each_bps: Mapping[str, float] | None = None
    sum_bps: float | None = None
    jain: float | None = None


def line_bps(link_speed_bps: int, payload_bytes: int) -> float:
    """What a link carries of such payload at most: every datagram costs header, check sequence, preamble and gap."""
    wire_bytes = payload_bytes + HEADER_BYTES + FCS_BYTES + PREAMBLE_AND_GAP_BYTES
    return link_speed_bps * payload_bytes / wire_bytes


def line_frames_bps(link_speed_bps: int, payload_bytes: int) -> float:
    """The same in whole frames without their check sequence, which is what limits count."""
    return line_bps(link_speed_bps, payload_bytes) * (payload_bytes + HEADER_BYTES) / payload_bytes


def bin_rates(flows: Sequence[SinkFlowRecord], guest: str, bins: int, payload_bytes: int, bin_s: float) -> list[float]:
    """What a guest brought in each of the first ``bins`` bins, in bit/s of payload."""
    packets = [0] * bins
    for flow in flows:
        if flow.guest == guest:
            for number, count in enumerate(flow.bin_packets[:bins]):
                packets[number] += count
    return [count * payload_bytes * 8 / bin_s for count in packets]


def own_rate(flows: Sequence[SinkFlowRecord], guest: str, payload_bytes: int) -> float | None:
    """Bit/s of payload between the first and the last packet of a guest: of n packets the n - 1 that follow one."""
    took_s, packets = sent_for_s(flows, guest), sum(flow.packets for flow in flows if flow.guest == guest)
    return (packets - 1) * payload_bytes * 8 / took_s if took_s else None


def sent_for_s(flows: Sequence[SinkFlowRecord], guest: str) -> float | None:
    """Between the first and the last packet of a guest, by the sink's clock; None: there are no two."""
    own = [flow for flow in flows if flow.guest == guest]
    firsts = [flow.first_at_ns for flow in own if flow.first_at_ns is not None]
    lasts = [flow.last_at_ns for flow in own if flow.last_at_ns is not None]
    took_ns = max(lasts) - min(firsts) if firsts and lasts else 0
    return took_ns / 1e9 if took_ns > 0 else None


def sent_to_at_once(receivers: Sequence[ReceiverRecord]) -> bool:
    """Whether guests were sent to over one time: only then do their rates add up to a rate."""
    times_s = [each.sent_s for each in receivers if each.sent_s is not None]
    return not times_s or max(times_s) - min(times_s) <= SAME_TIME_RATIO * max(times_s)


def arrived_packets(record: FlowRecord) -> int:
    """Of all flows of a trial: at the sink, or read by guests. 0 of a ring, whose packets nobody counts."""
    read = [each.udp_packets or 0 for each in record.receivers]
    return sum(read) if read else sum(each.packets for each in record.senders)


def intended_bps(requested: FlowRequested, place: int) -> int:
    """Payload that the guest at this place, from 0, is told to send."""
    return requested.offered_bps * requested.flows_of(place)


def let_through_bps(requested: FlowRequested, place: int) -> float:
    """What of that its limit, which counts whole frames, leaves."""
    asked_bps, held_bps = float(intended_bps(requested, place)), requested.limit_of(place)
    if held_bps is None:
        return asked_bps
    return min(asked_bps, held_bps * requested.payload_bytes / (requested.payload_bytes + HEADER_BYTES))


def intended_time_s(requested: FlowRequested, place: int) -> float:
    """How long the guest at this place, from 0, was told to send."""
    return requested.duration_s - (requested.second_after_s if place else 0.0)


def offered_bps(host_packets: int | None, sent_s: float | None, payload_bytes: int) -> float | None:
    """Payload that came out of a guest while its packets came to the sink: its own clock may be wrong."""
    return None if host_packets is None or not sent_s else host_packets * payload_bytes * 8 / sent_s


def derive_shared_time(
    flows: Sequence[SinkFlowRecord], guests: Sequence[str], origin_ns: int | None, payload_bytes: int, bin_s: float
) -> SharedTime:
    """What all guests had while all of them sent."""
    began, ended = begins(flows, guests), ends(flows, guests)
    if origin_ns is None or None in began or None in ended:
        return SharedTime()
    first, stop = whole_bins(
        max(each for each in began if each is not None),
        min(each for each in ended if each is not None),
        origin_ns,
        round(bin_s * 1e9),
    )
    stop = min(stop, max(len(flow.bin_packets) for flow in flows))  # what lies beyond was not counted in bins
    if stop <= first:
        return SharedTime()
    of = {guest: bin_rates(flows, guest, stop, payload_bytes, bin_s)[first:] for guest in guests}
    each_bps = {guest: sum(rates) / len(rates) for guest, rates in of.items()}
    return SharedTime(
        first=first,
        stop=stop,
        each_bps=each_bps,
        sum_bps=sum(each_bps.values()),
        jain=jain_index(each_bps.values()),
    )


def begins(flows: Sequence[SinkFlowRecord], guests: Sequence[str]) -> list[int | None]:
    """When the last flow of each guest began, by the sink's clock; None: one did not."""
    return [_extreme(flows, guest, lambda flow: flow.first_at_ns, max) for guest in guests]


def ends(flows: Sequence[SinkFlowRecord], guests: Sequence[str]) -> list[int | None]:
    """When the first flow of each guest ended."""
    return [_extreme(flows, guest, lambda flow: flow.last_at_ns, min) for guest in guests]


def _extreme(
    flows: Sequence[SinkFlowRecord],
    guest: str,
    time_of: Callable[[SinkFlowRecord], int | None],
    choose: Callable[[list[int]], int],
) -> int | None:
    times = [time_of(flow) for flow in flows if flow.guest == guest]
    known = [each for each in times if each is not None]
    return choose(known) if known and len(known) == len(times) else None


def start_skew_s(flows: Sequence[SinkFlowRecord], guests: Sequence[str], second_after_s: float = 0.0) -> float | None:
    """Between the first packets of the guests, each taken off as much later as it was told to begin; None: there are
    no two.
    """
    begun = []
    for place, guest in enumerate(guests):
        own = [flow.first_at_ns for flow in flows if flow.guest == guest and flow.first_at_ns is not None]
        if own:
            begun.append(min(own) - round(second_after_s * 1e9) * (place > 0))
    return (max(begun) - min(begun)) / 1e9 if len(begun) > 1 else None
