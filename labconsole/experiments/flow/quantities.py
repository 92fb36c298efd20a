"""Measures of how the guests of one trial share the NIC. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.experiments.flow.limiters import waits_for_credit
from labconsole.experiments.flow.rates import HEADER_BYTES, bin_rates, intended_bps
from labconsole.experiments.flow.record import FlowRecord, SenderRecord
from labconsole.experiments.flow.script import reported_sent_s
from labconsole.measure import fairness
from labconsole.measure.fairness import whole_bins

ENOUGH_RATIO = 1.01
"""Least ratio of offered load to limit at which the limit applies to a guest all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingResult:
    """Result of one trial over the bins in which all guests send; docs/flow.md has the definitions.

    Values are None if they cannot be determined. ``attained``: guest to the share of its limit that it reached, both in
    whole frames. ``interference_ratio`` and ``alone_spread_bps``: of the first guest, if the others begin later.
    ``dominant_bins``: number of bins in which one guest has nearly everything, and of all bins. ``starved_bins``: the
    same for each guest that has next to nothing.
    """

    rates_bps: Mapping[str, Sequence[float]] = field(default_factory=dict)
    attained: Mapping[str, float] = field(default_factory=dict)
    spread_bps: Mapping[str, float] = field(default_factory=dict)
    alone_spread_bps: float | None = None
    interference_ratio: float | None = None
    dominant_bins: tuple[int, int] | None = None
    dominant_s: float | None = None
    starved_bins: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    first_share_ratio: float | None = None


def quantities(record: FlowRecord) -> SharingResult:
    """Derive the measures from the record's flows."""
    requested, names = record.requested, [sender.guest for sender in record.senders]
    first, stop = record.shared_from, record.shared_to
    if first is None or stop is None or stop <= first:
        return SharingResult()

    def rates_of(guest: str, begin: int, end: int) -> list[float]:
        return bin_rates(record.flows, guest, end, requested.payload_bytes, requested.bin_s)[begin:]

    rates = {guest: rates_of(guest, first, stop) for guest in names}
    rows = list(rates.values())
    dominance = fairness.dominance(rows)
    starved = {guest: fairness.starvation(rows, place) for place, guest in enumerate(rates)} if len(rows) > 1 else {}
    spreads = {guest: fairness.spread_bps(values) for guest, values in rates.items()}
    alone = rates_of(names[0], *alone_bins(record)) if alone_bins(record)[1] else []
    return SharingResult(
        rates_bps=rates,
        attained=_attained(record, rates),
        spread_bps={guest: spread for guest, spread in spreads.items() if spread is not None},
        alone_spread_bps=fairness.spread_bps(alone),
        interference_ratio=fairness.interference_ratio(alone, rates[names[0]]) if alone else None,
        dominant_bins=None if dominance is None else (dominance.marked_bins, dominance.of_bins),
        dominant_s=None if dominance is None else dominance.longest_bins * requested.bin_s,
        starved_bins={guest: (of.marked_bins, of.of_bins) for guest, of in starved.items() if of is not None},
        first_share_ratio=fairness.share_ratio(rows, 0) if len(rows) > 1 else None,
    )


def sent_bps(sender: SenderRecord, payload_bytes: int) -> float | None:
    """Payload rate out of a guest over the time for which its iperf reports sending. Packets in the link's queue arrive
    at the sink for longer than that. A guest that waits for credit also sends for longer, so its rate is over the time
    at the sink.
    """
    if waits_for_credit(sender.limiter):
        return sender.offered_bps
    sent_s = reported_sent_s(sender.output)
    return None if sender.host_packets is None or sent_s is None else sender.host_packets * payload_bytes * 8 / sent_s


def alone_bins(record: FlowRecord) -> tuple[int, int]:
    """The bins in which the first guest sends alone: (first, one past the last), which are equal if there are none."""
    requested = record.requested
    own = [flow for flow in record.flows if record.senders and flow.guest == record.senders[0].guest]
    others = [flow for flow in record.flows if flow not in own]
    begun = [flow.first_at_ns for flow in own]
    joined = [flow.first_at_ns for flow in others if flow.first_at_ns is not None]
    if not requested.second_after_s or record.origin_ns is None or not joined or not begun or None in begun:
        return 0, 0
    latest = max(each for each in begun if each is not None)
    return whole_bins(latest, min(joined), record.origin_ns, round(requested.bin_s * 1e9))


def _attained(record: FlowRecord, rates: Mapping[str, Sequence[float]]) -> dict[str, float]:
    requested = record.requested
    layers = (requested.payload_bytes + HEADER_BYTES) / requested.payload_bytes
    found = {}
    for place, (guest, values) in enumerate(rates.items()):
        if (limit_bps := requested.limit_of(place)) is None:
            continue
        sender = record.senders[place]
        offered_bps = sender.offered_bps
        if waits_for_credit(sender.limiter):  # its output never exceeds its limit
            offered_bps = intended_bps(requested, place)
        if offered_bps is not None and offered_bps * layers < ENOUGH_RATIO * limit_bps:
            continue  # it did not offer as much, so what it reached says nothing about the limit
        ratio = fairness.attained_ratio([each * layers for each in values], limit_bps)
        if ratio is not None:
            found[guest] = ratio
    return found
